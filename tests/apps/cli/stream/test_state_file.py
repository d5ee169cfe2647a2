"""``sight stream`` with a state file: it resumes bit for bit, and a file that does not fit is refused."""

from __future__ import annotations

import signal
import subprocess
import time

from tests.apps.cli.stream.stream_helpers import TIMEOUT_S, as_csv, lines_of, start, stop, stream


def test_a_stream_resumes_from_its_state_file_bit_for_bit(path, rows, expected, tmp_path):
    state, events = tmp_path / "wearer.state", []
    for part in (rows[:333], rows[333:334], rows[334:]):
        more, messages = stream(path, "--state", state, text=as_csv(part))
        events += more
        assert f"saved to {state}" in messages
    assert "resumed from" in messages
    for event, q in zip(events, expected.q.tolist(), strict=False):
        assert event["q"] == q
    # A saved stream is not flushed: the last window waits for another sample.
    assert len(expected.q) - 1 <= len(events) <= len(expected.q)


def test_a_signal_ends_the_stream_with_a_summary_and_saves_its_state(path, rows, expected, tmp_path):
    state = tmp_path / "wearer.state"
    with start(path, "--state", state, stdin=subprocess.PIPE) as process:
        process.stdin.write(as_csv(rows[:200]))
        process.stdin.flush()
        events = lines_of(process, 15)
        remaining, messages = stop(process, signal.SIGTERM)
    events += remaining
    assert f"stream: {len(events)} windows" in messages
    more, _ = stream(path, "--state", state, text=as_csv(rows[200:]))
    for event, q in zip(events + more, expected.q.tolist(), strict=False):
        assert event["q"] == q
    assert [event["window"] for event in events + more] == list(range(len(events + more)))


def test_the_state_is_saved_regularly(path, rows, tmp_path):
    state = tmp_path / "wearer.state"
    with start(path, "--state", state, "--save-every", 5, stdin=subprocess.PIPE) as process:
        process.stdin.write(as_csv(rows[:200]))
        process.stdin.flush()
        lines_of(process, 15)
        deadline = time.monotonic() + TIMEOUT_S
        while not state.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    _, messages = stream(path, "--state", state, text=as_csv(rows[200:]))
    assert "resumed from" in messages


def test_a_state_file_that_is_damaged_or_does_not_fit_is_refused(path, rows, tmp_path):
    state = tmp_path / "wearer.state"
    stream(path, "--state", state, text=as_csv(rows[:100]))
    whole = state.read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    for content, options, keyword in [
        (whole[: len(whole) // 2], [], "part of one"),
        (bytes(flipped), [], "damaged"),
        (b"", [], "something else"),
        (whole, ["--method", "sight"], "saved with method keel"),
        (whole, ["--rate", "20"], "saved at 10 Hz, this run uses 20 Hz"),
    ]:
        state.write_bytes(content)
        assert keyword in stream(path, "--state", state, *options, code=2)[1]
        assert state.read_bytes() == content
