"""What reports say in words: by intervals over people, and only what the rows and the paper hold."""

from __future__ import annotations

import numpy as np

from sight.bench import findings, findings_features
from sight.bench.aggregate import summarise
from sight.bench.report import compose
from sight.bench.result_rows import frame
from sight.bench.table_format import MINUS
from tests.helpers.bench_rows import METHOD, POINTS, few, rows


def test_a_claim_that_fails_is_told_in_words():
    said = " ".join(findings.comparison(summarise(frame(rows())), "hapt"))
    assert "The paper's claim of a gain does not hold here." in said
    assert (
        "SIGHT is number 3 of 3 here, behind Sticky with +1.2 points against source-only; on these pairs the paper "
        "prints it as number" in said
    )
    gains = {
        label: own if label != "SIGHT" else tuple(v + 3 + i / 9 for i, v in enumerate(POINTS["Sticky"]))
        for label, own in POINTS.items()
    }
    said = " ".join(findings.comparison(summarise(frame(rows(gains))), "hapt"))
    assert "The paper's claim of a gain holds here." in said
    assert "SIGHT is the best of 3 here; on these pairs the paper prints it as number 1 of 2." in said


def test_readings_that_disagree_are_told():
    made = rows()
    for row in made:
        if row["label"] == "SIGHT":
            row["scores"]["macro_f1_all"] = 0.99
    said = " ".join(findings.comparison(summarise(frame(made)), "hapt"))
    assert "depends on the reading of macro-F1: Sticky over union, Sticky over truth, SIGHT over all classes" in said


def test_trials_that_are_missing_are_told():
    made = [row for row in rows() if not (row["label"] == "Sticky" and row["target"] == "26")]
    said = " ".join(findings.comparison(summarise(frame(made)), "hapt"))
    assert "Sticky has 10 of 12 trials; its figures are over those." in said
    assert "failed" not in said  # they may never have been run


def test_variants_as_good_as_the_full_method_are_named():
    points = {"Source-only": POINTS["Source-only"], "w/o habit prior": POINTS["Sticky"], "SIGHT": POINTS["SIGHT"]}
    method = {"Source-only": "none", "w/o habit prior": "sight", "SIGHT": "sight"}
    made = rows(points, experiment="ablation", method=method)
    (section,) = compose(frame(made))
    assert any("does not hold here for 1 of 1: w/o habit prior (+3.2 points" in said for said in section.said)


def test_variants_are_judged_by_their_intervals_over_people():
    points = {
        "Source-only": POINTS["Source-only"],
        "w/o habit prior": tuple(value - 1 for value in POINTS["SIGHT"]),
        "w/o geometric routing": tuple(v + d for v, d in zip(POINTS["SIGHT"], (3, -2, 3, -2, 3, -2), strict=True)),
        "SIGHT": POINTS["SIGHT"],
    }
    method = dict.fromkeys(points, "sight") | {"Source-only": "none"}
    (section,) = compose(frame(rows(points, experiment="ablation", method=method)))
    said = " ".join(section.said)
    assert f"That holds here for 1 of 2: w/o habit prior ({MINUS}1.0 points" in said
    assert "It is not shown here for 1 of 2: w/o geometric routing (+0.5 points" in said


def test_nothing_is_claimed_for_the_paper_where_it_has_no_table():
    points = {**POINTS, "w/o alignment": POINTS["Sticky"], "Keel": tuple(value + 5 for value in POINTS["Sticky"])}
    method = METHOD | {"w/o alignment": "keel", "Keel": "keel"}
    (section,) = compose(frame(rows(points, experiment="beyond", method=method)))
    assert section.said == [f"Against whole Keel, in points: w/o alignment {MINUS}5.0 [{MINUS}5.0, {MINUS}5.0]."]
    assert "The paper" not in section.markdown()
    (section,) = compose(frame(rows(experiment="beyond")))
    assert section.said == []


def test_one_interval_has_one_verdict():
    """A mean below zero with an interval over it shows nothing, neither way."""
    points = {
        **POINTS,
        "SIGHT": tuple(v + d for v, d in zip(POINTS["Source-only"], (2, -3, 2, -3, 2, -3), strict=True)),
    }
    said = " ".join(findings.comparison(summarise(frame(rows(points))), "hapt"))
    assert f"over people {MINUS}0.5 points" in said
    assert "The paper's claim of a gain is not shown here: the interval includes zero." in said


def test_networks_gain_where_the_interval_says_so():
    made = []
    for encoder, gains in (("cnn", (3, -2, 3, -2, 3, -2)), ("resnet", (1, 2, 1, 2, 1, 2))):
        own = {**POINTS, "SIGHT": tuple(v + d for v, d in zip(POINTS["Source-only"], gains, strict=True))}
        made += rows(own, experiment="backbones", encoder=encoder)
    (section,) = compose(frame(made))
    assert "here it does on 1 of 2: 1D-CNN +0.5" in section.said[0]


