"""``sight serve``: the live service, its demo, and its access tokens."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sight.apps.cli._shared import console, errors

if TYPE_CHECKING:
    from sight.apps.serve.service import Service
    from sight.apps.serve.tokens import Token, TokenFile

#: Space that is held back for deletions on a full disk: more than the write-ahead log of the store.
RESERVE_BYTES = 24 << 20

Data = Annotated[Path, typer.Option("--data", help="Folder of the service: store and tokens.")]

app = typer.Typer(no_args_is_help=False, help="Serve models to many wearers live: WebSocket, HTTP and a live web page.")
token = typer.Typer(no_args_is_help=True, help="Add, list, rotate and remove access tokens.")
app.add_typer(token, name="token")


@app.callback(invoke_without_command=True)
def serve(
    ctx: typer.Context,
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", "-m", help="Bundled model, file or folder of models; repeatable."),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Add a small model and three synthetic wearers, replayed at 10 times their speed."),
    ] = False,
    data: Data = Path("sight-data"),
    store: Annotated[str | None, typer.Option(help="redis://... or a file; SQLite in --data by default.")] = None,
    fsync: Annotated[
        bool, typer.Option("--fsync", help="Survive loss of power, not only the end of the process.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than a loopback address needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 selects a free port.")] = 8000,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM), for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the certificate (PEM).")] = None,
    snapshot_every: Annotated[int, typer.Option(min=1, help="Windows of a wearer between two snapshots.")] = 20,
    keep: Annotated[int, typer.Option(min=1, help="Windows of a wearer whose predictions are stored.")] = 86_400,
    resident: Annotated[int, typer.Option(min=1, help="Most wearers in memory at a time.")] = 2_000,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="NAME=VALUE, repeatable; docs/serve.md lists the names.")
    ] = None,
) -> None:
    """Serve models live. State survives a kill; no data leave this machine unless another host is given.

    [bold]Examples[/]

      sight serve --demo

      sight serve -m walk.onnx -m walk@2.onnx --data /srv/sight

      sight serve token add --scopes ingest,read --wearers 'lab-*'

      sight serve -m walk.onnx --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --limit wearers=500
    """
    if ctx.invoked_subcommand is not None:
        return
    _set_kernel_cache(data)
    from sight import params
    from sight.apps.demo import MODEL
    from sight.apps.serve.backup import DATABASE
    from sight.apps.serve.limits import Limits
    from sight.apps.serve.model_catalogue import ModelCatalogue
    from sight.apps.serve.service import Service
    from sight.apps.serve.session_manager import SessionManager
    from sight.apps.serve.store import open_store

    limits, tokens, local = Limits(**params.parse(Limits, limit or [])), _tokens(data), _is_loopback(host)
    if not local and not tokens:
        raise ValueError(
            f"Expected a token before listening on {host}, which other machines can reach; "
            f"add one with: sight serve token add --data {data}"
        )
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("Expected both --tls-cert and --tls-key, got one; give the other, or neither.")
    if not model and not demo:
        raise ValueError("Expected a model, got none; give a file or folder of models with -m, or use --demo.")
    listener = _listen(host, port)
    with _private_files(data):
        paths = list(model or []) + ([MODEL] if demo else [])
        manager = SessionManager(
            ModelCatalogue.load(paths),
            open_store(store or str(data / DATABASE), fsync=fsync, reserve_bytes=RESERVE_BYTES),
            snapshot_every=snapshot_every,
            keep=keep,
            resident=resident,
            limits=limits,
        )
        address = _address("https" if tls_cert else "http", listener)
        console.print(f"[bold]sight[/] serves at [bold]{address}[/]", highlight=False, soft_wrap=True)
        tls = {"ssl_certfile": tls_cert, "ssl_keyfile": tls_key} if tls_cert else {}
        _run(Service(manager, tokens, require_token=not local), listener, demo=demo, **tls)


@contextmanager
def _private_files(data: Path) -> Iterator[None]:
    """Create the data folder, and everything in it, so that only this user can read it."""
    from sight._util.atomic import make_folder

    previous = os.umask(0o077)
    try:
        make_folder(data, 0o700)
        if os.name != "nt" and data.stat().st_mode & 0o077:
            errors.print(
                f"[yellow]{escape(str(data))}:[/] other users can open this folder; restrict it with: chmod 700",
                highlight=False,
                soft_wrap=True,
            )
        yield
    finally:
        os.umask(previous)


def _run(service: Service, listener: socket.socket, *, demo: bool, **tls: Any) -> None:
    """Serve until stopped; then finish what is pending, save, close, and exit with 0."""
    import uvicorn

    from sight.apps.demo import MODEL, recordings
    from sight.apps.serve.app import create_app
    from sight.apps.serve.demo_replay import replay
    from sight.apps.serve.protocols import server_config

    class Server(uvicorn.Server):
        """Drains the service before connections are closed."""

        replay: asyncio.Task[None] | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if demo and self.started:
                self.replay = asyncio.create_task(replay(service, demo_recordings, MODEL.stem))

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if self.replay is not None:
                self.replay.cancel()
            await service.drain()
            await super().shutdown(sockets)

    demo_recordings = recordings() if demo else {}
    config = server_config(create_app(service), service.limits, **tls)
    _raise_file_limit(service.limits.open_connections)
    # The manager's thread must not hold the interpreter for the usual 5 ms each time the event loop needs it.
    sys.setswitchinterval(5e-4)
    # The server raises the signal that stopped it again, and supervisors would take exit code 143 as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listener])


def _set_kernel_cache(data: Path) -> None:
    """Keep compiled steps in the data folder if the folder of the package, their usual place, is read-only."""
    if not os.access(Path(__file__).parents[2] / "methods", os.W_OK):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(data.resolve() / "kernels"))


def _raise_file_limit(connections: int) -> None:
    """Raise the limit of open files, as far as the system permits, so that every permitted connection fits."""
    with suppress(ImportError):  # not on Windows
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + 512
        if soft != resource.RLIM_INFINITY and soft < wanted:
            wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; bound before anything is loaded, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"Cannot listen on {host} port {port}: {error.strerror}; choose another with --port.") from None


def _address(scheme: str, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


# --- backup -----------------------------------------------------------------------------------------------------------


@app.command("backup")
def backup_data(
    data: Annotated[Path, typer.Argument(help="Data folder of the service, which may run.")],
    out: Annotated[Path, typer.Argument(help="Folder to create.")],
) -> None:
    """Copy store, tokens and models of a data folder, also while the service runs.

    Models outside of the data folder are not copied. A Redis store is backed up with the tools of Redis.

    [bold]Example[/]

      sight serve backup /srv/sight /backup/sight-monday
    """
    from sight.apps.serve.backup import backup

    manifest = backup(data, out)
    _print_backup(f"Copied to {out}", manifest)
    if not any(name.startswith("models/") for name in manifest["files"]):
        console.print("There are no models in the data folder; keep the files given with --model too.")


@app.command("restore")
def restore_data(
    folder: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder written by sight serve backup.")],
    data: Annotated[Path, typer.Argument(help="New or empty data folder.")],
) -> None:
    """Check a backup and copy it to a new data folder.

    [bold]Example[/]

      sight serve restore /backup/sight-monday /srv/sight-restored
    """
    from sight.apps.serve.backup import restore

    _print_backup(f"Restored to {data}", restore(folder, data))


def _print_backup(text: str, manifest: dict[str, Any]) -> None:
    wearers, files = manifest["wearers"], ", ".join(manifest["files"])
    console.print(f"{text}: {wearers} wearers of {manifest['created']}; {files}.", highlight=False, soft_wrap=True)


# --- tokens -----------------------------------------------------------------------------------------------------------


def _tokens(data: Path) -> TokenFile:
    from sight.apps.serve.tokens import TokenFile

    return TokenFile(data / "tokens.json")


@token.command("add")
def add_token(
    scopes: Annotated[str, typer.Option(help="Any of ingest, read, admin; comma-separated.")] = "ingest,read",
    wearers: Annotated[str, typer.Option(help="Patterns of wearers, comma-separated, for example 'lab-*'.")] = "*",
    expires: Annotated[
        str | None, typer.Option(help="Lifetime, for example 90d, 12h or 30m; unlimited if not given.")
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
    lifetime = _duration(expires)
    added = _tokens(data).add(_split(scopes), _split(wearers), lifetime=lifetime, max_wearers=max_wearers)
    _print_token(*added)


@token.command("rotate")
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
    from sight.apps.serve.tokens import parse_duration

    _print_token(*_tokens(data).rotate(token_id, lifetime=_duration(expires), overlap=parse_duration(overlap)))


def _duration(text: str | None) -> timedelta | None:
    from sight.apps.serve.tokens import parse_duration

    return None if text is None else parse_duration(text)


def _print_token(text: str, created: Token) -> None:
    console.print(f"{text}", highlight=False, soft_wrap=True)
    until = f", valid until {created.expires}" if created.expires else ""
    errors.print(f"Token {created.id}{until}. It is not shown again.", style="dim", highlight=False)


@token.command("list")
def list_tokens(data: Data = Path("sight-data")) -> None:
    """List the ids, scopes, wearers and times of all tokens."""
    table = Table("id", "scopes", "wearers", "most wearers", "created", "expires", box=None)
    for entry in _tokens(data).tokens():
        expires = f"{entry.expires}{' (expired)' if entry.expired else ''}"
        most = "" if entry.max_wearers is None else str(entry.max_wearers)
        table.add_row(entry.id, ", ".join(entry.scopes), ", ".join(entry.wearers), most, entry.created, expires)
    console.print(table)


@token.command("remove")
def remove_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as listed.")],
    data: Data = Path("sight-data"),
) -> None:
    """Remove a token; a running service rejects it within a second."""
    if not _tokens(data).remove(token_id):
        raise ValueError(f"There is no token {token_id!r}; see: sight serve token list --data {data}")
    console.print(f"Removed {token_id}.", highlight=False)


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
