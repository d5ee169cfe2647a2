"""Writes the generated pages of the docs; ``python -m tools.build_docs write`` after a change, checked by the tests."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import typer.main
from typer.testing import CliRunner

from sight import registry
from sight.bench import paper_figures, story
from sight.bench.timing_models import SHAPES
from sight.card import ModelCard
from sight.cli import app
from sight.encoders.cnn import CNN
from sight.methods import presets
from sight.sources.torch import TorchSource
from tools import load_figures

DOCS = Path(__file__).resolve().parents[1] / "docs"
README = DOCS.parent / "README.md"
#: What stands between these lines of a page is written.
MARKS = ("<!-- results: written by make docs -->\n", "<!-- end of results -->\n")


def commands() -> str:
    """Every command with the help a terminal shows."""
    parts = ["# Commands\n\nWritten by `make docs` from the commands themselves.\n"]
    for words in _paths(typer.main.get_command(app)):
        shown = CliRunner().invoke(
            app, [*words, "--help"], prog_name="sight", env={"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
        )
        text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
        parts.append(f"## sight {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _paths(command, words=()) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "commands"):
        if words and command.invoke_without_command:
            yield words
        for name, inner in command.commands.items():
            yield from _paths(inner, (*words, name))
    else:
        yield words


def methods() -> str:
    """A table of what each method needs, then each docstring, then the presets."""
    lines = [
        "# Methods\n",
        "Written by `make docs`. Methods marked * are completed by us; their authors published no code.\n",
        "| method | gradient | depends on the batch | source statistics | keeps windows | at a gap |",
        "|---|---|---|---|---|---|",
    ]
    for name in registry.names("methods"):
        needs = registry.get("methods", name).needs
        star = " *" if needs.completed else ""
        flags = ["yes" if flag else "-" for flag in (needs.gradient, needs.batch)]
        keeps = "yes" if needs.raw_windows else "-"
        lines.append(
            f"| [{name}](#{name}){star} | {flags[0]} | {flags[1]} | {needs.source_stats} | {keeps} | {needs.gap} |"
        )
    lines += ["", *_presets()]
    for name in registry.names("methods"):
        cls = registry.get("methods", name)
        fields = ", ".join(f"{f.name}={f.default!r}" for f in dataclasses.fields(cls)) or "none"
        lines += [f"## {name}", "", f"Fields: `{fields}`", "", "```text", inspect.getdoc(cls) or "", "```", ""]
    return "\n".join(lines)


def _presets() -> Iterator[str]:
    yield "## Presets"
    yield ""
    yield "Where the two named sets of settings differ; explicit values win over both."
    yield ""
    yield "| method | field | authors | sight-paper |"
    yield "|---|---|---|---|"
    for method, changed in presets.PRESETS["sight-paper"].items():
        defaults = {field.name: field.default for field in dataclasses.fields(registry.get("methods", method))}
        for name, value in changed.items():
            if value != defaults[name]:
                yield f"| {method} | `{name}` | {defaults[name]} | {value} |"
    yield ""


#: Why a figure differs from the paper's by more than a hundredth.
MEMORY_NOTES = {
    "rotta": "full memory counted; the paper's HARTH figure is a mean over memories that are not always full",
    "oftta": "every support counted; the paper's HARTH figure is a mean over sets that are not always full",
    "accup": "every support counted; the paper's HARTH figure is a mean over sets that are not always full",
    "oatta": "counts, belief and gate; what the paper counts is not known",
}


def memory() -> str:
    """The paper's memory column as a sum of kinds, computed at both shapes."""
    lines = [
        "# Memory",
        "",
        "Written by `make docs`: bytes that each method holds beyond its source with the preset `sight-paper`, in KB",
        "of 1,024 bytes, as the sum of the kinds named, beside the figure the SIGHT paper prints. `state_bytes()`",
        "gives all kinds; a method may hold more than the paper counts.",
        "",
        "| method | kinds in the sum | HARTH shape | paper | CAPTURE-24 shape | paper | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in registry.names("methods"):
        printed = {s.name: _printed(name, s.name) for s in SHAPES}
        if all(value is None for value in printed.values()):
            continue
        sums = {shape.name: _memory(name, shape) for shape in SHAPES}
        cells = [f"{sums[s.name][1]:.1f} | {printed[s.name]:g}" for s in SHAPES]
        off = any(abs(sums[s.name][1] - (printed[s.name] or 0)) > 0.01 * (printed[s.name] or 0) for s in SHAPES)
        note = MEMORY_NOTES[name] if off else ""
        lines.append(f"| {name} | {' + '.join(sums[SHAPES[0].name][0]) or '-'} | {cells[0]} | {cells[1]} | {note} |")
    return "\n".join([*lines, ""])


def _printed(name: str, dataset: str) -> float | None:
    printed = {
        key[3].lower(): figure.value for key, figure in paper_figures.figures("state_kib").items() if key[1] == dataset
    }
    return printed.get(name)


def _memory(name: str, shape) -> tuple[list[str], float]:
    args = {"channels": shape.channels, "classes": shape.classes}
    network = CNN(**args)
    seconds = shape.length / shape.rate_hz
    card = ModelCard(
        encoder="cnn", encoder_args=network.encoder_args, classes=tuple(f"class {k}" for k in range(shape.classes)),
        channels=("x", "y", "z"), units=("g",) * 3, rate_hz=shape.rate_hz, window_s=seconds, stride_s=shape.stride_s,
        mean=(0.0,) * 3, std=(1.0,) * 3,
    )  # fmt: skip
    adapter = registry.method(name, preset="sight-paper").bind(TorchSource(network, classes=card.classes, card=card))
    kinds = {kind: size for kind, size in adapter.state_bytes().items() if size}
    counted = [kind for kind in getattr(adapter, "MEMORY_SUM", kinds) if kind in kinds]
    return counted, sum(kinds[kind] for kind in counted) / 1024


def speed() -> str:
    """The committed figures of ``make bench``."""
    found = json.loads((DOCS.parent / "benchmarks" / "results" / "speed.json").read_text("utf-8"))
    machine = found["machine"]
    lines = [
        "# Speed",
        "",
        "Written by `make docs` from `benchmarks/results/speed.json`, which `sight bench speed` wrote. One thread,",
        "runs interleaved after warm-up, medians. Compare ratios; milliseconds belong to the machine:",
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load_average_at_start']:.1f} at first,",
        f"Python {machine['python']}, torch {machine['torch']}, onnxruntime {machine['onnxruntime']},",
        f"kernel {found['kernel']}.",
        "",
        "*Replay* is the update alone over a recording with features given; *one call* is `refine` for one window",
        "with warm caches; *live step* is the whole of `step` beyond `encode`, right after the encoder emptied the",
        "caches, checks of the input included.",
        "",
        "## What we set out to reach",
        "",
        "| what | figure | reach | |",
        "|---|---|---|---|",
    ]
    for line in found["reach"]:
        target = "" if line["target"] is None else f"{'≥' if line['at_least'] else '≤'} {line['target']:g}"
        verdict = {True: "met", False: "**missed**", None: ""}[line["met"]]
        lines.append(f"| {line['what']} | {line['value']:.3g} | {target} | {verdict} |")
    for name, shape in found["shapes"].items():
        size = f"{shape['channels']} x {shape['length']}, K = {shape['classes']}"
        lines += ["", f"## {name} ({size})", "", "| one window | ms |", "|---|---|"]
        lines += [f"| {what} | {value:.3f} |" for what, value in shape["steps_ms"].items()]
        lines += ["", "| update alone | µs |", "|---|---|"]
        lines += [f"| {what} | {value:.1f} |" for what, value in shape["update_us"].items()]
        lines += [
            "",
            "| method | source | rule | ms a window | paper | offline windows/s | wearers a core | state KB |",
        ]
        lines += ["|---|---|---|---|---|---|---|---|"]
        for row in shape["methods"]:
            printed = "" if row["paper_ms_per_window"] is None else f"{row['paper_ms_per_window']:g}"
            state = sum(row["state_bytes"].values()) / 1024
            lines.append(
                f"| {row['method']} | {row['source']} | {row['rule']} | {row['ms_per_window']:.3f} | {printed} "
                f"| {row['offline_windows_per_s']:.0f} | {row['wearers_per_core']} | {state:.1f} |"
            )
    return "\n".join([*lines, ""])


@functools.cache
def _story() -> story.Page:
    return story.write(story.gather(DOCS.parent / "benchmarks" / "results"))


def findings() -> str:
    """What the committed results of the benchmark say."""
    return _story().text


def figures() -> dict[Path, str]:
    """Figures of the findings."""
    return {DOCS / "figures" / name: text for name, text in _story().figures.items()}


def readme() -> str:
    """The README with its table of results as it should be."""
    return _filled(README, f"{_story().readme}\n")


def serve() -> str:
    """The page of the service with the figures of its load as they should be."""
    return _filled(DOCS / "serve.md", load_figures.table(DOCS.parent / "benchmarks" / "results" / "live"))


def _filled(page: Path, results: str) -> str:
    """Put results between the marks of a page that is written by hand otherwise."""
    before, rest = page.read_text("utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return f"{before}{MARKS[0]}{results}{MARKS[1]}{after}"


PAGES = {
    "commands.md": commands,
    "methods.md": methods,
    "memory.md": memory,
    "speed.md": speed,
    "findings.md": findings,
    "serve.md": serve,
}


if __name__ == "__main__" and sys.argv[1:] == ["write"]:
    written = {DOCS / name: page() for name, page in PAGES.items()} | figures() | {README: readme()}
    for path, text in written.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(DOCS.parent)}")
