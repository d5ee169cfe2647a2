"""Order in which layers run, and places of their signals in one workspace, so that it is small."""

from collections.abc import Sequence

from sight.models.export.c.layers import Conv, Encoder, Layer, Signal

#: Places are multiples of this, for floats and for words of four bytes.
ALIGNMENT = 4


def order_layers(encoder: Encoder) -> list[Layer]:
    """Return the layers in an order in which they can run; the next one is always that which leaves least memory."""
    waiting, done, ordered = list(encoder.layers), {encoder.input}, []
    while waiting:
        ready = [layer for layer in waiting if set(layer.inputs) <= done]
        best = min(ready, key=lambda layer: _live_bytes(encoder, layer, waiting, done))
        waiting.remove(best)
        done.add(best.output)
        ordered.append(best)
    return ordered


def place_signals(encoder: Encoder) -> tuple[dict[Signal, int], int]:
    """Return the first byte of each signal in the workspace, and its size; layers must be in order.

    A signal takes the lowest place that no signal uses which is still needed. A convolution writes over its residual if
    nothing else needs that.
    """
    places: dict[Signal, int] = {encoder.input: 0}
    size = _rounded(encoder.input.nbytes)
    for at, layer in enumerate(encoder.layers):
        residual = layer.residual if isinstance(layer, Conv) else None
        later = _needed(encoder, encoder.layers[at + 1 :])
        if residual and residual not in later and residual.nbytes >= layer.output.nbytes:
            places[layer.output] = places[residual]
            continue
        taken = [(places[signal], places[signal] + _rounded(signal.nbytes)) for signal in places
                 if signal in later or signal in layer.inputs]  # fmt: skip
        start = 0
        for first, end in sorted(taken):
            if start + layer.output.nbytes <= first:
                break
            start = max(start, end)
        places[layer.output] = start
        size = max(size, start + _rounded(layer.output.nbytes))
    return places, size


def _needed(encoder: Encoder, layers: Sequence[Layer]) -> set[Signal]:
    return {signal for layer in layers for signal in layer.inputs} | {encoder.last}


def _live_bytes(encoder: Encoder, layer: Layer, waiting: Sequence[Layer], done: set[Signal]) -> int:
    """Return the bytes that are in use after a layer has run."""
    later = _needed(encoder, [each for each in waiting if each is not layer])
    return sum(signal.nbytes for signal in (done | {layer.output}) & later)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
