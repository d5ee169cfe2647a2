"""Rows of runs are copied to the committed layout, or refused as a whole."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tools.publish_rows import publish

from sight.apps.bench.result_rows import read, write
from tests.helpers.bench_rows import POINTS, rows


def write_mine(folder, name="mine_hapt.parquet", **changes):
    """Write rows of a user's experiment, for which no plan of the package defines what is missing."""
    return write(folder / name, [row | {"experiment": "mine"} for row in rows(title="Mine", **changes)])


def test_new_changed_equal_and_removed_rows(tmp_path):
    runs, to = tmp_path / "runs", tmp_path / "results"
    write_mine(runs)
    assert publish([runs], to) == ["mine_hapt: 36 rows, all new"]
    path = to / "hapt" / "mine_hapt.parquet"
    assert path.read_bytes() == (runs / "mine_hapt.parquet").read_bytes()
    assert "Main comparison" not in (to / "hapt" / "report.md").read_text()
    assert (to / "main-settings" / "report.md").exists()
    better = {
        "Source-only": POINTS["Source-only"],
        "SIGHT": tuple(v + 7 for v in POINTS["SIGHT"]),
        "EMA": POINTS["SIGHT"],
    }
    write_mine(runs, points=better, versions={"sight": "2", "torch": "2", "numpy": "3"})
    (line,) = publish([runs], to)
    # SIGHT moves from the third to the second row, so its 12 rows change, as do its scores.
    assert line == "mine_hapt: 12 new, 12 changed, 12 equal, 12 removed rows; sight 1 to 2"
    assert set(read([path])["label"]) == set(better)


def test_rows_are_added_to_the_committed_ones(tmp_path):
    runs, to = tmp_path / "runs", tmp_path / "results"
    write_mine(runs, seeds=(0, 1))
    publish([runs], to)
    for seed in (1, 2):
        write_mine(runs, f"{seed}.part.parquet", seeds=(seed,), versions={"sight": "2", "torch": "2", "numpy": "3"})
    (runs / "mine_hapt.parquet").unlink()
    assert publish([runs], to, add=True, partial=True) == [
        "mine_hapt: 18 new, 18 changed, 18 equal, 0 removed rows; sight 1 to 1, 2"
    ]
    found = read([to / "hapt" / "mine_hapt.parquet"])
    assert found.groupby(["seed", "sight"]).size().to_dict() == {(0, "1"): 18, (1, "2"): 18, (2, "2"): 18}
    # A method that lacks runs of the others is refused, although its own file is complete.
    write_mine(runs, "3.part.parquet", seeds=(3,), points={"SIGHT": POINTS["SIGHT"]})
    with pytest.raises(ValueError, match="runs are missing of"):
        publish([runs], to, add=True, partial=True)


def test_partial_rows_are_refused_and_nothing_is_copied(tmp_path):
    runs, to = tmp_path / "runs", tmp_path / "results"
    write_mine(runs)
    made = [row for row in rows(experiment="days") if (row["label"], row["seed"]) != ("SIGHT", 1)]
    write(runs / "days_hapt.parquet", made)
    with pytest.raises(ValueError, match=r"runs are missing of SIGHT \(6\)"):
        publish([runs], to, partial=True)
    write(runs / "days_hapt.parquet", rows(experiment="days"))
    with pytest.raises(ValueError, match=r"Partial: 6 of 16 pairs.*without.*Keel.*--partial"):
        publish([runs], to)
    assert not to.exists()
    assert len(publish([runs], to, partial=True)) == 2
    write_mine(runs, "other.part.parquet")
    with pytest.raises(ValueError, match=r"part\.parquet"):
        publish([runs / "other.part.parquet"], to)


def test_failed_rows_are_refused(tmp_path):
    path = write_mine(tmp_path)
    path.with_suffix(".failures.txt").write_text("SIGHT on 1->2: ValueError\n")
    with pytest.raises(ValueError, match="failed"):
        publish([path], tmp_path / "results")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="found none"):
        publish([tmp_path / "empty"], tmp_path / "results")
