"""``sight serve token``: access tokens of a service."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sight._util.durations import parse_seconds
from sight.apps.cli._shared import console, errors

if TYPE_CHECKING:
    from sight.apps.serve.tokens import Token, TokenFile

#: Name of the file of tokens in the data folder.
FILE = "tokens.json"

Data = Annotated[Path, typer.Option("--data", help="Folder of the service: store and tokens.")]

app = typer.Typer(no_args_is_help=True, help="Add, list, rotate and remove access tokens.")


def _tokens(data: Path) -> TokenFile:
    from sight.apps.serve.tokens import TokenFile

    return TokenFile(data / FILE)


@app.command("add")
def add_token(
    scopes: Annotated[str, typer.Option(help="Any of ingest, read, admin; comma-separated.")] = "ingest,read",
    wearers: Annotated[str, typer.Option(help="Patterns of wearers, comma-separated, for example 'lab-*'.")] = "*",
    expires: Annotated[
        str | None, typer.Option(help="Lifetime, for example 90d, 12h or 30min; unlimited if not given.")
    ] = None,
    max_wearers: Annotated[
        int | None, typer.Option(min=1, help="Create no wearer if so many match the patterns already.")
    ] = None,
    data: Data = Path("sight-data"),
) -> None:
    """Create a token and print it once; only its hash is stored.

    [bold]Example[/]

      sight serve token add --scopes ingest --wearers 'lab-*' --expires 90d
    """
    lifetime = None if expires is None else _duration(expires)
    added = _tokens(data).add(_split(scopes), _split(wearers), lifetime=lifetime, max_wearers=max_wearers)
    _print_token(*added)


@app.command("rotate")
def rotate_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as listed.")],
    expires: Annotated[str | None, typer.Option(help="Lifetime of the new token; unlimited if not given.")] = None,
    overlap: Annotated[str, typer.Option(help="How long the old token stays valid.")] = "1d",
    data: Data = Path("sight-data"),
) -> None:
    """Replace a token by a new one that permits the same, and print it once.

    [bold]Example[/]

      sight serve token rotate 1f0c9a2b --expires 90d --overlap 12h
    """
    lifetime = None if expires is None else _duration(expires)
    _print_token(*_tokens(data).rotate(token_id, lifetime=lifetime, overlap=_duration(overlap)))


def _duration(text: str) -> timedelta:
    return timedelta(seconds=parse_seconds(text, "d"))


def _print_token(text: str, created: Token) -> None:
    console.print(f"{text}", highlight=False, soft_wrap=True)
    until = f", valid until {created.expires}" if created.expires else ""
    errors.print(f"Token {created.id}{until}. It is not shown again.", style="dim", highlight=False)


@app.command("list")
def list_tokens(data: Data = Path("sight-data")) -> None:
    """List the ids, scopes, wearers and times of all tokens."""
    table = Table("id", "scopes", "wearers", "most wearers", "created", "expires", box=None)
    for entry in _tokens(data).tokens():
        expires = f"{entry.expires}{' (expired)' if entry.expired else ''}"
        most = "" if entry.max_wearers is None else str(entry.max_wearers)
        table.add_row(entry.id, ", ".join(entry.scopes), ", ".join(entry.wearers), most, entry.created, expires)
    console.print(table)


@app.command("remove")
def remove_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as listed.")],
    data: Data = Path("sight-data"),
) -> None:
    """Remove a token; a running service rejects it, also on open connections, within two seconds."""
    if not _tokens(data).remove(token_id):
        raise ValueError(f"There is no token {token_id!r}; see: sight serve token list --data {data}")
    console.print(f"Removed {token_id}.", highlight=False)


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
