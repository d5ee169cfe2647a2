"""Load a dataset by name, its windows and a description of its subjects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sight.recordings.window_selection import drop_unlabelled
from sight.types import Windows


def load(name: str, root: Path | str | None = None, **options: Any) -> Any:
    """Return a dataset by its registry name.

    `root` is the folder or zip with the official files; None searches the data folder (`SIGHT_DATA`). `options` are
    fields of the dataset; a ValueError lists those that are unknown or have a wrong value.

    Examples
    --------
    >>> load("harth", sensor="back").channels
    ('back_x', 'back_y', 'back_z')
    """
    from sight import params
    from sight.registry import get

    cls = get("datasets", name)
    fields = options if root is None else {"root": root, **options}
    if hasattr(cls, "__dataclass_fields__"):
        params.check(cls, fields)
    return cls(**fields)


def windows_of(dataset: Any, subject: str, **overrides: Any) -> Windows:
    """Return the windows of a subject, with overrides as in `Dataset.windows`.

    A dataset that is not a `Dataset` needs `recordings`, `rate_hz`, `window_s`, `stride_s` and `max_gap_s`.
    """
    if hasattr(dataset, "windows"):
        windows: Windows = dataset.windows(subject, **overrides)
        return windows
    from sight.recordings.signal import join, prepare

    own = {key: getattr(dataset, key) for key in ("rate_hz", "window_s", "stride_s", "max_gap_s")} | overrides
    drop = own.pop("unlabelled", "keep") == "drop"
    windows = join([prepare(recording, **own) for recording in dataset.recordings(subject)])
    return drop_unlabelled(windows, own["max_gap_s"]) if drop else windows


def info(dataset: Any, on_subject: Callable[[int, str], None] | None = None) -> Iterator[dict[str, Any]]:
    """Yield a description of each subject: windows, label counts, seconds, gaps and the facts of the signal steps.

    `on_subject` is called with the number of subjects done and the name of the last one, for progress bars.
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
            "facts": windows.facts.as_dict(),
        }
        if on_subject:
            on_subject(done, subject)
