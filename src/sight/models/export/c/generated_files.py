"""Text of the generated C files: sizes, constants of method and windower, layers of the encoder, list of sources."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from sight import __version__
from sight._util.array_checks import MAX_LENGTH, SUM_TOLERANCE
from sight.base import Source
from sight.methods.ops import LEAST_SUM
from sight.models.card import ModelCard
from sight.models.export.c import literals
from sight.models.export.c.layers import Encoder
from sight.models.export.c.methods import WORDS, constants, state_id, state_words
from sight.models.given_features import FLOOR, ProbabilitySource
from sight.types import Array


def config(name: str, adapter: Any, encoder: Encoder | None, workspace: int, windower: Mapping[str, Any] | None) -> str:
    """Return sight_config.h: sizes of model, method and windows."""
    card: ModelCard | None = adapter.source.card
    classes, features = adapter.source.weight.shape
    lines = [
        f"#define SIGHT_MODEL {literals.quoted(name)}",
        f"#define SIGHT_METHOD {literals.quoted(adapter.name)}",
        f"#define SIGHT_CLASSES {classes}U",
        f"#define SIGHT_FEATURES {features}U",
        "",
        "/* State of a wearer: what it belongs to, and its size in words of 32 bits. */",
        f"#define SIGHT_STATE_ID 0x{state_id(adapter):08X}U",
        f"#define SIGHT_STATE_WORDS {sum(words.size for words in state_words(adapter).values())}U",
        "",
        "/* Input of the method: whether it reads features, their greatest length, the tolerance of the sum of",
        " * probabilities, the sum below which weights cannot be normalised, whether probabilities are softened. */",
        f"#define SIGHT_USES_FEATURES {int(constants(adapter)['uses_features'])}",
        *literals.defines("SIGHT", {"max_length": MAX_LENGTH, "sum_tolerance": SUM_TOLERANCE, "least_sum": LEAST_SUM}),
        *_softening_lines(adapter.source),
        "",
        f"#define SIGHT_HAS_ENCODER {int(encoder is not None)}",
        f"#define SIGHT_HAS_WINDOWER {int(windower is not None)}",
    ]
    if encoder is not None or windower is not None:
        lines += _window_lines(card, encoder, windower)
    if encoder is not None:
        lines += [
            "",
            "#include <stdint.h>",
            "",
            "/* Intermediate results of the encoder. */",
            "typedef union {",
            f"    float values[{workspace // 4}];",
            f"    uint8_t bytes[{workspace}];",
            "} sight_workspace_t;",
        ]
    if windower is not None:
        converts, sections = "sensor_hz" in windower, len(windower.get("filter", ()))
        lines += [
            "",
            "/* Whether the rate of the sensor is converted to that of the model, and sections of its filter. */",
            *literals.defines("WINDOWER", {"converts": converts, "sections": sections}),
        ]
    return literals.header("SIGHT_CONFIG_H", "Sizes of the model and its method. Generated; do not edit.", lines)


def _softening_lines(source: Source) -> list[str]:
    """Return how probabilities are prepared, as `ProbabilitySource.encode` does, if the model is known by them only."""
    if not isinstance(source, ProbabilitySource):
        return literals.defines("SIGHT", {"softens": False})
    return literals.defines("SIGHT", {"softens": True, "floor": FLOOR, "sharpness": source.sharpness})


def _window_lines(card: ModelCard | None, encoder: Encoder | None, windower: Mapping[str, Any] | None) -> list[str]:
    """Return the sizes of a window; the windower and the encoder have to agree on them."""
    sizes = {} if encoder is None else {"channels": encoder.input.channels, "length": encoder.input.length}
    given = {name: windower[name] for name in ("channels", "length", "stride")} if windower is not None else {}
    if any(given.get(name, size) != size for name, size in sizes.items()):
        raise ValueError(f"Expected a windower for windows {sizes} of the model, got {given}; use the card's.")
    pairs = zip(card.channels, card.units, strict=True) if card is not None else ()
    named = ", ".join(f"{channel} in {unit}" for channel, unit in pairs) or "channels in the order of the model"
    lines = ["", f"/* A window: {named.replace('*/', '* /')}. */"]
    lines += [f"#define SIGHT_{name.upper()} {size}U" for name, size in (sizes | given).items()]
    if windower is None:
        return lines
    rates = {"rate_hz": float(windower["rate_hz"]), "sensor_hz": float(windower["tick_hz"])}
    return [
        *lines,
        "/* Samples a second of a window, and of the sensor. */",
        *literals.defines("SIGHT", rates, double=True),
    ]


def method_constants(adapter: Any) -> str:
    """Return method_constants.h."""
    values = constants(adapter)
    del values["uses_features"]  # SIGHT_USES_FEATURES of sight_config.h
    lines = ['#include "sight_config.h"', ""]
    for name, words in WORDS.get(adapter.name, {}).items():
        names = ", ".join(f"METHOD_{name.upper()}_{word.upper()}" for word in words)
        lines += [f"enum {{ {names} }};"]
    lines += literals.defines(
        "METHOD", {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}
    )
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            lines += [
                "",
                literals.array(f"METHOD_{name.upper()}", value.astype(np.float32), sizes=_sizes(value, adapter)),
            ]
    params = ", ".join(f"{key}={value}" for key, value in adapter.params().items())
    text = f"Constants of the method {adapter.name} ({params}). Generated; do not edit."
    comment = textwrap.fill(text, 112).replace("\n", "\n * ")
    return literals.header("METHOD_CONSTANTS_H", comment, lines)


def _sizes(value: Array, adapter: Any) -> str:
    if value.ndim == 2:
        return "[SIGHT_CLASSES][SIGHT_FEATURES]"
    return "[SIGHT_CLASSES]" if len(value) == adapter.n_classes else "[SIGHT_FEATURES]"


def windower_constants(windower: Mapping[str, Any]) -> str:
    """Return windower_constants.h."""
    arrays = {name: value for name, value in windower.items() if isinstance(value, np.ndarray)}
    in_config = {"channels", "length", "stride", "rate_hz", "tick_hz", "sensor_hz"}
    own = [name for name in windower if name not in {*arrays, *in_config}]
    lines = literals.defines("WINDOWER", {name: windower[name] for name in own}, double=True)
    for name, value in arrays.items():
        lines += ["", literals.array(f"WINDOWER_{name.upper()}", value.astype(np.float64))]
    comment = (
        "Constants of the windower: gaps and set-back clocks in seconds and samples; if the sensor has another rate\n"
        " * than the model, the low-pass filter as second-order sections b0 b1 b2 a0 a1 a2, its state for a\n"
        " * constant input of 1, and its delay. Generated; do not edit."
    )
    return literals.header("WINDOWER_CONSTANTS_H", comment, lines)


def stamped(file: str, text: str, *, copied: bool) -> str:
    """Return a C file or a Makefile with the version of sight at its top, and its licence if it is copied from sight.

    The numbers of a model have the licence of the model.
    """
    left, right = ("# ", "") if file.endswith((".mk", "Makefile")) else ("/* ", " */")
    licence = f"{left}SPDX-License-Identifier: Apache-2.0{right}\n" if copied else ""
    return f"{licence}{left}Generated by sight {__version__}{right}\n{text}"


def class_names(classes: tuple[str, ...]) -> str:
    """Return class_names.c."""
    rows = "".join(f"    {literals.quoted(name)},\n" for name in classes)
    return f'#include "sight.h"\n\nconst char *const SIGHT_CLASS_NAMES[SIGHT_CLASSES] = {{\n{rows}}};\n'


def sources(method_file: str, encoder: Encoder | None, windower: bool) -> str:
    """Return sources.mk, the files that the Makefile compiles."""
    adapter = [f"{method_file}.c", "vector_math.c", "state_bytes.c", "class_names.c"]
    layers = ["encoder.c", "layers.c", "layers_float32.c"] + ["layers_int8.c"] * bool(encoder and encoder.int8)
    all_sources = adapter + (layers if encoder else []) + (["windower.c"] if windower else [])
    programs = ["sight"] * bool(encoder and windower) + ["example_adapter"]
    return (
        f"ADAPTER_SOURCES = {' '.join(adapter)}\nSOURCES = {' '.join(all_sources)}\nHEADERS = $(wildcard *.h)\n"
        f"PROGRAMS = {' '.join(programs)}\n"
    )
