"""Export of a model and a method as portable C source, for microcontrollers; docs/device.md describes its use."""

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sight._util.atomic import staged_files
from sight.base import Adapter, Source
from sight.models.export.c import encoder_file, generated_files
from sight.models.export.c.layers import Encoder
from sight.models.export.c.memory_plan import order_layers, place_signals
from sight.models.export.c.methods import METHODS, constants
from sight.models.export.c.onnx_layers import read_encoder
from sight.models.export.c.readme_file import readme
from sight.models.given_features import ProbabilitySource
from sight.models.onnx import random_windows
from sight.registry import RECOMMENDED, method as make_method
from sight.types import Array

#: C files that are copied as they are.
SOURCE = Path(__file__).parent / "source"
ADAPTER_FILES = ("vector_math.h", "vector_math.c", "state_bytes.c", "example_adapter.c", "Makefile")
PROGRAM_FILES = ("main.c", "program.mk", "board_startup.c", "board_mps2_an386.ld")
#: Difference of features, relative to the largest one, between the layers and the graph that they were read from.
TOLERANCE = 1e-4


def export_c(
    source: Source,
    folder: str | Path,
    *,
    name: str = "model",
    method: str | Adapter = RECOMMENDED,
    int8: Array | Literal["stored"] | None = None,
    windower: Mapping[str, Any] | None = None,
    encoder: bool = True,
) -> Path:
    """Write a model and a method as C source into a new folder, and return its path.

    Parameters
    ----------
    source
        Source model. Its encoder is included if it is a torch or ONNX model of convolutions, batch normalisation, ReLU,
        additions and pools, as the encoders "cnn" and "resnet" are. For an encoder of another tool:
        `sight.models.given_features.ProbabilitySource` with the names of the classes, or `FeatureSource` with the
        weights of the last layer.
    folder
        New or empty folder.
    name
        Name of the model in the files.
    method
        Method by name, or an adapter with hyper-parameters: keel, sight, sticky, sticky-learned or ema.
    int8
        Windows (N, C, T) that set the range of each layer of an 8-bit encoder, or "stored" for the ranges that a
        bundled model contains; None for float32.
    windower
        Numbers of the windower for a sensor (`sight.recordings.signal.live_windows.Windower.constants`); None leaves it
        out. With it and the encoder, the folder contains a complete program.
    encoder
        Whether to include the encoder; False leaves it to another tool.

    Raises
    ------
    ValueError
        If the folder is not empty, or the encoder has layers that are not available in C.
    TypeError
        If the method is not available in C, or needs features of a model that is known by its probabilities only.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"Expected a new or empty folder, but {folder} exists; name another one, or delete it.")
    adapter: Any = make_method(method) if isinstance(method, str) else dataclasses.replace(method)
    if adapter.name not in METHODS:
        raise TypeError(f"Expected {', '.join(METHODS)} for C, got {adapter.name}; use other methods with ONNX.")
    adapter.bind(source)
    if isinstance(source, ProbabilitySource) and constants(adapter)["uses_features"]:
        raise TypeError(f"Expected a method that needs no features, got {adapter.name}; use keel, or a FeatureSource.")
    layers = _read_layers(source, int8) if encoder else None
    files = _texts(name, adapter, layers, windower)
    with staged_files(folder, list(files)) as draft:
        for file, text in files.items():
            (draft / file).write_text(text, "utf-8")
    return folder


def _texts(name: str, adapter: Any, encoder: Encoder | None, windower: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the files of the folder by name, the README last."""
    method_file, copied = f"method_{adapter.name.replace('-', '_')}", list(ADAPTER_FILES)
    workspace, texts = 0, {}
    if encoder is not None:
        places, workspace = place_signals(encoder)
        kinds = ("layers", "layers_float32", *(["layers_int8"] if encoder.int8 else ()))
        copied += [f"{kind}.{suffix}" for kind in kinds for suffix in "hc"]
        texts["encoder.c"] = encoder_file.encoder_source(encoder, places)
        texts["encoder_constants.h"] = encoder_file.encoder_constants(encoder)
    if windower is not None:
        copied += ["windower.h", "windower.c"]
        texts["windower_constants.h"] = generated_files.windower_constants(windower)
    copied += PROGRAM_FILES if encoder is not None and windower is not None else []
    copied += ["sight.h", f"{method_file}.h", f"{method_file}.c"]
    texts |= {file: (SOURCE / file).read_text("utf-8").replace("METHOD.h", f"{method_file}.h") for file in copied}
    texts |= {
        "sight_config.h": generated_files.config(name, adapter, encoder, workspace, windower),
        "method_constants.h": generated_files.method_constants(adapter),
        "class_names.c": generated_files.class_names(adapter.source.classes),
        "sources.mk": generated_files.sources(method_file, encoder, windower is not None),
    }
    texts = {file: generated_files.stamped(file, text, copied=file in copied) for file, text in texts.items()}
    return texts | {"README.md": readme(name, adapter, encoder, workspace, windower, sorted(texts))}


def _read_layers(source: Any, int8: Array | Literal["stored"] | None) -> Encoder:
    """Return the layers of the encoder in the order in which they run, checked against the model."""
    import onnx

    from sight.models.export import export
    from sight.models.export.int8 import quantise

    with tempfile.TemporaryDirectory() as temporary:
        path = export(source, Path(temporary) / "plain.onnx")
        plain = read_encoder(onnx.load(path))
        x = random_windows(source.card, 1, (plain.input.channels, plain.input.length))
        expected, found = source.encode(x)[0][0], plain.features(x[0])
        difference = float(np.abs(expected - found).max() / max(1, np.abs(expected).max()))
        if not difference <= TOLERANCE:
            raise RuntimeError(
                f"Expected features of the layers within {TOLERANCE:.0e} of the model, got {difference:.1e}; nothing "
                f"was written. Export the adapter alone (--adapter-only)."
            )
        if int8 is not None:
            windows = None if isinstance(int8, str) else int8
            plain = read_encoder(onnx.load(quantise(path, Path(temporary) / "int8.onnx", windows)))
    plain.layers = order_layers(plain)
    return plain
