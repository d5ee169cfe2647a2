"""The words of the report, explained once; every mention carries its explanation as a tooltip."""

from __future__ import annotations

from sight.report.html import Html, tag

TERMS = {
    "raw": "What the trained classifier answers for each window on its own.",
    "refined": "What the method answers after it has taken the stream so far into account.",
    "truth": "The label that came with the recording. The method never sees it.",
    "window": "A short stretch of signal that receives one answer.",
    "segment": "Consecutive windows with the same answer; a gap ends a segment.",
    "gap": "Time without data between two windows. The method is told, and its belief relaxes.",
    "not worn": "Time in which the sensor lay still for so long that nobody can have worn it. Answers are kept, "
    "but do not count as time use.",
    "confidence": "Refined probability of the answered class.",
    "unsure": "Windows whose confidence is below the threshold, so that no class has a majority.",
    "surprise": "How badly the present window fits what the belief predicted, from 0 (as expected) to 1. "
    "High surprise lets the belief go.",
    "macro-F1": "Mean over classes of the harmonic mean of precision and recall; every class counts the same.",
    "accuracy": "Share of labelled windows answered rightly.",
    "balanced accuracy": "Mean over classes of the share of their windows answered rightly.",
    "calibration error": "Mean distance between confidence and the share of right answers; 0 is perfect.",
    "state": "What the method keeps in memory about the wearer, beside the model.",
}


def term(name: str, shown: str | None = None) -> Html:
    """Write a word with its explanation behind it.

    Examples
    --------
    >>> term("truth")
    '<abbr title="The label that came with the recording. The method never sees it." tabindex="0">truth</abbr>'
    """
    return tag("abbr", shown or name, title=TERMS[name], tabindex=0)


def glossary() -> Html:
    """List every word with its explanation."""
    pairs = (tag("div", tag("dt", name), tag("dd", meaning)) for name, meaning in sorted(TERMS.items()))
    return tag("dl", *pairs, class_="glossary")
