"""Extrapolation and simulations of docs/scale.md against values computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib")

from benchmarks.scale import extrapolation, figure
from benchmarks.scale.simulation import NO_FAULTS, Cell, Cohort, Faults, batch, live, most_wearers

FACTS = {"sight": "9", "computed_at": "2030-01-01"}


def test_the_simulation_uses_the_measured_costs():
    simulated = extrapolation.simulated()
    assert simulated["costs"] == vars(extrapolation.measured()), "run: python -m benchmarks.scale.extrapolation"
    assert figure.draw(simulated).startswith("<?xml")


def test_costs_are_read_from_two_sizes(tmp_path):
    """2,000 wearers in 2 s and 20,000 in 11 s on two cores: 1 ms of a core each, and 1 s for the trigger itself."""
    (tmp_path / "scale").mkdir()
    sizes = {
        "state_bytes": 8,
        "input_bytes_per_window": 1.0,
        "prediction_bytes_per_window": 2.0,
        "first_trigger_s": 20.0,
    }
    small = sizes | {"wearers": 2_000, "batch_s": 2.0, "trigger_s": 2.0}
    full = sizes | {"wearers": 20_000, "batch_s": 11.0, "trigger_s": 11.0, "cores": 2, "small": small, **FACTS}
    (tmp_path / "scale" / "fleet.json").write_text(json.dumps(full))
    (tmp_path / "speed.json").write_text((extrapolation.RESULTS / "speed.json").read_text())
    costs = extrapolation.measured(tmp_path)
    assert costs.window_core_s == pytest.approx(1e-3)
    assert costs.trigger_fixed_s == pytest.approx(1.0)
    (tmp_path / "scale" / "cohort.json").write_text(
        json.dumps({"seconds_per_recording_and_core": 3.0, "recording": {"hours": 12.0}, **FACTS})
    )
    assert extrapolation.measured(tmp_path).day_s == pytest.approx(6.0)


EVEN = Cell(wearers=16_000, core_s_per_window=1e-3, fixed_s=0.5, cores=1, partitions=1, shards=8)


def test_a_stream_that_keeps_up_predicts_within_a_trigger_and_its_work():
    """500 windows a second of 1 ms each on one core, without faults: everything follows from the sizes."""
    cell = replace(EVEN, wearers=5_000)
    found = live(cell, NO_FAULTS, hours=0.5)
    assert found["load"] == pytest.approx(0.5)
    assert found["trigger_median_s"] == pytest.approx(0.5 + 5_000 * 1e-3)
    assert found["age_99_s"] == pytest.approx(10 + 5.5, rel=0.02)
    assert found["age_median_s"] == pytest.approx(5 + 5.5, rel=0.1)


def test_an_overloaded_stream_falls_behind_without_bound():
    ages = [live(EVEN, NO_FAULTS, hours=hours)["age_last_s"] for hours in (0.5, 1.0, 2.0)]
    assert ages[2] > 1.5 * ages[1] > 1.5 * ages[0] > 500


def test_most_wearers_reach_the_given_age():
    found = most_wearers(EVEN, NO_FAULTS, age_s=18.0, hours=0.5)
    assert found == pytest.approx(7_500, rel=0.03)  # 10 s to collect, 0.5 s fixed, 7.5 s of work


def test_faults_cost_time_and_failed_drivers_catch_up():
    cell = replace(EVEN, wearers=5_000)
    often = live(cell, replace(NO_FAULTS, driver_failures_per_day=100.0, restart_s=60.0), hours=6)
    never = live(cell, NO_FAULTS, hours=6)
    assert often["age_99_s"] > never["age_99_s"] + 60
    assert often["age_last_s"] < 200
    assert live(cell, Faults(), hours=1)["trigger_worst_s"] > never["trigger_worst_s"]


def test_a_cohort_without_faults_takes_its_work_over_its_workers():
    cohort = Cohort(recordings=960, seconds_each=100.0, memory_gb=8.0, nodes=3, node_cores=16, node_memory_gb=64.0)
    found = batch(cohort, NO_FAULTS)
    assert cohort.workers == 24  # memory allows eight recordings on sixteen cores
    assert found["hours"] == pytest.approx(960 / 24 * 100 / 3600)
    assert found["efficiency"] == pytest.approx(1.0)
    assert found["cores_idle_for_memory"] == pytest.approx(0.5)


def test_recordings_of_failed_workers_are_repeated():
    """With one failure in the time of ten recordings, a tenth of them are started in vain, half done on average."""
    cohort = Cohort(recordings=5_000, seconds_each=100.0, memory_gb=1.0, nodes=1)
    found = batch(cohort, replace(NO_FAULTS, failures_per_core_day=86.4, restart_s=0.0))
    assert found["failures"] == pytest.approx(500, rel=0.15)
    assert found["lost_share"] == pytest.approx(0.05, rel=0.15)
    assert found["hours"] == pytest.approx(1.05 * 5_000 * 100 / 16 / 3600, rel=0.05)
