"""Protocols of an experiment: changes of a setting, their streams and source models, and the table of gains."""

from __future__ import annotations

import numpy as np
import pytest

from sight.apps.bench import result_rows
from sight.apps.bench.experiment_report.protocol_tables import figure, gains, summaries
from sight.apps.bench.experiments import load_experiment, narrow
from sight.apps.bench.runner import _plan, run
from sight.apps.bench.settings import load_setting
from sight.apps.bench.stream_orders import stream_index
from sight.apps.bench.trial_data import Job, load_trial
from sight.apps.bench.trials import Setting, Trial, setting_of, trials
from tests.apps.bench.runner.runner_helpers import TINY

PLAN = """
title = "Protocols"
kind = "compare"
orders = ["chronological", "activity"]
methods = ["none", "ema"]
[protocols]
"as is" = {}
"gaps" = { use_gaps = true }
"power 8" = { power = 8.0 }
"whole batches" = { whole_batches = 32 }
"not scaled" = { scaling = "none" }
"by subject" = { scaling = "subject" }
"by window" = { scaling = "window" }
"oracle" = { oracle_epoch = true }
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "tiny.toml").write_text(TINY)
    experiment = narrow(load_experiment(str(tmp_path / "plan.toml")), seeds=[0])
    return Job(experiment=experiment, setting=load_setting(str(tmp_path / "tiny.toml"), limit=2), out=tmp_path / "out")


def trial_of(job, protocol, order="chronological"):
    return next(t for t in trials(job.experiment, job.setting) if (t.protocol, t.order) == (protocol, order))


def test_a_protocol_changes_the_setting(job):
    assert setting_of(trial_of(job, "power 8"), job.experiment, job.setting).power == 8
    assert setting_of(trial_of(job, "as is"), job.experiment, job.setting) == job.setting


def test_unknown_changes_are_refused(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN + '"typo" = { pwer = 8.0 }\n')
    with pytest.raises(ValueError, match=r"protocol typo.*pwer"):
        load_experiment(str(tmp_path / "plan.toml"))


def test_protocols_that_do_not_change_training_share_a_source_model(job):
    _, groups = _plan(job.experiment, job.setting, only_finished=False)
    # One model for four protocols, one for each scaling, and one for each of the two targets with an oracle.
    assert [len(group) for group in groups] == [16, 4, 4, 4, 2, 2]


def test_streams_and_inputs_of_each_protocol(job):
    data = {name: load_trial(trial_of(job, name), job) for name in job.experiment.protocols}
    n = len(data["as is"].target)
    assert len(data["whole batches"].index) == n // 32 * 32 < n
    by_window, by_subject = data["by window"].target.x, data["by subject"].target.x
    assert abs(by_window.mean(axis=2)).max() < 1e-4
    assert by_window.std(axis=2) == pytest.approx(np.ones(by_window.shape[:2]), abs=1e-3)
    assert by_subject.mean(axis=(0, 2)) == pytest.approx(np.zeros(by_subject.shape[1]), abs=1e-4)
    assert not data["not scaled"].recipe.scaled
    paths = {name: own.row_path(job.experiment.variants[1]) for name, own in data.items()}
    assert len(set(paths.values())) == len(paths)


def test_probabilities_are_raised_to_a_power(job):
    plain, sharp = (load_trial(trial_of(job, name), job) for name in ("as is", "power 8"))
    source = plain.source()
    (_, (_, p)), (_, (_, q)) = (own.stream(source, own.index) for own in (plain, sharp))
    assert q.sum(axis=1) == pytest.approx(np.ones(len(q)), abs=1e-5)
    assert q == pytest.approx(p**8 / (p**8).sum(axis=1, keepdims=True), abs=1e-5)


def test_windows_sorted_by_activity():
    labels = np.array([2, 0, 1, 0, 2])
    trial = Trial(sources=("A",), target="B", seed=0, encoder="cnn", order="activity")
    setting = Setting(name="toy", dataset="toy", options={}, pairs=())
    assert stream_index(labels, trial, setting, "abc").tolist() == [1, 3, 2, 0, 4]


def test_the_table_has_a_row_for_each_protocol_and_order(job):
    rows, failures = run(job.experiment, job.setting, job.out, engine="serial")
    assert not failures
    assert len(rows) == 2 * 2 * 2 * len(job.experiment.protocols)
    found = summaries(result_rows.frame(rows))
    table = gains(found, "name", "Title")
    assert figure(found).startswith("<?xml")
    assert [row[0].text for row in table.rows][:3] == ["printed", "as is, chronological", "as is, activity"]
    assert len(table.rows) == 1 + 2 * len(job.experiment.protocols)
    assert table.heads == ["Protocol, order", "Seeds", "Source-only", "EMA"]


def test_orders_of_the_files_of_the_papers_datasets():
    experiment = load_experiment("reproduction")
    for name in ("hapt", "uschad"):
        assert {trial.order for trial in trials(experiment, load_setting(name))} == {"time", "files", "activity"}
    assert {trial.order for trial in trials(experiment, load_setting("hapt-total"))} == {"activity"}
