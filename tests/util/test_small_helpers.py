"""Texts, units, counts and arrays of `sight._util`."""

import numpy as np
import pytest

from sight._util.code_hash import HOME, imported_files
from sight._util.confusion import confusion
from sight._util.durations import duration_text, hours_text, parse_seconds
from sight._util.growing_array import GrowingArray
from sight._util.parallel import map_unordered
from sight._util.tensorfile import pack, unpack
from sight._util.text import choices
from sight._util.unit_conversion import factor, unit_name


def test_durations_have_their_two_largest_units():
    seconds = (0.5, 42, 305, 7500, 8 * 86400 + 7200, 1200 * 86400)
    assert [duration_text(s) for s in seconds] == ["0.5 s", "42 s", "5 min 05 s", "2 h 05 min", "8 d 2 h", "1,200 d"]
    assert [hours_text(hours) for hours in (9.17, 30, 0.87, 0.01)] == ["9 h 10 min", "30 h 00 min", "52 min", "36 s"]


def test_a_duration_has_a_unit_unless_it_is_a_number():
    assert [parse_seconds(text) for text in ("16h", "1.5 min", 90)] == [57600, 90, 90]
    with pytest.raises(ValueError, match="write 90min"):
        parse_seconds("90", usual="min")


def test_an_unknown_name_has_the_closest_one_in_its_message():
    assert choices("tua", ["beta", "tau"]) == "choose from beta, tau. Did you mean 'tau'?"


def test_units_have_several_spellings_and_convert():
    assert [unit_name(text) for text in ("m/s2", "milli-g", "DPS", "rpm")] == ["m/s^2", "mg", "deg/s", None]
    assert factor("mg", "g") == 0.001
    assert factor("g", "m/s^2") == pytest.approx(9.80665)
    assert factor("rad/s", "deg/s") == pytest.approx(57.2958, abs=1e-4)


def test_confusion_ignores_unlabelled_windows():
    assert confusion(np.array([0, 1, -1, 1]), np.array([0, 0, 0, 1]), 2).tolist() == [[1, 0], [1, 1]]


def test_a_growing_array_returns_the_rows_appended():
    rows = GrowingArray(np.float32, 2, expected=1)
    rows.append(np.ones((3, 2)))
    rows.append(np.zeros((2, 2)))
    assert rows.array().tolist() == [[1, 1]] * 3 + [[0, 0]] * 2


def test_the_serial_engine_starts_the_largest_call_first():
    calls = [(7, 2), (9, 4)]
    assert list(map_unordered(divmod, calls, engine="serial")) == [(0, (3, 1)), (1, (2, 1))]
    assert [index for index, _ in map_unordered(divmod, calls, engine="serial", memory=[1, 5])] == [1, 0]


def test_packed_arrays_and_header_are_read_back():
    header, arrays = unpack(pack({"a": np.arange(3)}, "demo", {"format": 1}), "demo")
    assert header == {"format": 1}
    assert arrays["a"].tolist() == [0, 1, 2]


def test_imported_files_are_those_that_a_method_needs():
    names = [file.name for file in imported_files(HOME / "methods" / "ema.py")]
    others = "array_checks.py arrays.py object_state.py recording_facts.py text.py base.py ops.py params.py types.py"
    assert names == ["ema.py", *others.split()]
