"""``sight stream``: predict live from a sensor, a broker or a replayed recording."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from sight import registry
from sight.apps.cli import _options as opt
from sight.apps.cli._shared import close_stdout, console, errors, plural, print_warnings
from sight.models.card import require_card
from sight.recordings.reading_options import ReadOptions
from sight.types import Event, Recording

if TYPE_CHECKING:
    from sight.apps.stream.line_parser import LineParser
    from sight.apps.stream.session import Session
    from sight.apps.stream.table_lines import Samples

#: Words of the summary for the counters of dropped samples.
DROPPED = {"duplicate_samples": "repeated", "backward_samples": "late", "nan_samples": "with a missing value"}

Serial = Annotated[str | None, typer.Option(help="Read lines from this serial port.")]
Baud = Annotated[int, typer.Option(min=1, help="Speed of the serial port.")]
Mqtt = Annotated[str | None, typer.Option(help="Read messages of a topic: mqtt://host:port/topic.")]
Replay = Annotated[str | None, typer.Option(help="Replay a recording, or a subject such as synthetic:W12.")]
Speed = Annotated[float, typer.Option(min=0, help="Replay speed relative to real time; 0 does not wait.")]
State = Annotated[Path | None, typer.Option(help="State file; resumed if present, saved on exit.")]
SaveEvery = Annotated[int, typer.Option(min=1, help="Windows between two saves of the state file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines in a terminal too; a pipe always gets them.")]


@opt.takes_reading_options(labels=False)
def stream(
    model: opt.Model,
    method: opt.Method = registry.RECOMMENDED,
    params: opt.Params = None,
    preset: opt.Preset = None,
    serial: Serial = None,
    baud: Baud = 115200,
    mqtt: Mqtt = None,
    replay: Replay = None,
    speed: Speed = 1.0,
    state: State = None,
    save_every: SaveEvery = 60,
    as_json: AsJson = False,
    *,
    reading: ReadOptions,
) -> None:
    """Recognise activities live while adapting to the wearer: samples in, one prediction per window out.

    Reads samples from standard input, a serial port or MQTT, as JSON lines with values and an optional time_s, or as
    CSV. CSV with a header is read as a file is, with the same options; without a header, values are in the units of
    the model unless --unit or --gyro-unit is set. Ctrl-C ends the stream and prints a summary.

    [bold]Examples[/]

      cat day.csv | sight stream -m model.onnx --unit mg

      sight stream -m model.onnx --serial /dev/ttyUSB0 --state wearer.state

      sight stream -m model.onnx --mqtt mqtt://localhost:1883/wearer/7 --json

      sight stream -m model.onnx --replay synthetic:W12 --speed 20
    """
    from sight.apps.stream import state_file
    from sight.apps.stream.interrupts import StopOnSignal
    from sight.apps.stream.line_parser import LineParser
    from sight.apps.stream.loop import run_loop
    from sight.models.load import load

    if sum(value is not None for value in (serial, mqtt, replay)) > 1:
        raise ValueError("Expected one of --serial, --mqtt and --replay, got several; choose one.")
    source: Any = load(model)
    parser, recordings = LineParser(require_card(source), reading), None
    rate = reading.rate
    if replay is not None:
        rate, recordings = _open_recording(replay, source.card, reading)
    if rate is None and state is not None and state.exists():
        rate = state_file.sensor_rate(state)
    adapter = registry.method(method, preset, params or ())
    session = _make_session(source, adapter, rate, reading.max_gap, state)
    with _log_to_stderr(), StopOnSignal() as stop:
        samples = _parsed(parser, serial, baud, mqtt) if recordings is None else _replayed(recordings, session, speed)
        chunks = stop.iterate(samples)
        first = list(islice(chunks, 1))  # its times give the rate of a table
        if rate is None and parser.rate_hz not in (None, session.rate_in_hz):
            session = _make_session(source, adapter, parser.rate_hz, reading.max_gap, state)
        before = dict(session.facts)
        printer = EventPrinter(source.classes, as_json or not console.is_terminal, session)
        save = None if state is None else lambda: state_file.save(state, session)
        try:
            run_loop(session, chain(first, chunks), printer, save=save, save_every=save_every)
        except BrokenPipeError:  # the reader of our output has closed it
            close_stdout()
    counts = {name: count - before[name] for name, count in session.facts.items()}  # of this run alone
    parts = [printer.summary(), plural(counts["samples"], "sample")]
    if dropped := [f"{counts[name]} {text}" for name, text in DROPPED.items() if counts[name]]:
        parts.append(f"dropped: {', '.join(dropped)}")
    if parser.malformed:
        parts.append(plural(parser.malformed, "malformed line"))
    if state is not None:
        parts.append(f"saved to {state}")
    _print_message("; ".join(parts) + ".")
    if recordings is None and parser.number and not (printer.windows or state or stop.requested):
        raise ValueError(
            f"The input has no window of {session.windower.window_s:g} s without a gap, so nothing was predicted; send "
            f"more samples, or set how they are read (--columns, --time-unit, --rate, --max-gap)."
        )


class EventPrinter:
    """Prints each event, as JSON or for the eye, and counts windows, gaps and changed predictions.

    Warnings of the session are printed once, after its first windows.
    """

    def __init__(self, classes: tuple[str, ...], as_json: bool, session: Session | None = None) -> None:
        self.classes, self.as_json, self.session = classes, as_json, session
        self.windows = self.gaps = self.changed = 0

    def __call__(self, event: Event, latency_ms: float) -> None:
        from sight.apps.stream.event_json import as_json
        from sight.apps.stream.session import EXAMINED

        self.windows += 1
        self.gaps += event.gap_s > 0
        self.changed += bool(event.q.argmax() != event.p.argmax())
        if self.as_json:
            print(json.dumps(as_json(event, self.classes, round(latency_ms, 3)), allow_nan=False), flush=True)
        else:
            console.print(self._line(event), highlight=False)
        if self.session is not None and event.window + 1 >= EXAMINED:
            for warning in self.session.warnings:
                _print_message(str(warning))
            self.session = None

    def summary(self) -> str:
        share = self.changed / max(self.windows, 1)
        verb = "differs" if self.changed == 1 else "differ"
        changed = f"{plural(self.changed, 'prediction')} ({share:.1%}) {verb} from the model alone"
        return f"{plural(self.windows, 'window')}, {plural(self.gaps, 'gap')}; {changed}"

    def _line(self, event: Event) -> str:
        classes, refined, raw = self.classes, int(event.q.argmax()), int(event.p.argmax())
        width = max(map(len, classes))
        predicted, alone = (escape(f"{classes[k]:{width}}") for k in (refined, raw))
        minutes, seconds = divmod(event.time_s, 60)
        line = f"[dim]{minutes:4.0f}:{seconds:04.1f}[/]  [bold]{predicted}[/] {event.q[refined]:4.0%}"
        line += f"  [{'dim' if raw == refined else 'yellow'}]raw {alone} {event.p[raw]:4.0%}[/]"
        if "surprise" in event.diagnostics:
            line += f"  surprise {event.diagnostics['surprise']:.2f}"
        return line + (f"  [cyan]after a gap of {event.gap_s:.1f} s[/]" if event.gap_s else "")


def _make_session(source: Any, adapter: Any, rate: float | None, max_gap: float | None, state: Path | None) -> Session:
    from sight.apps.stream import state_file
    from sight.apps.stream.session import Session
    from sight.recordings.signal.clock import MAX_GAP_S

    session = Session(source, adapter, rate_in_hz=rate, max_gap_s=MAX_GAP_S if max_gap is None else max_gap)
    if state is not None and state.exists():
        state_file.load(state, session)
        _print_message(f"resumed from {state}, after {plural(session.count, 'window')}.")
    return session


def _parsed(parser: LineParser, serial: str | None, baud: int, mqtt: str | None) -> Iterator[Samples]:
    from sight.apps.stream import sensor_inputs
    from sight.apps.stream.line_parser import split_lines

    if serial is not None:
        blocks = sensor_inputs.from_serial(serial, baud)
    elif mqtt is not None:
        blocks = sensor_inputs.from_mqtt(mqtt)
    else:
        if sys.stdin.isatty():
            _print_message("reading JSON lines or CSV from the keyboard; pipe a sensor into it, or see --help.")
        blocks = sensor_inputs.from_file(sys.stdin.buffer)
    for lines in split_lines(blocks):
        yield from parser.parse(lines)
    yield from parser.parse([], end=True)


def _open_recording(target: str, card: Any, options: Any) -> tuple[float, Iterator[Recording]]:
    from sight.recordings.read import read_samples
    from sight.recordings.recording_references import find_recording

    ref = find_recording(target)
    recordings = read_samples(ref, card, options)
    first = next(recordings)
    print_warnings(ref.name, first.warnings)
    return first.rate_hz, chain([first], recordings)


def _replayed(recordings: Iterator[Recording], session: Session, speed: float) -> Iterator[Samples]:
    from sight.apps.stream.replay import replay

    received_s, started = session.windower.last_s, False
    for recording in recordings:
        for samples in replay(recording, speed=speed, after_s=received_s):
            if not started and isfinite(received_s):
                _print_message(f"replay resumes at {received_s:.1f} s.")
            started = True
            yield samples
    if not started:
        _print_message(f"the state file covers the whole recording (up to {received_s:.1f} s); use another state file.")


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    logger, handler = logging.getLogger("sight.apps.stream"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("stream: %(message)s"))
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _print_message(text: str) -> None:
    errors.print(f"stream: {text}", highlight=False, soft_wrap=True, markup=False)
