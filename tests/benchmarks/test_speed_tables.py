"""Tables of the committed figures of speed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.speed.tables import speed_tables
from tools.findings_data import speed


def test_tables_of_the_speed_figures():
    found = {table.name: table for table in speed_tables(speed())}
    assert [row[0].text for row in found["int8"].rows][-2:] == ["file, KB", "ms a window"]
    pairs = speed()["int8"]["pairs"]
    assert len(pairs) == 3
    assert all(pair["macro_f1 int8"] > pair["macro_f1 float32"] - 0.01 for pair in pairs)
    methods = {row[0].text for row in found["harth-methods"].rows}
    assert {"none", "sight", "keel", "tent"} <= methods
    times = {row["method"]: row["ms_per_window"] for row in speed()["shapes"]["harth"]["methods"]}
    assert times["sight"] == pytest.approx(speed()["shapes"]["harth"]["steps_ms"]["SIGHT on onnx"])
    verdicts = [row[-1].text for row in found["targets"].rows]
    assert verdicts.count("met") + verdicts.count("**missed**") == 14
    assert verdicts.count("") == 2  # without a target
