"""Terms of the report with their definitions; the page shows a definition as a tooltip of its term."""

import re

from sight.results.report.html import Html, tag

TERMS = {
    "raw": "Prediction of the trained model alone, for each window by itself.",
    "refined": "Prediction after adaptation to the wearer.",
    "truth": "The label that came with the recording. The method never uses it.",
    "window": "A few seconds of signal that get one prediction.",
    "segment": "Consecutive windows with the same predicted class; a gap ends a segment.",
    "gap": "Time without data between two windows.",
    "not worn": "Time in which the sensor lay still for an hour or more: it was not worn, or worn in motionless sleep. "
    "Predictions are kept, but do not count as time use.",
    "valid day": "A day on which the sensor was worn long enough, 16 hours by default. Means over days use valid days "
    "only.",
    "in bed": "Time in the sleep period of a night. It does not count as time of a class.",
    "sleep period": "The longest time of rest between noon and noon, from falling asleep to the last waking, found "
    "from the angle of the arm (van Hees et al. 2018).",
    "sleep efficiency": "Share of the sleep period in which the arm did not turn by more than 5 degrees for 5 minutes "
    "or longer (van Hees et al. 2015).",
    "valid night": "A night whose sleep period was found, and for which the sensor was worn long enough from noon to "
    "noon: as many hours as for a valid day.",
    "ENMO": "Intensity of movement: how much the length of the acceleration exceeds 1 g, in thousandths of g.",
    "MVPA": "Moderate or vigorous physical activity: ENMO above a published limit.",
    "M5": "Mean ENMO of the five most active hours of a day in a row.",
    "L5": "Mean ENMO of the five least active hours of a day in a row.",
    "confidence": "Refined probability of the predicted class.",
    "low confidence": "Windows whose confidence is below 0.5.",
    "surprise": "Method sight: how much a window deviates from what was expected, from 0 (as expected) to 1. Method "
    "keel: probability that the activity changed before the window.",
    "macro-F1": "Mean over classes of the harmonic mean of precision and recall; every class has the same weight.",
    "accuracy": "Share of labelled windows that are predicted correctly.",
    "balanced accuracy": "Mean over classes of the share of their windows that are predicted correctly.",
    "calibration error": "Mean difference between confidence and the share of correct predictions; 0 is perfect.",
}


def term(name: str, text: str | None = None) -> Html:
    """Return a term with its definition as a tooltip; `text` replaces the name on the page."""
    return tag("abbr", text or name, title=TERMS[name], tabindex=0)


def glossary(page: str) -> Html:
    """Return the definitions of the terms that occur on a page."""
    visible = re.sub(r"<[^>]*>", " ", page)
    used = [name for name in sorted(TERMS, key=str.lower) if re.search(rf"\b{re.escape(name)}", visible, re.IGNORECASE)]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", TERMS[name])) for name in used), class_="glossary")
