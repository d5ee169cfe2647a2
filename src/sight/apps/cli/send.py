"""``sight send``: stream a recording to a service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sight.apps.cli import _options as opt
from sight.apps.cli._shared import console, errors, plural, print_warnings, progress
from sight.recordings.reading_options import ReadOptions

if TYPE_CHECKING:
    from sight.apps.serve.send_recording import Transfer

To = Annotated[str, typer.Option("--to", help="Address of the service, such as http://127.0.0.1:8000.")]
Wearer = Annotated[str, typer.Option(help="Name of the wearer; created if it does not exist.")]
Token = Annotated[str, typer.Option(envvar="SIGHT_TOKEN", help="Token with the scope ingest, if needed.")]
ServiceModel = Annotated[str | None, typer.Option(help="Model of a new wearer, by its name in the service.")]
Speed = Annotated[float, typer.Option(min=0, help="Speed relative to real time; 0: as fast as accepted.")]
RetryFor = Annotated[float, typer.Option(min=0, help="Seconds to wait for a service that starts, restarts or is busy.")]
Recording = Annotated[str, typer.Argument(help="Recording, or dataset:subject such as synthetic:W12.")]


@opt.takes_reading_options(labels=False)
def send(
    target: Recording,
    to: To,
    wearer: Wearer,
    token: Token = "",
    model: ServiceModel = None,
    speed: Speed = 0.0,
    retry_for: RetryFor = 300.0,
    *,
    reading: ReadOptions,
) -> None:
    """Send a recording to a service, from the latest sample that the service has.

    If the command or the service is stopped, run the same command again: nothing is lost or sent twice. While the
    service is busy, the same chunk is sent again.

    [bold]Examples[/]

      sight send day.cwa --to http://127.0.0.1:8000 --wearer lab-07

      SIGHT_TOKEN=... sight send walk.csv --to https://sight.example.org --wearer lab-07 --unit m/s^2 --speed 1
    """
    from sight.apps.serve.client import Client
    from sight.apps.serve.send_recording import Transfer
    from sight.apps.stream.interrupts import StopOnSignal
    from sight.recordings.read import read_samples
    from sight.recordings.recording_references import find_recording

    ref, began = find_recording(target), time.monotonic()
    with Client(to, token, retry_s=retry_for, on_wait=_print_reason) as client:
        recordings = list(read_samples(ref, client.card(model), reading))
        print_warnings(ref.name, recordings[0].warnings)
        transfer = Transfer(client, wearer, recordings, model=model, speed=speed)
        if transfer.resumed_s is not None:
            console.print(f"{wearer}: continues after the latest sample that the service has.", highlight=False)
        with progress(f"{ref.name} to {wearer}", transfer.total, "samples") as show, StopOnSignal() as stop:
            for done in stop.iterate(transfer.run()):
                show(done)
    _print_summary(transfer, time.monotonic() - began)
    if stop.requested:
        errors.print("send: stopped; run the same command to continue.", highlight=False)
        raise typer.Exit(130)


def _print_reason(reason: str) -> None:
    errors.print(f"send: {reason} Trying again ...", highlight=False, soft_wrap=True, markup=False)


def _print_summary(transfer: Transfer, seconds: float) -> None:
    share = transfer.changed / max(transfer.windows, 1)
    amount = f"{plural(transfer.sent, 'sample')} in {plural(transfer.chunks, 'chunk')}"
    parts = [f"Sent {amount} in {seconds:.1f} s; {plural(transfer.windows, 'window')} predicted"]
    parts[0] += f", {share:.1%} of them differ from the model alone" if transfer.windows else ""
    counts = {
        "sent before": transfer.present,
        "without a value left out": transfer.without_value,
        "dropped by the service because their time does not increase": transfer.dropped,
    }
    parts += [f"{plural(count, 'sample')} {text}" for text, count in counts.items() if count]
    console.print("; ".join(parts) + ".", highlight=False, soft_wrap=True)
    console.print(f"Live page: {transfer.client.url}/#{transfer.wearer}", highlight=False, soft_wrap=True)
