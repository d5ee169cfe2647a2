"""``sight models`` and ``sight inspect``: list the bundled models, print the card or all facts of a model."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from sight.apps.cli._shared import console, print_facts

AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]

app = typer.Typer(no_args_is_help=True, help="List bundled trained models, and print their cards.")


@app.command("list")
def list_() -> None:
    """List the bundled models. Use one by its name, as in: sight adapt day.cwa -m wrist."""
    from sight.models.bundled import names
    from sight.models.model_inspection import inspect as inspect_model

    columns = (Column(text, overflow="fold") for text in ("for", "classes", "macro-F1", "licence"))
    table = Table(Column("name", overflow="fold", no_wrap=True), *columns, title="Bundled models")
    for name in names():
        facts = inspect_model(name)
        about = facts["about"]
        scores = "\n".join(f"{method} {own['macro_f1_mean']:.1f}" for method, own in about["scores"].items())
        table.add_row(f"[bold]{name}[/]", about["title"], ", ".join(facts["classes"]), scores, about["licence"])
    table.caption = "macro-F1: mean over subjects who were left out of training, with each method; none: model alone."
    console.print(table)


@app.command()
def info(
    name: Annotated[str, typer.Argument(help="Bundled model (see: sight models list), or a model file.")],
    as_json: AsJson = False,
) -> None:
    """Print the card of a model: classes, input, training data and its licence, scores and known limits.

    [bold]Example[/]

      sight models info wrist
    """
    from sight.models.model_inspection import inspect as inspect_model

    facts = inspect_model(name)
    print_facts(name, facts if as_json else _card(facts), as_json=as_json)


def inspect(
    model: Annotated[Path, typer.Argument(help="Bundled model, or file: .onnx, .safetensors.")],
    as_json: AsJson = False,
) -> None:
    """Print what a model file contains and whether `sight` can use it.

    [bold]Example[/]

      sight inspect model.onnx
    """
    from sight.models.model_inspection import inspect as inspect_model

    print_facts(str(model), inspect_model(model), as_json=as_json)


def _card(facts: dict[str, Any]) -> dict[str, Any]:
    card = dict(facts.get("about", {}))
    if "scores" in card:
        card["scores"] = {method: _score_text(own) for method, own in card["scores"].items()}
    names = ("classes", "channels", "units", "rate_hz", "window_s", "stride_s", "encoder", "dataset")
    return card | {name: facts[name] for name in (*names, "training", "file", "size_bytes") if name in facts}


def _score_text(own: dict[str, float]) -> str:
    names = {"macro-F1": "macro_f1", "accuracy": "accuracy"}
    return ", ".join(f"{text} {own[f'{key}_mean']} (sd {own[f'{key}_sd']})" for text, key in names.items())
