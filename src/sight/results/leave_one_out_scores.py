"""Leave-one-subject-out scores: each subject is predicted by a model that was trained on the others."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean

from sight import registry
from sight._util.confusion import accuracy, confusion, macro_f1_union
from sight.base import Source
from sight.models.card import filled
from sight.results.prediction_loop import run
from sight.types import UNLABELLED, Array, Result, Windows

#: Scores of a subject, raw and adapted.
SCORES = ("raw_accuracy", "raw_macro_f1", "adapted_accuracy", "adapted_macro_f1")


def leave_one_out(
    windows: Mapping[str, Windows], fit: Callable[[str, list[Windows]], Source], method: str
) -> Iterator[tuple[str, Result]]:
    """Yield each subject with labels, and the predictions of a method for it.

    `fit` takes the name of the subject that is left out and the windows of the others, and returns a trained model.
    """
    labelled = [subject for subject, own in windows.items() if (own.label != UNLABELLED).any()]
    if len(labelled) < 2:
        raise ValueError(f"Leaving subjects out needs two with labels, got {len(labelled)}; add recordings.")
    for subject in labelled:
        source = fit(subject, [other for name, other in windows.items() if name != subject])
        fill = None if source.card is None else source.card.fill
        own = replace(windows[subject], x=filled(windows[subject].x, fill))
        yield subject, run(registry.method(method).bind(source), own)


def subject_scores(results: Mapping[str, Result]) -> dict[str, dict[str, float]]:
    """Return windows and `SCORES` of each subject, and their mean over subjects under the name "mean"."""
    rows: dict[str, dict[str, float]] = {}
    for subject, result in results.items():
        tables = confusions(result)
        rows[subject] = {"windows": int(tables["raw"].sum())}
        for name, table in tables.items():
            rows[subject] |= {f"{name}_accuracy": accuracy(table), f"{name}_macro_f1": macro_f1_union(table)}
    total = sum(int(row["windows"]) for row in rows.values())
    return rows | {"mean": {"windows": total} | {name: fmean(row[name] for row in rows.values()) for name in SCORES}}


def confusions(result: Result) -> dict[str, Array]:
    """Return the confusion matrices (K, K) of raw and adapted predictions."""
    predictions = {"raw": result.p, "adapted": result.q}
    return {
        name: confusion(result.windows.label, q.argmax(axis=1), len(result.classes)) for name, q in predictions.items()
    }
