"""``sight models``: list the bundled models, or print the card of one."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from sight.apps.cli._shared import console, print_facts

app = typer.Typer(no_args_is_help=True, help="List bundled trained models, and print their cards.")


@app.command("list")
def list_() -> None:
    """List the bundled models. Use one by its name, as in: sight adapt day.cwa -m wrist."""
    from sight.models.bundled import names
    from sight.models.inspection import inspect

    table = Table(title="Bundled models")
    for column in ("name", "for", "classes", "macro-F1", "licence"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for name in names():
        facts = inspect(name)
        about = facts["about"]
        scores = "\n".join(f"{method} {own['macro_f1_mean']:.1f}" for method, own in about["scores"].items())
        table.add_row(f"[bold]{name}[/]", about["title"], ", ".join(facts["classes"]), scores, about["licence"])
    table.caption = "macro-F1: mean over subjects who were left out of training, with each method; none: model alone."
    console.print(table)


@app.command()
def info(
    name: Annotated[str, typer.Argument(help="Bundled model (see: sight models list), or a model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Print the card of a model: classes, input, training data and its licence, scores and known limits.

    [bold]Example[/]

      sight models info wrist
    """
    from sight.models.inspection import inspect

    facts = inspect(name)
    if as_json:
        typer.echo(json.dumps(facts, indent=2, default=str))
        return
    about = facts.get("about", {})
    scores = (
        {"scores": {method: _score_text(own) for method, own in about["scores"].items()}} if "scores" in about else {}
    )
    print_facts(name, about | scores | _shown(facts))


def _score_text(own: dict[str, float]) -> str:
    names = {"macro-F1": "macro_f1", "accuracy": "accuracy"}
    return ", ".join(f"{text} {own[f'{key}_mean']} (sd {own[f'{key}_sd']})" for text, key in names.items())


def _shown(facts: dict[str, Any]) -> dict[str, Any]:
    names = ("classes", "channels", "units", "rate_hz", "window_s", "stride_s", "encoder", "dataset")
    return {name: facts[name] for name in (*names, "training", "file", "size_bytes") if name in facts}
