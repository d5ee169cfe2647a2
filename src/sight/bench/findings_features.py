"""What the rows say in words of the feature space: changes, prototypes, persistence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sight.bench.evidence import FEW, STRONG, persistence
from sight.bench.figures import _class_means
from sight.bench.result_rows import details
from sight.bench.stats import FEWEST, bootstrap_interval, verdict
from sight.types import Array


def geometry(rows: Any) -> Iterator[str]:
    """Say how separable changes are, and whether the deviation points the right way."""
    auc, top, chance, raw = (rows[name].mean() for name in ("auc", "routing_top1", "chance", "raw_top1"))
    inside, change = (rows[f"similarity_{name}"].mean() for name in ("inside", "change"))
    yield (
        f"Features are {'nearer to' if inside > change else 'no nearer to'} the expected state inside segments than "
        f"right after a change: cosine {inside:.2f} against {change:.2f}, AUC {auc:.2f} "
        f"({rows['auc_true'].mean():.2f} if the belief were always right), over {int(rows['changes'].sum()):,} changes."
    )
    yield _separable(rows.groupby("target")["auc"].mean().dropna().to_numpy())
    yield (
        f"The deviation points best at the new class in {100 * top:.0f} % of the changes (chance "
        f"{100 * chance:.0f} %); the classifier alone is right there in {100 * raw:.0f} %"
        + ("." if top > raw else ", so the direction tells less than the answer that is there already.")
    )


def _separable(auc: Array) -> str:
    """Judge the paper's strong separation, an AUC of 0.9 or more, over people."""
    words = {
        "worse": f"an AUC below {STRONG} falls short of that",
        "open": f"whether the AUC reaches {STRONG} is not shown here",
        "unknown": f"that {FEW}",
    }
    shown = verdict(*bootstrap_interval(auc - STRONG))
    if shown == "better":
        return "Changes are strongly separable, as the paper finds."
    return f"The paper finds changes strongly separable; {words[shown]}."


def prototypes(rows: Any) -> Iterator[str]:
    """Say for how many classes prototypes came nearer to the wearer."""
    first, last = (np.array(details(rows, name), dtype=float) for name in ("first", "last"))
    known = np.isfinite(first)
    if not known.any():
        yield "No class has two segments in any stream, so there is nothing to compare."
        return
    nearer = int((last > first)[known].sum())
    yield (
        f"Of {int(known.sum())} classes with several segments, over all streams, the prototype is nearer to the "
        f"wearer's centroid in the last segment than in the first for {nearer}; the mean cosine goes from "
        f"{first[known].mean():.3f} to {last[known].mean():.3f}."
    )
    means = [_class_means(details(rows, name)) for name in ("first", "last")]
    worse = np.flatnonzero(means[1] < means[0])
    if rows["target"].nunique() < FEWEST:
        yield f"The paper finds that every class improves; that {FEW}."
    elif len(worse):
        names = ", ".join(str(rows["classes"].iloc[0][k]) for k in worse)
        yield f"The paper finds that every class improves; averaged over streams that does not hold here for {names}."
    else:
        yield "Averaged over streams every class improves, as in the paper."


def motivation(rows: Any) -> Iterator[str]:
    """Say how strongly activities persist, and what features do at a change."""
    for name, what in (("transitions_true", "true classes"), ("transitions_raw", "answers of the classifier")):
        stays = persistence(rows, name)
        yield f"A window of the {what} repeats the one before with probability {stays:.3f}, averaged over classes."
    new, old, other = (rows[name].mean() for name in ("towards_new", "towards_old", "towards_best_other"))
    yield (
        f"Right after a change the deviation has a cosine of {new:.2f} with the direction to the new class, {old:.2f} "
        f"to the old one, and {other:.2f} to the best of the others."
    )
