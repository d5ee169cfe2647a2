"""README.md of a folder of C source: what it contains, what it needs, how to use it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sight import __version__
from sight.models.card import ModelCard
from sight.models.export.c.layers import Conv, Encoder
from sight.models.export.c.methods import constants, state_words

INTRO = """Portable C99 without heap and without dependencies but libm, written by `sight export --c` (sight {version}).
The files `sight_config.h`, `*_constants.h`, `encoder.c` and `class_names.c` contain the numbers of the model and have
its licence; do not edit them. The others have the licence Apache-2.0.

"""

USE = """## Use

`sight.h` is the interface. One wearer needs a `sight_state_t`{windower}; functions keep no other state.
Those that return `bool` return false for invalid input, and change no state then.

```c
if (!sight_load(&state, bytes)) {{            /* bytes of sight_save, from an earlier run */
    sight_reset(&state);                    /* a new wearer */
}}
{samples}
if (gap_s > 0.0) {{
    (void)sight_gap(&state, (float)gap_s);  /* seconds without data before this window */
}}
if ({encode}sight_step(&state, z, p, q)) {{
    show(SIGHT_CLASS_NAMES[sight_predicted_class(q)]);
}} else {{
    /* values that are not finite, or p is no distribution: the window is left out */
}}
...
sight_save(&state, bytes);                  /* before the device is switched off */
```
"""
SAMPLES = """sight_windower_reset(&windower);            /* a new stream */
...
sight_push(&windower, time_s, sample, on_window, NULL); /* each sample; calls on_window for each complete window */
... in on_window:"""

FILES = """## Files

A firmware needs all but those marked with *.

| what | files |
|---|---|
{rows}
"""
#: What files are, by the start of their names; the first that fits counts.
KINDS = {
    "sight.h": "interface",
    "sight_config.h": "sizes of model, method and windows",
    "class_names": "names of the classes",
    "method_": "method",
    "state_bytes": "saved states",
    "vector_math": "functions of vectors",
    "encoder": "weights and layers of the encoder",
    "layers": "functions of the layers",
    "windower": "samples to windows",
    "example_adapter": "example with an encoder of your own *",
    "main.c": "example: samples in, predictions out *",
    "board_": "start-up and memory of the emulated board *",
    "": "rules of make *",
}

PROGRAM = """## Run

```sh
make
./sight < recording.csv
```

Each line of `recording.csv` is a time in seconds and {channels}, separated by commas.
The windower expects {sensor_hz:g} samples a second; for a sensor of another rate, export again with `--rate`.
The program prints the start of each window, the predicted class, and the refined probability of each class. `main.c`
shows how the parts fit together; in a firmware the driver of the sensor calls `sight_push`.

`make arm` compiles for a Cortex-M4F (Debian: `apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi`) and prints
the sizes of the program; `make run-arm < recording.csv` runs it in an emulator (`apt-get install qemu-system-arm`).
"""

ADAPTER = """## Run

`example_adapter.c` shows the adapter behind an encoder of your own. `make` builds it. It reads one window per line:
seconds missing before it and {classes} probabilities{features}, separated by commas.
"""

STATE = """## Saved state

The {size} bytes of `sight_save`; all numbers are little-endian. In Python, `unpack_state` and `pack_state` of
`sight.models.export.c.state_bytes` read and write them, so that a wearer can move between a device and a server.

| offset | bytes | what | type |
|---:|---:|---|---|
| 0 | 4 | "SGT1" | text |
| 4 | 4 | `SIGHT_STATE_ID`: model, method and layout | unsigned integer |
{rows}
| {end} | 4 | CRC-32 (zlib) of all bytes before | unsigned integer |
"""

NEEDS = """## What it needs

Bytes of constants and of RAM, and multiply-adds for one window. The code comes on top.

