"""Lines of JSON and CSV, blocks of bytes, and events as JSON."""

from __future__ import annotations

import json
import logging
import os
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sight.apps.stream.event_json import as_json
from sight.apps.stream.line_parser import LONGEST_LINE, LineParser, split_lines
from sight.apps.stream.sensor_inputs import from_file
from sight.recordings.reading_options import ReadOptions
from sight.testing import toy_card
from sight.types import Event
from tests.helpers.streams import CHANNELS


def parser_of(channels=CHANNELS, units="g", **options):
    """Return a parser for a model with these channels, 10 Hz."""
    return LineParser(toy_card(channels=channels, units=(units,) * len(channels)), ReadOptions(**options))


def test_json_and_csv_give_the_same_samples():
    parser = parser_of(("x", "y"))
    lines = [
        '{"time_s": 1, "values": [1, 2]}',
        '{"time_s": [2, 3], "values": [[3, 4], [5, null]]}',
        "4, 7, 8",
        "# a comment",
        "",
        "5,,9",
    ]
    [samples] = parser.parse(lines)
    np.testing.assert_array_equal(samples.values, [[1, 2], [3, 4], [5, np.nan], [7, 8], [np.nan, 9]])
    assert samples.time_s.tolist() == [1, 2, 3, 4, 5]
    assert (parser.number, parser.malformed) == (6, 0)


def test_samples_with_and_without_times_are_separate_chunks():
    parts = parser_of(("x",)).parse(["1", "[2]", "0.5,3", '{"values": [4]}'])
    assert [part.values.ravel().tolist() for part in parts] == [[1, 2], [3], [4]]
    assert [part.time_s is None for part in parts] == [True, False, True]


def test_lines_before_the_header_are_skipped_and_a_start_is_refused():
    parser = parser_of(("x", "y"), skip=2)
    [samples] = parser.parse(["Logger 7", "notes, more", "0,1,2", "1,3,4"])
    assert (samples.values.tolist(), parser.malformed) == ([[1, 2], [3, 4]], 0)
    with pytest.raises(ValueError, match="applies to files"):
        parser_of(("x", "y"), start="2024-05-01").parse(["0,1,2"])


def test_malformed_lines_are_counted_and_the_first_is_logged(caplog):
    parser = parser_of(CHANNELS)
    bad = ["x", "1,2", "1,2,3,4,5", "{}", '{"values": "abc"}', '{"values": [[1, 2], [3]]}', "[" * 100_000, "1,2,z"]
    bad += ['x"\ry', f'1,"{"2" * 200_000}",3']  # no CSV
    bad += ['{"values": [1, 2, 3], "time_s": "noon"}', '{"values": {"x": 1}}', f'{{"values": [1, 2, 1{"0" * 400}]}}']
    with caplog.at_level(logging.WARNING, "sight.apps.stream"):
        assert parser.parse(["1,2,3", *bad])[0].values.tolist() == [[1, 2, 3]]
    assert parser.malformed == len(bad)
    assert len(caplog.records) == 1
    assert caplog.messages[0].startswith("line 2 ")


@pytest.mark.parametrize("header", ["time_s,gx,gy,gz", "gx,gy,gz", ",a,b,c", '"t","x","y","w"', "a,b,c,d,e,f"])
def test_a_header_that_does_not_name_the_channels_is_refused(header):
    with pytest.raises(ValueError, match=r"Line 3: .*--columns"):
        parser_of(CHANNELS).parse(["# a comment", "", header, "0,1,2,3"])


def test_only_the_first_line_is_refused_as_a_header():
    for first in ("1,2,3", "[1,2,3]", "started", "nan,1,2,3", "x,y,z"):
        parser = parser_of(CHANNELS)
        assert parser.parse([first, "0.1,a,b,c", "4,5,6"])[-1].values[-1].tolist() == [4, 5, 6]


def test_a_byte_order_mark_does_not_hide_the_time():
    [samples] = parser_of().parse(["\ufefftime_s,x,y,z", "0.5,1,2,3"], end=True)
    assert samples.time_s.tolist() == [0.5]


@pytest.mark.parametrize("night", ["2023-10-28T22:30:00+00:00", "2024-03-30T22:30:00+00:00"])
@pytest.mark.parametrize("changed", [True, False])
def test_local_times_are_regular_when_summer_time_changes(night, changed):
    zone, first = ZoneInfo("Europe/Berlin"), datetime.fromisoformat(night)
    truth = [first + timedelta(seconds=30 * i) for i in range(600)]
    local = [m.astimezone(zone) if changed else m + first.astimezone(zone).utcoffset() for m in truth]
    lines = [f"{moment:%Y-%m-%d %H:%M:%S},0,0,1" for moment in local]
    [samples] = parser_of(tz="Europe/Berlin", rate=1 / 30).parse(["time,x,y,z", *lines])
    assert samples.time_s.tolist() == [moment.timestamp() for moment in truth]


def test_numbers_beyond_single_precision_become_infinity():
    [samples] = parser_of(("x",)).parse(["0,1e300", '{"time_s": 1, "values": [1e300]}'])
    assert np.isinf(samples.values).all()


def test_times_beyond_those_of_the_service_are_malformed():
    """After 1e17 s a step of 0.02 s is rounded away: every further sample without a time would count as repeated."""
    parser = parser_of(("x",))
    lines = ['{"time_s": 1e17, "values": [1]}', "-1e11,1", '{"time_s": [1, 1e300], "values": [[1], [2]]}', "5,1"]
    [samples] = parser.parse(lines)
    assert (samples.time_s.tolist(), parser.malformed) == ([5.0], 3)


def test_blocks_are_split_at_line_ends_wherever_they_break():
    text = "1,2,3\n4,5,6\r\nsnö,wow\n7,8,9".encode()
    for size in (1, 2, 5, 100):
        blocks = [text[i : i + size] for i in range(0, len(text), size)]
        lines = [line.strip() for lines in split_lines(blocks) for line in lines]
        assert lines == ["1,2,3", "4,5,6", "snö,wow", "7,8,9"]


def test_a_line_without_end_is_cut_off():
    lengths = [len(line) for lines in split_lines([b"a" * LONGEST_LINE] * 3) for line in lines]
    assert lengths == [LONGEST_LINE, LONGEST_LINE]


def test_a_pipe_is_read_without_waiting_for_more():
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as file:
        os.write(write_end, b"1,2\n")
        blocks = from_file(file)
        assert next(blocks) == b"1,2\n"
        os.close(write_end)
        assert list(blocks) == []


def test_an_event_as_json_holds_plain_numbers_only():
    event = Event(
        window=3,
        time_s=1.5,
        q=np.array([0.25, 0.75], np.float32),
        p=np.array([0.5, 0.5], np.float32),
        gap_s=9.0,
        diagnostics={"surprise": 0.125, "agreement": np.nan},
    )
    assert json.loads(json.dumps(as_json(event, ("rest", "walk"), 2.0), allow_nan=False)) == {
        "window": 3,
        "time_s": 1.5,
        "label": "walk",
        "raw": "rest",
        "q": [0.25, 0.75],
        "p": [0.5, 0.5],
        "gap_s": 9.0,
        "surprise": 0.125,
        "diagnostics": {"surprise": 0.125, "agreement": None},
        "latency_ms": 2.0,
    }
