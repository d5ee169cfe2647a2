"""Values printed in the SIGHT paper, from ``configs/paper``: one file per table, methods as columns."""

import csv
from functools import cache
from importlib import resources

TITLE = "Temporal Structure Matters for Efficient Test-Time Adaptation in Wearable Human Activity Recognition"
#: Tables of scores by pair of subjects; the paper divides the pairs between them.
BY_PAIR = ("main", "detailed")
#: Names of networks and stream orders in the paper's tables.
CONDITIONS = {
    **{"cnn": "1D-CNN", "resnet": "1D-ResNet", "transformer": "Transformer"},
    **{"chronological": "chronological", "blocks": "block32", "shuffled": "shuffled"},
}


@cache
def values(metric: str = "mf1") -> dict[tuple[str, str, str, str], float]:
    """Return the values of a metric by (table, dataset, condition, method).

    A condition is "average", a pair of subjects, a network or a stream order.
    """
    found = {}
    for file in (resources.files("sight.apps.bench") / "configs" / "paper").iterdir():
        for row in csv.DictReader(file.read_text("utf-8").splitlines()):
            dataset, condition, printed = (row.pop(key) for key in ("dataset", "condition", "metric"))
            for method, text in row.items():
                if printed == metric and text:
                    key = (file.name.removesuffix(".csv"), dataset, condition, method)
                    found[key] = float(text.partition(" ± ")[0])  # the rest is the deviation over seeds
    return found


def of_pair(dataset: str, pair: str, method: str) -> float | None:
    """Return the value for a pair of subjects, from the table that has it."""
    found = (values().get((table, dataset, pair, method)) for table in BY_PAIR)
    return next((value for value in found if value is not None), None)


def mean_over(dataset: str, pairs: list[str], method: str) -> float | None:
    """Return the mean over exactly these pairs; None if one of them is not printed."""
    found = [of_pair(dataset, pair, method) for pair in pairs]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(pairs) else None
