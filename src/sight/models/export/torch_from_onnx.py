"""Torch source of an exported ONNX file: its graph holds every tensor of the network under the network's own names."""

from typing import Any

import torch

from sight import registry
from sight.models.export.onnx import check_agreement
from sight.models.export.torch_graph import WIDE
from sight.models.onnx import OnnxSource, random_windows
from sight.models.torch import TorchSource


def rebuild(source: OnnxSource) -> TorchSource:
    """Return an ONNX source as a torch source with the same predictions, to export it in other forms.

    Raises
    ------
    TypeError
        If the model is not a network of `sight`, such as one of another tool.
    ValueError
        If the model is quantised.
    """
    card = source.card
    if card is None or card.encoder not in registry.names("encoders"):
        raise TypeError(
            f"Expected a torch model, or a file of a network that sight trained, which can be built again, got "
            f"{source.path.name}; for a torch network of yours call sight.export(sight.wrap(network, ...), path, "
            f'method="...").'
        )
    network = registry.get("encoders", card.encoder)(**card.encoder_args)
    tensors = _tensors(source)
    state = {name: tensors.get(name, value) for name, value in network.state_dict().items()}
    if missing := [name for name in state if name not in tensors and not name.endswith("num_batches_tracked")]:
        raise ValueError(
            f"Expected the tensors of a network {card.encoder!r} in {source.path.name}, {missing[0]} and "
            f"{len(missing) - 1} others are missing; export the float32 model, without --int8."
        )
    network.load_state_dict(state)
    network.normalise(card.mean, card.std, card.fill)
    rebuilt = TorchSource(network, classes=source.classes, card=card, stats=source.stats)
    x = random_windows(card, 4, source.shape)
    for name, expected, output in zip(("features", "probabilities"), source.encode(x), rebuilt.encode(x), strict=True):
        check_agreement(name, expected, output, tolerance=1e-5)
    return rebuilt


def _tensors(source: OnnxSource) -> dict[str, torch.Tensor]:
    """Return the tensors of the graph by their names in the network; convolutions of images become 1-D again."""
    found = {}
    for each in source.graph().graph.initializer:
        found[each.name.removeprefix("network.").removesuffix(WIDE)] = _array(each, each.name.endswith(WIDE))
    return found


def _array(tensor: Any, is_wide: bool) -> torch.Tensor:
    from onnx import numpy_helper

    values = torch.from_numpy(numpy_helper.to_array(tensor).copy())
    return values.squeeze(2) if is_wide else values
