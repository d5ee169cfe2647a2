"""Windows and facts of any corpus, also of one that brings only what the contract asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sight.datasets._window_protocols import without_unlabelled
from sight.types import Windows


def windows_of(dataset: Any, subject: str, **overrides: Any) -> Windows:
    """Cut a person's recordings into windows, for corpora that bring no `windows` of their own as well.

    Parameters
    ----------
    dataset
        Anything with the attributes and methods of the contract: `subjects`, `recordings` and the facts of windows.
    subject
        Who.
    overrides
        As in `Dataset.windows`.
    """
    if hasattr(dataset, "windows"):
        windows: Windows = dataset.windows(subject, **overrides)
        return windows
    from sight.signal import join, prepare

    own = {key: getattr(dataset, key) for key in ("rate_hz", "window_s", "stride_s", "max_gap_s")} | overrides
    drop = own.pop("unlabelled", "keep") == "drop"
    windows = join([prepare(recording, **own) for recording in dataset.recordings(subject)])
    return without_unlabelled(windows, own["max_gap_s"]) if drop else windows


def info(dataset: Any, on_subject: Callable[[int, str], None] | None = None) -> Iterator[dict[str, Any]]:
    """Describe each person of a corpus: windows, label counts, seconds, gaps and what the steps found.

    Parameters
    ----------
    dataset
        Any corpus.
    on_subject
        Called with the number of people done and the name of the last one, for progress bars.
    """
    for done, subject in enumerate(dataset.subjects(), start=1):
        windows = windows_of(dataset, subject)
        counts = np.bincount(windows.label[windows.label >= 0], minlength=len(dataset.classes))
        yield {
            "subject": subject,
            "windows": len(windows),
            "labels": dict(zip(dataset.classes, counts.tolist(), strict=True)),
            "unlabelled": int((windows.label < 0).sum()),
            "seconds": round(len(windows) * windows.stride_s, 3),
            "gaps": int((windows.gap_before_s > 0).sum()),
            "gap_seconds": round(float(windows.gap_before_s.sum()), 3),
            "facts": dict(windows.facts),
        }
        if on_subject:
            on_subject(done, subject)
