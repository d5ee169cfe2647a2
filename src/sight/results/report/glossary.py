"""Terms of the report with their definitions; the page shows a definition as a tooltip of its term."""

from sight.results.report.html import Html, tag

TERMS = {
    "raw": "Prediction of the trained classifier for each window alone, without adaptation; called source-only in "
    "tables.",
    "refined": "Prediction after adaptation, which uses the stream up to the window.",
    "truth": "The label that came with the recording. The method never uses it.",
    "window": "A few seconds of signal that get one prediction.",
    "segment": "Consecutive windows with the same predicted class; a gap ends a segment.",
    "gap": "Time without data between two windows. During a gap the method becomes less certain of the last activity.",
    "not worn": "Time in which the sensor lay still for so long that it cannot have been worn. Predictions are kept, "
    "but do not count as time use.",
    "valid day": "A day on which the sensor was worn long enough, 16 hours by default. Means over days use valid days "
    "only.",
    "ENMO": "Intensity of movement: how much the length of the acceleration exceeds 1 g, in thousandths of g.",
    "confidence": "Refined probability of the predicted class.",
    "low confidence": "Windows whose confidence is below the threshold (0.5 by default).",
    "surprise": "Method sight: how much a window deviates from what was expected, from 0 (as expected) to 1. Method "
    "keel: probability that the activity changed before the window.",
    "macro-F1": "Mean over classes of the harmonic mean of precision and recall; every class has the same weight.",
    "accuracy": "Share of labelled windows that are predicted correctly.",
    "balanced accuracy": "Mean over classes of the share of their windows that are predicted correctly.",
    "calibration error": "Mean difference between confidence and the share of correct predictions; 0 is perfect.",
    "state": "Memory that the method uses for one wearer, besides the model.",
}


def term(name: str, text: str | None = None) -> Html:
    """Return a term with its definition as a tooltip; `text` replaces the name on the page."""
    return tag("abbr", text or name, title=TERMS[name], tabindex=0)


def glossary() -> Html:
    pairs = (tag("div", tag("dt", name), tag("dd", definition)) for name, definition in sorted(TERMS.items()))
    return tag("dl", *pairs, class_="glossary")
