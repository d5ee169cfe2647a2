"""``sight serve``: the live service, its demo, and its tokens."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sight.cli._shared import console, errors

if TYPE_CHECKING:
    from sight.serve.service import Service

Data = Annotated[Path, typer.Option("--data", help="Folder of the service: store, tokens, demo model.")]

app = typer.Typer(
    no_args_is_help=False, help="Serve models to many wearers live: WebSocket, HTTP, and a page to watch."
)
token = typer.Typer(no_args_is_help=True, help="Who may do what: add, list and remove tokens.")
app.add_typer(token, name="token")


@app.callback(invoke_without_command=True)
def serve(
    ctx: typer.Context,
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="Model file or folder of models; repeatable.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Add a small model and three wearers who never rest.")] = False,
    data: Data = Path("sight-data"),
    store: Annotated[str | None, typer.Option(help="redis://... or a file; SQLite in --data by default.")] = None,
    fsync: Annotated[bool, typer.Option("--fsync", help="Survive loss of power too, not only of the process.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM), for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    snapshot_every: Annotated[int, typer.Option(min=1, help="Windows of a wearer between two snapshots.")] = 20,
    keep: Annotated[int, typer.Option(min=1, help="Windows of a wearer whose answers are kept.")] = 86_400,
    resident: Annotated[int, typer.Option(min=1, help="Wearers in memory at a time.")] = 2_000,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="NAME=VALUE, repeatable; see docs/serve.md for the names.")
    ] = None,
) -> None:
    """Serve models live. State survives a kill; nothing leaves this machine unless you say so.

    [bold]Examples[/]

      sight serve --demo

      sight serve -m walk.onnx -m walk@2.onnx --data /srv/sight

      sight serve token add --scopes ingest,read --wearers 'lab-*'

      sight serve -m walk.onnx --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --limit wearers=500
    """
    if ctx.invoked_subcommand is not None:
        return
    from sight.serve.model_catalog import Models
    from sight.serve.service import Service
    from sight.serve.session_manager import Keeper
    from sight.serve.store import open_store
    from sight.serve.tokens import TokenBook

    limits, tokens, local = _limits(limit or []), TokenBook(data / "tokens.json"), _local(host)
    if not local and not tokens:
        raise ValueError(
            f"Expected a token before listening on {host}, where others can reach it; "
            f"add one with: sight serve token add --data {data}"
        )
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("Expected both --tls-cert and --tls-key, got one; give the other, or neither.")
    listener = _listen(host, port)
    paths = list(model or []) + ([_demo_model(data)] if demo else [])
    data.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(
        Models.load(paths),
        open_store(store or str(data / "sight.sqlite"), fsync=fsync),
        snapshot_every=snapshot_every,
        keep=keep,
        resident=resident,
        limits=limits,
    )
    scheme = "https" if tls_cert else "http"
    console.print(f"[bold]sight[/] serves at [bold]{_address(scheme, listener)}[/]", highlight=False, soft_wrap=True)
    tls = {"ssl_certfile": tls_cert, "ssl_keyfile": tls_key} if tls_cert else {}
    _run(Service(keeper, tokens, limits, guarded=not local), listener, demo=demo, **tls)


def _run(service: Service, listener: socket.socket, *, demo: bool, **tls: Any) -> None:
    """Serve until told to stop; then finish what is under way, save, close, and end with 0."""
    import uvicorn

    from sight.serve.app import create_app
    from sight.serve.demo import Replay, demo_recordings
    from sight.serve.monitoring import log_config

    class Server(uvicorn.Server):
        """Lets the service say goodbye before connections are cut."""

        replay: asyncio.Task[None] | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if demo and self.started:
                self.replay = asyncio.create_task(Replay(service, recordings).run())

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if self.replay is not None:
                self.replay.cancel()
            await service.drain()
            await super().shutdown(sockets)

    recordings = demo_recordings() if demo else {}
    config = uvicorn.Config(
        create_app(service),
        log_config=log_config(),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=service.limits.message_bytes,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=15,
        **tls,
    )
    # The keeper's thread must not hold up the loop, which hands over at each message, for the usual 5 ms each time.
    sys.setswitchinterval(5e-4)
    # The server raises the signal that stopped it once more; supervisors would read 143 as a failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listener])


def _demo_model(data: Path) -> Path:
    from sight.serve.demo import demo_model

    folder = data / "models"
    if not (folder / "demo.onnx").exists():
        console.print("Training a small model for the demo, once ...", highlight=False)
    return demo_model(folder)


def _limits(assignments: list[str]) -> Any:
    from sight import params
    from sight.serve.limits import Limits

    return Limits(**params.parse(Limits, assignments))


def _local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything is loaded, so that a port in use is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"Cannot listen on {host} port {port}: {error.strerror}; choose another with --port.") from None


def _address(scheme: str, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


# --- tokens -----------------------------------------------------------------------------------------------------------


@token.command("add")
def add_token(
    scopes: Annotated[str, typer.Option(help="Any of ingest, read, admin; comma-separated.")] = "ingest,read",
    wearers: Annotated[str, typer.Option(help="Patterns of wearers, comma-separated, such as 'lab-*'.")] = "*",
    data: Data = Path("sight-data"),
) -> None:
    """Make a token and print it, once; only its hash is kept.

    [bold]Example[/]

      sight serve token add --scopes ingest --wearers 'lab-*'
    """
    from sight.serve.tokens import TokenBook

    text, made = TokenBook(data / "tokens.json").add(_words(scopes), _words(wearers))
    console.print(f"{text}", highlight=False, soft_wrap=True)
    errors.print(f"This is token {made.id}; it is shown this once.", style="dim", highlight=False)


@token.command("list")
def list_tokens(data: Data = Path("sight-data")) -> None:
    """List tokens by their public names."""
    from sight.serve.tokens import TokenBook

    table = Table("id", "scopes", "wearers", "created", box=None)
    for one in TokenBook(data / "tokens.json").tokens():
        table.add_row(one.id, ", ".join(one.scopes), ", ".join(one.wearers), one.created)
    console.print(table)


@token.command("remove")
def remove_token(
    name: Annotated[str, typer.Argument(help="Its id, as listed.")], data: Data = Path("sight-data")
) -> None:
    """Remove a token; a running service stops honouring it within a second."""
    from sight.serve.tokens import TokenBook

    if not TokenBook(data / "tokens.json").remove(name):
        raise ValueError(f"There is no token {name!r}; see: sight serve token list --data {data}")
    console.print(f"Removed {name}.", highlight=False)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
