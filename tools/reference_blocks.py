"""Generated parts of the reference pages: commands, methods, memory and speed."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import typer.main
from benchmarks.speed.pipeline import pipeline_table
from benchmarks.speed.setup import SHAPES, Shape, counted_state
from benchmarks.speed.tables import speed_tables
from typer.testing import CliRunner

from sight import registry
from sight.apps.bench import paper_values
from sight.apps.bench.experiment_report.table_format import Table
from sight.apps.cli import app
from sight.models.card import ModelCard
from sight.models.encoders.cnn import CNN
from sight.models.torch import TorchSource
from tools.findings_data import speed
from tools.findings_tables import markdown
from tools.result_files import RESULTS, read_json
from tools.row_versions import record_entries

#: Reasons for figures that differ from the paper's by more than one percent.
MEMORY_NOTES = {
    "rotta": "full memory counted; the paper's HARTH value is a mean over memories that are not always full",
    "oftta": "every support counted; the paper's HARTH value is a mean over sets that are not always full",
    "accup": "every support counted; the paper's HARTH value is a mean over sets that are not always full",
    "oatta": "counts, belief and gate; what the paper counts is unknown",
}


def commands() -> str:
    """Return every command with its help text."""
    parts = []
    for words in _command_paths(typer.main.get_command(app)):
        shown = CliRunner().invoke(
            app, [*words, "--help"], prog_name="sight", env={"COLUMNS": "130", "TERM": "dumb", "NO_COLOR": "1"}
        )
        text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
        parts.append(f"## sight {' '.join(words)}\n\n```text\n{text}\n```")
    return "\n\n".join(parts)


def _command_paths(command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if hasattr(command, "commands"):
        if words and command.invoke_without_command:
            yield words
        for name, inner in command.commands.items():
            yield from _command_paths(inner, (*words, name))
    else:
        yield words


def method_needs() -> str:
    """Return what each method needs."""
    rows = []
    for name in registry.names("methods"):
        needs = registry.get("methods", name).needs
        flags = ["yes" if flag else "-" for flag in (needs.gradient, needs.batch, needs.raw_windows)]
        link = f"[{name}](#{name}){' *' if needs.completed else ''}"
        rows.append([link, *flags[:2], needs.source_stats, needs.features, flags[2], needs.gap])
    heads = ["method", "gradient", "depends on the batch", "source statistics", "features", "keeps windows", "at a gap"]
    return markdown(heads, rows)


def method_presets() -> str:
    """Return the fields in which the presets differ."""
    rows = []
    for method in registry.names("methods"):
        cls = registry.get("methods", method)
        sets = [{**_defaults(cls), **cls.presets.get(preset, {})} for preset in registry.PRESETS]
        pairs = {name: [fields[name] for fields in sets] for name in sets[0]}
        rows += [[method, f"`{name}`", *map(str, values)] for name, values in pairs.items() if values[0] != values[1]]
    return markdown(["method", "field", *registry.PRESETS], rows)


def _defaults(cls: type) -> dict[str, Any]:
    return {field.name: field.default for field in dataclasses.fields(cls)}


def method_reference() -> str:
    """Return summary, fields, notes and references of each method; examples of docstrings are left out."""
    return "\n\n".join(_method(name, registry.get("methods", name)) for name in registry.names("methods"))


def _method(name: str, cls: type) -> str:
    sections = _docstring_sections(inspect.getdoc(cls) or "")
    defaults = {name: f"`{value!r}`" for name, value in _defaults(cls).items()}
    rows = []
    for entry in _entries(sections.pop("Parameters", "")):
        fields, meaning = entry.split("\n", 1)
        names = fields.split(", ")
        rows.append(
            [
                f"`{'`, `'.join(names)}`",
                ", ".join(defaults.pop(each) for each in names),
                _prose(meaning).replace("|", r"\|"),
            ]
        )
    rows += [[f"`{field}`", default, ""] for field, default in defaults.items()]
    parts = [f"## {name}", _prose(sections.pop(""))]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    parts += [f"| field | default | meaning |\n|---|---|---|\n{table}"] if rows else []
    parts += [_prose(sections["Notes"])] if "Notes" in sections else []
    parts += [f"*Reference:* {_prose(sections['References'])}"] if "References" in sections else []
    return "\n\n".join(part for part in parts if part)


def _docstring_sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading; what is before the first one has the heading ""."""
    first, *rest = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": first.strip()} | {heading: body.strip() for heading, body in zip(rest[::2], rest[1::2], strict=True)}


