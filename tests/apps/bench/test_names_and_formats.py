"""Names of methods and subjects in tables, and the format of numbers."""

from __future__ import annotations

import numpy as np

from sight.apps.bench import paper_values
from sight.apps.bench.analyses import area_under_curve
from sight.apps.bench.experiment_report.setting_tables import needs, short_sources
from sight.apps.bench.experiment_report.summary import grids
from sight.apps.bench.experiment_report.table_format import DASH, MINUS, number, points
from sight.apps.bench.experiments import load_experiment, method_label, narrow, split_names
from sight.apps.bench.settings import describe, load_setting
from sight.results.score_statistics import Difference


def test_numbers_have_a_true_minus_sign_and_a_dash_if_missing():
    formatted = number(1.234), number(-0.5, sign=True), number(float("nan")), number(-0.01)
    assert formatted == ("1.2", f"{MINUS}0.5", DASH, "0.0")
    assert points(Difference(1.25, 0.5, 2.0)) == "+1.2 [+0.5, +2.0]"
    assert points(Difference(-3.0, float("nan"), float("nan"))) == f"{MINUS}3.0"


def test_methods_have_the_labels_of_the_paper():
    assert (method_label("rotta"), method_label("mine")) == ("RoTTA", "mine")
    labels = [variant.label for variant in load_experiment("ablation").variants]
    assert labels[:2] == ["Source-only", "w/o predictive surprise"]


def test_methods_that_an_experiment_lacks_are_added():
    kept = narrow(load_experiment("ablation"), methods=["sight", "t3a"])
    assert [variant.label for variant in kept.variants][-2:] == ["SIGHT", "T3A"]


def test_names_are_split_at_commas_but_labels_are_not():
    found = split_names("none, SIGHT, authors' code,ema", load_experiment("table-main"))
    assert found == ["none", "SIGHT, authors' code", "ema"]


def test_grids_are_found_by_label_and_parameter():
    labels = ("SIGHT", "tau=0.05", "tau=0.1", "surprise = feature distance")
    params = {label: f'{{"tau": {value}}}' for label, value in zip(labels, (0.05, 0.05, 0.1, 0.1), strict=True)}
    assert grids(params) == {"tau": {0.05: "tau=0.05", 0.1: "tau=0.1"}}


def test_values_of_the_paper_are_found_by_table_and_by_pair():
    assert paper_values.values()["main", "harth", "average", "SIGHT"] == 76.73
    assert paper_values.of_pair("ucihar", "S01->S16", "SIGHT") == 39.34


def test_needs_of_a_method_are_letters():
    assert needs('{"gradient": true, "batch": false, "source_stats": "optional", "raw_windows": true}') == "GsW"


def test_many_source_subjects_are_abbreviated():
    long = "00EABED2-271D-49D8-B599-1D4A09240601+098A72A5"
    names = [short_sources(sources) for sources in ("3", "1+2+3+4", long)]
    assert names == ["3", "1…4 (4 subjects)", "00EABED2+098A72A5"]


def test_settings_are_described_by_pairs_and_subjects():
    assert load_setting("harth", limit=1).pairs == ((("S006",), "S032"),)
    assert describe("synthetic").subjects == "5"
    assert describe("hugadb-pooled").pairs == "2 pooled sources, all other subjects"


def test_ties_count_half_in_the_area_under_the_curve():
    assert area_under_curve(np.array([3.0, 2.0]), np.array([1.0, 2.0])) == 0.875
    assert np.isnan(area_under_curve(np.array([]), np.array([1.0])))