def shifted(gains):
    """Points of SIGHT so far from source-only, by person."""
    return {**POINTS, "SIGHT": tuple(v + d for v, d in zip(POINTS["Source-only"], gains, strict=True))}


def ordered(chronological, blocks, shuffled, **changes):
    """Rows of the orders, each with SIGHT at its own gains; none for no rows of SIGHT."""
    made = []
    gains = {"chronological": chronological, "blocks": blocks, "shuffled": shuffled}
    for order, own in gains.items():
        part = rows(POINTS if own is None else shifted(own), experiment="order", order=order, **changes)
        made += [row for row in part if own is not None or row["label"] != "SIGHT"]
    return made


def said(made):
    (section,) = compose(frame(made))
    return " ".join(section.said)


def test_no_order_is_best_where_one_was_not_run():
    """Neither an order without rows nor one without rows of SIGHT lets the paper's claim be judged."""
    told = said(ordered((3,) * 6, None, (1,) * 6))
    assert "that cannot be judged here: there is no row of SIGHT for blocks of 32." in told
    killed = [row for row in ordered((3,) * 6, None, (1,) * 6) if row["order"] != "shuffled"]
    told = said(killed)
    assert "there is no row of SIGHT for blocks of 32 and shuffled." in told
    assert "as the paper finds" not in told
    assert "What the order of time is worth" not in told  # against what was not run
    told = said([row for row in killed if row["order"] == "chronological"])
    assert "there is no row of SIGHT for blocks of 32 and shuffled." in told


def test_the_best_order_is_judged_by_intervals_over_people():
    assert "SIGHT is at its best in chronological order, as the paper finds." in said(
        ordered((3, 4, 3, 4, 3, 4), (2,) * 6, (1,) * 6)
    )
    assert f"that does not hold here: it is at {MINUS}1.0 [{MINUS}1.0, {MINUS}1.0] against blocks" in said(
        ordered((3,) * 6, (4,) * 6, (1,) * 6)
    )
    told = said(ordered((3, -2, 3, -2, 3, -2), (0,) * 6, (-9,) * 6))
    assert "that is not shown here: it is at +0.5" in told
    made = ordered((3,) * 6, (2,) * 6, (1,) * 6)
    some = [row for row in made if row["order"] != "blocks" or row["target"] in ("16", "26")]
    assert "that cannot be judged here with so few people: it is at +1.0 against blocks of 32" in said(some)
    assert "Blocks of 32 has 4 of 12 trials; its figures are over those." in said(some)


def test_few_people_are_told_alike_in_every_experiment():
    held = "cannot be judged here with so few people"
    assert held in said(few(ordered((3,) * 6, (2,) * 6, (1,) * 6)))
    method = {"Source-only": "none", "w/o habit prior": "sight", "SIGHT": "sight"}
    points = {"Source-only": POINTS["Source-only"], "w/o habit prior": POINTS["Sticky"], "SIGHT": POINTS["SIGHT"]}
    assert f"It {held} for 1 of 1: w/o habit prior" in said(few(rows(points, experiment="ablation", method=method)))
    networks = [row for name in ("cnn", "resnet") for row in rows(experiment="backbones", encoder=name)]
    assert f"that {held}: 1D-CNN" in said(few(networks))
    grid = {"Source-only": POINTS["Source-only"], "tau=0.1": POINTS["Sticky"], "SIGHT": POINTS["SIGHT"]}
    own = {"Source-only": "none", "tau=0.1": "sight", "SIGHT": "sight"}
    assert f"Whether a value gains {held}; the best gives +1.5 points." in said(
        few(rows(grid, experiment="sensitivity", method=own))
    )
    assert "Of 1 values 1 gain over source-only, the interval above zero; the best gives +1.2 points [" in said(
        rows(grid, experiment="sensitivity", method=own)
    )
    assert "The paper's claim of a gain cannot be judged here with so few people." in " ".join(
        findings.comparison(summarise(frame(few(rows()))), "hapt")
    )


def test_strong_separation_is_judged_over_people():
    auc = np.array([0.95, 0.93, 0.97, 0.94, 0.96])
    assert findings_features._separable(auc) == "Changes are strongly separable, as the paper finds."
    assert "falls short" in findings_features._separable(auc - 0.2)
    assert "is not shown here" in findings_features._separable(auc - 0.045)
    assert "cannot be judged here with so few people" in findings_features._separable(auc[:2])