def _entries(text: str) -> list[str]:
    """Return the entries of a section, each a line followed by indented ones."""
    return re.findall(r"^\S.*\n(?:[ \n].*\n?)*", text, flags=re.MULTILINE)


def _prose(text: str) -> str:
    """Return paragraphs of a docstring as Markdown, one line each; lists stay lists."""
    paragraphs = re.split(r"\n\s*\n", text.strip().replace("``", "`"))
    return "\n\n".join(re.sub(r"\n(?!\s*[-*] |\s*\d+\. )\s*", " ", each) for each in paragraphs)


def memory() -> str:
    """Return the memory of each method at both shapes, as the sum of the kinds that the paper counts."""
    rows = []
    for name in registry.names("methods"):
        printed = [_paper_memory(name, shape.name) for shape in SHAPES]
        if None in printed:
            continue
        counted = [_memory(name, shape) for shape in SHAPES]
        cells = [
            text for (_, size), value in zip(counted, printed, strict=True) for text in (f"{size:.1f}", f"{value:g}")
        ]
        off = any(abs(size - value) > 0.01 * value for (_, size), value in zip(counted, printed, strict=True))
        rows.append([name, " + ".join(counted[0][0]) or "-", *cells, MEMORY_NOTES[name] if off else ""])
    heads = ["method", "counted", "HARTH shape", "paper", "CAPTURE-24 shape", "paper", "remark"]
    return markdown(heads, rows)


def _paper_memory(name: str, dataset: str) -> float | None:
    printed = {key[3].lower(): own for key, own in paper_values.values("state_kib").items() if key[1] == dataset}
    return printed.get(name)


def _memory(name: str, shape: Shape) -> tuple[list[str], float]:
    """Return the kinds that count, and their sum in KB."""
    network = CNN(channels=shape.channels, classes=shape.classes)
    card = ModelCard(
        encoder="cnn", encoder_args=network.encoder_args, classes=tuple(f"class {k}" for k in range(shape.classes)),
        channels=("x", "y", "z"), units=("g",) * 3, rate_hz=shape.rate_hz, window_s=shape.length / shape.rate_hz,
        stride_s=shape.stride_s, mean=(0.0,) * 3, std=(1.0,) * 3,
    )  # fmt: skip
    adapter = registry.method(name, preset="sight-paper").bind(TorchSource(network, classes=card.classes, card=card))
    counted = counted_state(adapter)
    return list(counted), sum(counted.values()) / 1024


def speed_machine() -> str:
    """Return the machine behind the figures of speed."""
    machine = speed()["machine"]
    names = ("processor", "cores", "load_average_at_start", "python", "torch", "onnxruntime", "numba")
    values = {name: machine[name] for name in names} | {"kernel": speed()["kernel"]}
    return markdown(["machine", ""], [[name.replace("_", " "), str(value)] for name, value in values.items()])


def speed_blocks() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield name and function of each table of speed; the figures of int8 state their own version and date."""
    found = speed()
    for table in speed_tables(found):
        yield f"speed-{table.name}", partial(_speed_block, table, found["int8"] if table.name == "int8" else found)


def _speed_block(table: Table, figures: dict[str, Any]) -> str:
    record_entries([figures])
    return table.markdown_body()


def pipeline() -> str:
    """Return the stages from a file to its report."""
    return pipeline_table(read_json(RESULTS / "pipeline.json")).markdown_body()


BLOCKS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "method-needs": method_needs,
    "method-presets": method_presets,
    "method-reference": method_reference,
    "memory": memory,
    "speed-machine": speed_machine,
    "speed-pipeline": pipeline,
    **dict(speed_blocks()),
}
