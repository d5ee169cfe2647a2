"""``sight stream``: a live sensor through a model and a method, answers as they come."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sight import registry
from sight.card import require_card
from sight.cli._inputs import find, recordings
from sight.cli._reading import Columns, MaxGap, Options, Reading, Zone
from sight.cli._shared import console, errors, make_adapter
from sight.cli.adapt import Method, Model, Preset, Settings
from sight.types import Event, Recording

if TYPE_CHECKING:
    from sight.stream.event_json import Tally
    from sight.stream.line_parser import Lines, Samples
    from sight.stream.session import Session

Rate = Annotated[float | None, typer.Option(help="Nominal rate (Hz) of the sensor; the model's by default.")]
Unit = Annotated[str | None, typer.Option(help="Unit of its acceleration: g, mg or m/s^2; the model's by default.")]
Serial = Annotated[str | None, typer.Option(help="Read lines from this serial port.")]
Baud = Annotated[int, typer.Option(min=1, help="Speed of the serial port.")]
Mqtt = Annotated[str | None, typer.Option(help="Read the messages of a topic: mqtt://host:port/topic.")]
Replay = Annotated[str | None, typer.Option(help="Replay a recording, or synthetic:W12, as a device.")]
Speed = Annotated[float, typer.Option(min=0, help="How much faster than life to replay; 0 does not wait at all.")]
State = Annotated[Path | None, typer.Option(help="File to go on from where it is there, and to save to.")]
SaveEvery = Annotated[int, typer.Option(min=1, help="Windows between two saves; it is saved on exit too.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines at a terminal too; a pipe always gets them.")]


def stream(
    model: Model,
    method: Method = registry.RECOMMENDED,
    settings: Settings = None,
    preset: Preset = None,
    serial: Serial = None,
    baud: Baud = 115200,
    mqtt: Mqtt = None,
    replay: Replay = None,
    speed: Speed = 1.0,
    rate: Rate = None,
    unit: Unit = None,
    max_gap: MaxGap = 0.5,
    state: State = None,
    save_every: SaveEvery = 60,
    as_json: AsJson = False,
    columns: Columns = None,
    tz: Zone = None,
    option: Options = None,
) -> None:
    """Recognise activities live while adapting to the wearer: samples in, an answer for each window out.

    Reads JSON lines with values and, if there are any, time_s, of one sample or a chunk, or CSV; from standard
    input, a serial port or MQTT. Ctrl-C ends with a summary. --columns, --tz and --option are for --replay.

    [bold]Examples[/]

      cat samples.csv | sight stream -m model.onnx

      sight stream -m model.onnx --serial /dev/ttyUSB0 --state wearer.state

      sight stream -m model.onnx --mqtt mqtt://localhost:1883/wearer/7 --json

      sight stream -m model.onnx --replay synthetic:W12 --speed 20
    """
    from sight.sources import load
    from sight.stream.event_json import Tally
    from sight.stream.interrupts import Stop
    from sight.stream.line_parser import Lines
    from sight.stream.loop import follow

    if sum(way is not None for way in (serial, mqtt, replay)) > 1:
        raise ValueError("Expected one of --serial, --mqtt and --replay, got several; choose one.")
    source: Any = load(model)
    lines, recorded = Lines(require_card(source).channels, tell=_tell), None
    if replay is not None:
        reading = Reading(columns=columns, unit=unit or "g", tz=tz, rate_hz=rate, options=tuple(option or ()))
        rate, recorded = _recorded(replay, source, reading)
        unit = None
    session = _session(source, make_adapter(method, settings, preset), rate, unit, max_gap, state)
    tally, before = Tally(), dict(session.facts)
    with Stop() as stop:
        samples = _read(lines, serial, baud, mqtt) if recorded is None else _replayed(recorded, session, speed)
        chunks = stop.until(samples)
        show = _shown(source.classes, tally, as_json or not console.is_terminal)
        try:
            follow(session, chunks, show, keep=_keep(session, state), every=save_every)
        except BrokenPipeError:  # whoever listened has heard enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _summary({name: count - before[name] for name, count in session.facts.items()}, tally, lines, state)


def _session(
    source: Any, adapter: Any, rate: float | None, unit: str | None, max_gap: float, state: Path | None
) -> Session:
    from sight.signal.units import ACCELERATION
    from sight.stream import state_file
    from sight.stream.session import Session

    units = None
    if unit is not None:
        units = [unit if own in ACCELERATION else own for own in source.card.units]
    session = Session(source, adapter, rate_in_hz=rate, units=units, max_gap_s=max_gap)
    if state is not None and state.exists():
        state_file.load(state, session)
        _tell(f"goes on from {state}, after {session.count} windows.")
    return session


def _keep(session: Session, state: Path | None) -> Callable[[], object] | None:
    from sight.stream import state_file

    return None if state is None else lambda: state_file.save(state, session)


def _read(lines: Lines, serial: str | None, baud: int, mqtt: str | None) -> Iterator[Samples]:
    from sight.stream import readers
    from sight.stream.line_parser import split

    if serial is not None:
        blocks = readers.from_serial(serial, baud, _tell)
    elif mqtt is not None:
        blocks = readers.from_mqtt(mqtt, _tell)
    else:
        if sys.stdin.isatty():
            _tell("reads JSON lines or CSV from the keyboard; pipe a sensor into it, or see --help.")
        blocks = readers.from_file(sys.stdin.buffer)
    return (samples for some in split(blocks) for samples in lines.read(some))


def _recorded(target: str, source: Any, reading: Reading) -> tuple[float, Iterator[Recording]]:
    found = find(target)
    if len(found) != 1 or str(found[0].path).endswith(".npz"):
        raise ValueError(f"Expected one recording to replay, got {target!r}; choose one file that holds samples.")
    every = recordings(found[0], source.card, reading)
    first = next(every)
    return first.rate_hz, chain([first], every)


def _replayed(every: Iterator[Recording], session: Session, speed: float) -> Iterator[Samples]:
    """Send what the session has not seen, and say where that begins if it has seen anything."""
    from sight.stream.replay import replay

    seen_s, begun = session.windower.last_s, False
    for one in every:
        for samples in replay(one, speed=speed, after_s=seen_s):
            if not begun and isfinite(seen_s):
                _tell(f"replay goes on at {seen_s:.1f} s.")
            begun = True
            yield samples
    if not begun:
        _tell(f"the state has seen the recording up to its end ({seen_s:.1f} s); another needs a state of its own.")


def _shown(classes: tuple[str, ...], tally: Tally, as_lines: bool) -> Callable[[Event, float], None]:
    from sight.stream.event_json import as_json

    def show(event: Event, latency_ms: float) -> None:
        tally.add(event)
        if as_lines:
            print(json.dumps(as_json(event, classes, round(latency_ms, 3)), allow_nan=False), flush=True)
        else:
            console.print(_pretty(event, classes), highlight=False)

    return show


def _pretty(event: Event, classes: tuple[str, ...]) -> str:
    now, raw = int(event.q.argmax()), int(event.p.argmax())
    width = max(map(len, classes))
    minutes, seconds = divmod(event.time_s, 60)
    line = f"[dim]{minutes:4.0f}:{seconds:04.1f}[/]  [bold]{classes[now]:{width}}[/] {event.q[now]:4.0%}"
    line += f"  [{'dim' if raw == now else 'yellow'}]raw {classes[raw]:{width}} {event.p[raw]:4.0%}[/]"
    if "surprise" in event.diagnostics:
        line += f"  surprise {event.diagnostics['surprise']:.2f}"
    return line + (f"  [cyan]after a gap of {event.gap_s:.1f} s[/]" if event.gap_s else "")


def _summary(facts: dict[str, int], tally: Tally, lines: Lines, state: Path | None) -> None:
    """Tell what this run amounted to, whatever was before it."""
    dropped = {name: count for name, count in facts.items() if name != "samples" and count}
    told = [str(tally), f"{facts['samples']} samples"]
    if dropped:
        told.append("dropped: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in dropped.items()))
    if lines.malformed:
        told.append(f"{lines.malformed} lines could not be read")
    if state is not None:
        told.append(f"saved to {state}")
    _tell("; ".join(told) + ".")


def _tell(text: str) -> None:
    errors.print(f"stream: {text}", highlight=False, soft_wrap=True, markup=False)