| part | constants | RAM | multiply-adds per window |
|---|---:|---:|---:|
{rows}
"""

#: Entries of a model card to show, with their titles.
ABOUT = {
    "placement": "Worn at",
    "limits": "Limits",
    "data": "Training data",
    "licence": "Licence of the data",
    "citation": "Citation",
}


#: Members of the struct that are named otherwise than in Python, because some compilers reserve the word.
MEMBERS = {"near": "near_distance", "far": "far_distance"}


def readme(
    name: str,
    adapter: Any,
    encoder: Encoder | None,
    workspace: int,
    windower: Mapping[str, Any] | None,
    files: Sequence[str],
) -> str:
    """Return the text of README.md; `files` are the names of the others."""
    card: ModelCard | None = adapter.source.card
    title = f"# {name} with {adapter.name}{'' if encoder is None else ', int8' if encoder.int8 else ', float32'}\n\n"
    intro = INTRO.format(version=__version__)
    parts = [title + intro + _needs(adapter, encoder, workspace, windower)]
    if encoder is not None and windower is not None and card is not None:
        channels = ", ".join(f"{channel} ({unit})" for channel, unit in zip(card.channels, card.units, strict=True))
        parts.append(PROGRAM.format(channels=channels, sensor_hz=windower["tick_hz"]))
    else:
        features = f", then {adapter.source.weight.shape[1]} features" if constants(adapter)["uses_features"] else ""
        parts.append(ADAPTER.format(classes=adapter.n_classes, features=features))
    parts += [_use(encoder, windower), _files(files), _state(adapter), _about(card)]
    return "\n".join(part for part in parts if part)


def _needs(adapter: Any, encoder: Encoder | None, workspace: int, windower: Mapping[str, Any] | None) -> str:
    classes, features = adapter.source.weight.shape
    arrays = [value for value in constants(adapter).values() if isinstance(value, np.ndarray)]
    state = 4 * sum(words.size for words in state_words(adapter).values())
    products = classes * features if constants(adapter)["uses_features"] else classes
    rows = [("method", 4 * sum(value.size for value in arrays), state, products)]
    if encoder is not None:
        rows.append(("encoder", _constant_bytes(encoder), workspace + 4 * (features + classes), encoder.multiply_adds))
    if windower is not None:
        rows.append(("windower", *_windower_needs(windower)))
    lines = (f"| {part} | {flash:,} | {ram:,} | {products:,} |" for part, flash, ram, products in rows)
    return NEEDS.format(rows="\n".join(lines))


def _windower_needs(windower: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return bytes of constants, bytes of RAM, and multiply-adds from one window to the next."""
    channels, sections = windower["channels"], len(windower.get("filter", ()))
    stored = sum(value.nbytes for value in windower.values() if isinstance(value, np.ndarray))
    memory = 4 * windower["length"] * channels + 16 * sections * channels + 200
    filtered = windower["stride"] / windower["rate_hz"] * windower["tick_hz"]
    interpolated = windower["stride"] if "sensor_hz" in windower else 0
    return stored, memory, round((5 * sections * filtered + 2 * interpolated) * channels)


def _use(encoder: Encoder | None, windower: Mapping[str, Any] | None) -> str:
    return USE.format(
        windower="" if windower is None else " and a `sight_windower_t`",
        samples="..." if windower is None else SAMPLES,
        encode="" if encoder is None else "sight_encode(&workspace, window, z, p) && ",
    )


def _files(files: Sequence[str]) -> str:
    groups: dict[str, list[str]] = {what: [] for what in KINDS.values()}
    for file in files:
        groups[next(what for start, what in KINDS.items() if file.startswith(start))].append(f"`{file}`")
    return FILES.format(rows="\n".join(f"| {what} | {', '.join(names)} |" for what, names in groups.items() if names))


def _constant_bytes(encoder: Encoder) -> int:
    convs = [layer for layer in encoder.layers if isinstance(layer, Conv)]
    per_row = 8 if encoder.int8 else 4
    stored = sum(layer.weight.nbytes + per_row * len(layer.bias) for layer in convs)
    return stored + 4 * (encoder.weight.size + encoder.bias.size)


def _state(adapter: Any) -> str:
    rows, at = [], 8
    for name, words in state_words(adapter).items():
        kind = "float" if words.dtype == np.float32 else "unsigned integer"
        rows.append(f"| {at} | {words.nbytes} | `{MEMBERS.get(name, name)}` | {kind} |")
        at += words.nbytes
    return STATE.format(size=at + 4, rows="\n".join(rows), end=at)


def _about(card: ModelCard | None) -> str:
    entries = card.about if card is not None else {}
    lines = [f"- {title}: {entries[key]}" for key, title in ABOUT.items() if entries.get(key)]
    return "## The model\n\n" + "\n".join(lines) + "\n" if lines else ""
