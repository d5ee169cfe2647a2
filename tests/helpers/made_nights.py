"""Epochs of made days: an arm that moves by day and rests at night, without a signal behind them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from sight.results.summary import ResultSummary
from sight.types import EPOCH_S, Epochs, RecordingFacts, Result, Windows

BERLIN = ZoneInfo("Europe/Berlin")
#: A Monday.
MONDAY = datetime(2025, 3, 3, tzinfo=BERLIN)
HOUR_S = 3600.0


def made_epochs(hours, *, nights=(), unworn=(), gaps=(), turns_min=20, seed=0):
    """Return epochs of `hours`; `nights`, `unworn` and `gaps` are pairs of hours since the start.

    By day the angle changes by several degrees in every epoch and ENMO is 80 mg; at night the angle stays the same for
    `turns_min` minutes, and ENMO is 2 mg.
    """
    rng = np.random.default_rng(seed)
    time_s = np.arange(0, hours * HOUR_S, EPOCH_S)
    angle = rng.uniform(-40, 40, len(time_s))
    enmo = np.full(len(time_s), 80.0)
    for low, high in (*nights, *unworn):
        own = slice(*np.searchsorted(time_s, (low * HOUR_S, high * HOUR_S)))
        position = (time_s[own] // (60 * turns_min)).astype(int)
        angle[own] = 20 * (-1.0) ** position + rng.normal(0, 0.01, len(position))
        enmo[own] = 2.0
    wear = ~_inside(time_s, unworn)
    known = ~_inside(time_s, gaps)
    columns = {"enmo_mg": enmo, "mad_mg": enmo, "angle_deg": angle}
    return Epochs(
        time_s=time_s[known], wear=wear[known], **{name: v[known].astype(np.float32) for name, v in columns.items()}
    )


def made_summary(hours, *, rules=None, start=MONDAY, placement="wrist", classes=("sit", "walk"), **epochs):
    """Return the summary of windows of one minute: sitting in the first half of every hour, walking in the second."""
    moved = made_epochs(hours, **epochs)
    time_s = np.arange(0, hours * HOUR_S, 60.0)
    time_s = time_s[np.isin(time_s, moved.time_s)]
    gap = np.append(0.0, np.diff(time_s) - 60)
    q = np.eye(len(classes))[(time_s % HOUR_S >= HOUR_S / 2).astype(int)] * 0.8 + 0.1
    windows = Windows(
        x=np.zeros((len(time_s), 1, 1), np.float32),
        time_s=time_s,
        label=np.full(len(time_s), -1),
        gap_before_s=gap,
        wear=moved.wear[np.searchsorted(moved.time_s, time_s)],
        window_s=60.0,
        stride_s=60.0,
        start=start,
        epochs=moved,
        facts=RecordingFacts(placement=placement),
    )
    return ResultSummary(Result(method="none", params={}, classes=classes, p=q, q=q, windows=windows), rules)


def _inside(time_s, spans):
    found = np.zeros(len(time_s), bool)
    for low, high in spans:
        found |= (time_s >= low * HOUR_S) & (time_s < high * HOUR_S)
    return found
