"""`sight.adapt`: the same numbers as the command, from files and frames, with tables, plot and HTML."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import sight
from sight._util.progress import in_notebook, progress_bar
from sight.testing import toy_network
from tests.helpers.commands import output_of

RATE = 10
NETWORK = toy_network()
START = pd.Timestamp("2025-03-03 23:50", tz="Europe/Berlin")


def samples(minutes=20) -> pd.DataFrame:
    n = 60 * RATE * minutes
    values = np.random.default_rng(0).normal([0, 0, 1], 0.3, size=(n, 3))
    time = START + pd.to_timedelta(np.arange(n) / RATE, unit="s")
    return pd.DataFrame(values, columns=["x", "y", "z"]).assign(time=time)


@pytest.fixture(scope="module")
def found():
    return sight.adapt(samples(), NETWORK, subject="P01", min_bout="30s", progress=False)


def test_tables_are_frames_in_the_wearers_time_zone(found):
    assert found.windows["time"].dt.tz.key == "Europe/Berlin"
    assert found.daily["date"].dt.date.astype(str).tolist() == ["2025-03-03", "2025-03-04"]
    assert found.daily["wear_h"].sum() == pytest.approx(20 / 60, abs=1e-3)
    assert found.segments["start"].iloc[0] == START
    assert found.windows["enmo_mg"].between(0, 1000).all()
    assert found.summary[["subject", "method", "valid_days"]].to_numpy().tolist() == [
        ["P01", "keel, whole recording", 0]
    ]
    assert list(found.bouts.columns) == list(found.bouts.columns.unique())
    assert found.nonwear.empty
    assert (found.bouts["duration_min"] >= 0.5).all()
    assert found.warnings == found.result.windows.warnings


def test_a_frame_with_its_time_as_index_gives_the_same(found):
    for frame in (samples().set_index("time"), samples().set_index("time").rename_axis(None)):
        other = sight.adapt(frame, NETWORK, progress=False)
        np.testing.assert_array_equal(other.result.q, found.result.q)
        assert other.result.windows.start == found.result.windows.start
    since_start = samples().assign(time=lambda frame: frame["time"] - START)
    np.testing.assert_allclose(sight.adapt(since_start, NETWORK, progress=False).result.q, found.result.q, atol=1e-5)


def test_the_command_writes_the_same_tables(found, tmp_path):
    NETWORK.save(tmp_path / "toy.safetensors")
    samples().to_parquet(tmp_path / "P01.parquet")
    output_of("adapt", tmp_path / "P01.parquet", "-m", tmp_path / "toy.safetensors", "-o", tmp_path / "out", "--csv")
    saved = found.save(tmp_path / "saved", csv=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(saved)
    for name in ("segments.csv", "daily.csv", "nonwear.csv", "windows.csv"):
        assert (tmp_path / "out" / name).read_bytes() == saved[name].read_bytes(), name


def test_options_reach_the_reader_and_the_rules(tmp_path):
    frame = samples().rename(columns={"x": "ax"}).assign(x=0.0)
    other = sight.adapt(
        frame, NETWORK, "none", columns={"x": "ax", "y": "y", "z": "z"}, valid_day=0.1, min_bout=20, progress=False
    )
    assert other.daily["valid"].all()
    assert other.rules.min_bout_s == 20
    np.testing.assert_array_equal(other.result.p, other.result.q)
    adapter = sight.method("keel", align=0.2)
    assert sight.adapt(samples(2), NETWORK, adapter, progress=False).result.params["align"] == 0.2


def test_files_of_one_wearer_are_joined(tmp_path):
    frame = samples(10)
    files = [tmp_path / f"{part}.parquet" for part in ("a", "b")]
    for file, rows in zip(files, (frame.iloc[:3000], frame.iloc[4200:]), strict=True):
        rows.to_parquet(file)
    found = sight.adapt(files, NETWORK, subject="P01", progress=False)
    assert found.nonwear["kind"].tolist() == ["gap"]
    assert found.nonwear["duration_h"].iloc[0] == pytest.approx(120 / 3600, abs=2e-3)


def test_wrong_input_raises():
    with pytest.raises(ValueError, match=r"^The DataFrame: no column looks like time among x, y, z"):
        sight.adapt(samples().drop(columns="time"), NETWORK)
    with pytest.raises(TypeError, match="DataFrame, got int"):
        sight.adapt(3, NETWORK)
    with pytest.raises(ValueError, match="activity"):
        sight.adapt(samples(), NETWORK, min_bout=["walking=2min"])


def test_the_report_and_the_html_of_a_notebook(found, tmp_path):
    assert found.report(tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    html = found._repr_html_()
    assert html.count("<svg") == 4  # two days, raw and refined
    assert found.headline in html
    assert "P01" in repr(found)


def test_html_escapes_the_name_of_the_subject():
    assert "<script>" not in sight.adapt(samples(2), NETWORK, subject="<script>", progress=False)._repr_html_()


def test_a_plot_has_one_row_per_day(found):
    axes = found.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Mon 3 Mar", "Tue 4 Mar"]
    assert len(found.plot(most_days=1).axes[0].get_yticklabels()) == 1


def test_progress_in_a_notebook_is_html(monkeypatch):
    shown = []
    handle = SimpleNamespace(update=shown.append)

    def display(html, display_id):
        shown.append(html)
        return handle

    shell = SimpleNamespace(config={"IPKernelApp": {}})
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=display))
    assert in_notebook()
    with progress_bar("a<b", 10, "windows") as show:
        show(5)
    assert 'value="5" max="10"' in shown[1]
    assert "5 of 10 windows" in shown[1]
    assert "a&lt;b" in shown[1]
    assert shown[-1] == ""


def test_progress_begins_with_reading_and_counts_with_units(tmp_path):
    shown = []

    @contextmanager
    def bar(label, total, unit):
        yield lambda done: shown.append((label, done, total, unit))

    path = tmp_path / "walk.parquet"
    samples().to_parquet(path)
    sight.adapt(path, NETWORK, progress=bar)
    label, done, _, unit = shown[0]
    assert (label, done, unit) == ("walk.parquet, reading", 0, "MB")
    stages = list(dict.fromkeys((label, unit) for label, _, _, unit in shown))
    assert stages == [(label, "MB"), ("walk.parquet, preparing", "steps"), ("walk", "windows")]
    for stage in stages:
        counts = [(done, total) for label, done, total, unit in shown if (label, unit) == stage]
        assert counts[0][0] == 0
        assert counts[-1][0] == counts[-1][1]
        assert [done for done, _ in counts] == sorted(done for done, _ in counts)
