"""``sight serve``: the live service and its demo; its subcommands are in the modules `serve_*`."""

import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sight import registry
from sight.apps.cli import serve_token
from sight.apps.cli._kernel_cache import set_kernel_cache
from sight.apps.cli._shared import console, errors
from sight.apps.cli.serve_backup import backup_data, restore_data
from sight.apps.cli.serve_check import FILE, check_service

SCHEMES = ", ".join(f"{scheme}://" for scheme in registry.TABLES["stores"])

app = typer.Typer(no_args_is_help=False, help="Serve models to many wearers live: WebSocket, HTTP and a live web page.")
app.add_typer(serve_token.app, name="token")
app.command("backup")(backup_data)
app.command("restore")(restore_data)
app.command("check")(check_service)


@app.callback(invoke_without_command=True)
def serve(
    ctx: typer.Context,
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="Bundled model, file or folder of models; repeatable.")
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Add a small model and three synthetic wearers, replayed at 10 times their speed."),
    ] = False,
    data: serve_token.Data = Path("sight-data"),
    store: Annotated[
        str | None, typer.Option(help=f"File, or address of a store ({SCHEMES}); SQLite in --data by default.")
    ] = None,
    fsync: Annotated[
        bool, typer.Option("--fsync", help="Survive loss of power, not only the end of the process.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than a loopback address needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 selects a free port.")] = 8000,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM), for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the certificate (PEM).")] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="Address or network of a proxy whose X-Forwarded-For is used in the log; repeatable."),
    ] = None,
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
    set_kernel_cache(data / "kernels")
    from sight import params
    from sight.apps.demo import MODEL, recordings
    from sight.apps.serve.backup import DATABASE
    from sight.apps.serve.limits import Limits
    from sight.apps.serve.model_catalogue import ModelCatalogue
    from sight.apps.serve.service import Service
    from sight.apps.serve.session_manager import SessionManager
    from sight.apps.serve.store import open_store
    from sight.apps.serve.tokens import TokenFile
    from sight.apps.serve.web_server import Server, run

    limits, tokens = Limits(**params.parse(Limits, limit or [])), TokenFile(data / serve_token.FILE)
    local = _is_loopback(host)
    if not local and not tokens:
        raise ValueError(
            f"Expected a token before listening on {host}, which other machines can reach; "
            f"add one with: sight serve token add --data {data}"
        )
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("Expected both --tls-cert and --tls-key, got one; give the other, or neither.")
    if not model and not demo:
        raise ValueError("Expected a model, got none; give a file or folder of models with -m, or use --demo.")
    proxies = {"proxy_headers": True, "forwarded_allow_ips": _networks(trusted_proxy)} if trusted_proxy else {}
    listener = _listen(host, port)
    with _private_files(data):
        paths = list(model or []) + ([MODEL] if demo else [])
        manager = SessionManager(
            ModelCatalogue.load(paths),
            open_store(store or str(data / DATABASE), fsync=fsync),
            snapshot_every=snapshot_every,
            keep=keep,
            resident=resident,
            limits=limits,
        )
        address = _address("https" if tls_cert else "http", listener)
        console.print(f"[bold]sight[/] serves at [bold]{address}[/]", highlight=False, soft_wrap=True)
        tls = {"ssl_certfile": tls_cert, "ssl_keyfile": tls_key} if tls_cert else {}
        service = Service(manager, tokens, require_token=not local)
        with _address_file(data / FILE, address):
            run(Server(service, (recordings(), MODEL.stem) if demo else None, **tls, **proxies), listener)


@contextmanager
def _private_files(data: Path) -> Iterator[None]:
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


@contextmanager
def _address_file(path: Path, address: str) -> Iterator[None]:
    """Write how this machine reaches the service, for `sight serve check`; remove it at the end.

    A service on a full disk starts without the file, so that wearers can be deleted.
    """
    from sight._util.atomic import write_json

    everywhere = {"://0.0.0.0:": "://127.0.0.1:", "://[::]:": "://[::1]:"}
    for listening, reached in everywhere.items():
        address = address.replace(listening, reached)
    try:
        write_json(path, {"url": address})
    except OSError as error:
        text = f"{path} cannot be written ({error.strerror}), so sight serve check will not find the service."
        errors.print(escape(text), highlight=False, soft_wrap=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _networks(texts: Sequence[str]) -> list[str]:
    try:
        return [str(ipaddress.ip_network(text, strict=False)) for text in texts]
    except ValueError as error:
        raise ValueError(f"Expected addresses or networks of --trusted-proxy, such as 127.0.0.1: {error}.") from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; bound before anything is loaded, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"Cannot listen on {host} port {port}: {error.strerror}; choose another with --port.") from None
    # Accepted sockets inherit it. Without it a response on a connection that is kept open waits for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _address(scheme: str, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
