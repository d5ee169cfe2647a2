"""A session: samples of one wearer in chunks of any size, answers as windows are complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isclose, isfinite

import numpy as np

from sight.base import Adapter, OutputAdapter, Source
from sight.card import ModelCard, filled, require_card
from sight.evaluate import stretches
from sight.signal.calibrate import Calibration
from sight.signal.clock import MAX_GAP_S
from sight.signal.live_windows import FeatureWindower, Windower
from sight.signal.resample import SAME_RATE
from sight.signal.windows import whole_samples
from sight.state import Stateful
from sight.stream.channel_mapping import Columns
from sight.types import Array, Event, Windows


class Session(Stateful):
    """One wearer's stream through a model and a method; synchronous, without threads.

    Parameters
    ----------
    source
        A model with a card, which tells rate, channels, units and windows.
    adapter
        Any method; it is bound to the source where it is not yet, and goes on from the state it is in.
    rate_in_hz
        Nominal rate of the sensor; None is the model's.
    channels
        Names of the columns that will be pushed, where they are more than the model's or in another order.
    units
        Unit of each pushed column, or one for all; None takes the model's.
    window_s, stride_s
        Length of a window and distance between two; None takes the model's.
    max_gap_s
        A longer pause is a gap.
    calibration
        Scale and offset of the accelerometer, estimated beforehand.

    Notes
    -----
    Any chunking of a recording gives exactly the windows of `sight.signal.prepare` and, with a source that encodes
    windows one by one as an ONNX source does, exactly the answers of `sight.evaluate.run`. `state` at any moment and
    `restore` elsewhere change nothing.

    What wants to see the whole recording is not done live: calibration is not estimated, non-wear is not flagged, the
    nominal rate is not checked against the timestamps, and no warnings about units are given.

    Examples
    --------
    >>> from sight.registry import method
    >>> from sight.testing import ToySource
    >>> source = ToySource()
    >>> source.card = ModelCard(encoder="toy", encoder_args={}, classes=source.classes, channels=("x", "y", "z"),
    ...     units=("g",) * 3, rate_hz=10.0, window_s=2.0, stride_s=1.0, mean=(0.0,) * 3, std=(1.0,) * 3)
    >>> session = Session(source, method("sight"))
    >>> [event.time_s for event in session.push(np.ones((40, 3)))]
    [0.0, 1.0, 2.0]
    >>> other = Session(source, method("sight")).restore(session.state())
    >>> [(event.window, event.time_s) for event in other.push(np.ones((10, 3)))]
    [(3, 3.0)]
    """

    def __init__(
        self,
        source: Source,
        adapter: Adapter,
        *,
        rate_in_hz: float | None = None,
        channels: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        window_s: float | None = None,
        stride_s: float | None = None,
        max_gap_s: float = MAX_GAP_S,
        calibration: Calibration | None = None,
    ) -> None:
        self.card = require_card(source)
        self.source = source
        self.adapter = adapter if getattr(adapter, "_source", None) is source else adapter.bind(source)
        if adapter.chunk:
            raise ValueError(
                f"{adapter.name} answers {adapter.chunk} windows together, so that live answers would come late; "
                f"choose its other rule with rule=stream."
            )
        self.rate_in_hz = rate_in_hz or self.card.rate_hz
        self._columns = Columns(self.card, channels, units, calibration)
        self.windower = _windower(self.card, self.rate_in_hz, window_s, stride_s, max_gap_s)
        self.count_ = 0
        self.anchor_s_ = 0.0  # samples without a time follow this moment at the nominal rate
        self.since_ = 0

    @property
    def count(self) -> int:
        """Windows answered so far."""
        return self.count_

    @property
    def facts(self) -> dict[str, int]:
        """Samples taken so far, and those dropped by reason."""
        return self.windower.facts

    @property
    def delay_s(self) -> float:
        """How long after its last moment a window is complete."""
        return self.windower.delay_s

    def push(self, values: Array, time_s: Array | None = None) -> list[Event]:
        """Take samples (n, C) and their times in seconds; answer the windows that are now complete."""
        return self._answered(self.cut(values, time_s))

    def flush(self) -> list[Event]:
        """End the stream: answer the windows that were waiting for a next sample."""
        return self._answered(self._filled(self.windower.flush()))

    def cut(self, values: Array, time_s: Array | None = None) -> Windows:
        """Take samples; return the windows that are now complete, for callers that encode by themselves.

        Parameters
        ----------
        values
            Samples, (n, C).
        time_s
            Their times, (n,); None counts on from the latest sample at the nominal rate.
        """
        values = self._columns.of(values)
        if time_s is not None:
            windows = self.windower.push(values, time_s)
            if isfinite(self.windower.last_s):
                self.anchor_s_, self.since_ = self.windower.last_s, 1
            return self._filled(windows)
        later = np.arange(self.since_, self.since_ + len(values)) / self.rate_in_hz
        self.since_ += len(values)
        return self._filled(self.windower.push(values, self.anchor_s_ + later))

    def predict(self, windows: Windows, z: Array, p: Array) -> list[Event]:
        """Answer the windows of `cut` from what the source says of them: features (N, D), probabilities (N, K)."""
        events: list[Event] = []
        for piece in stretches(windows.gap_before_s, None):
            gap_s = float(windows.gap_before_s[piece.start])
            if gap_s > 0:
                self.adapter.gap(gap_s)
            q = self._refined(windows.x[piece], z[piece], p[piece])
            trace = self.adapter.trace()
            for row, at in enumerate(range(piece.start, piece.stop)):
                event = Event(
                    window=self.count_,
                    time_s=float(windows.time_s[at]),
                    q=q[row],
                    p=p[at].copy(),  # not a view that keeps the answers to other wearers alive
                    gap_s=0.0 if row else gap_s,
                    diagnostics={name: float(values[row]) for name, values in trace.items()},
                )
                events.append(event)
                self.count_ += 1
        return events

    def _answered(self, windows: Windows) -> list[Event]:
        return self.predict(windows, *self.source.encode(windows.x)) if len(windows) else []

    def _refined(self, x: Array, z: Array, p: Array) -> Array:
        return self.adapter.refine(z, p) if isinstance(self.adapter, OutputAdapter) else self.adapter.step(x)

    def _filled(self, windows: Windows) -> Windows:
        return replace(windows, x=filled(windows.x, self.card.fill)) if self.card.fill else windows


def _windower(
    card: ModelCard, rate_in_hz: float, window_s: float | None, stride_s: float | None, max_gap_s: float
) -> Windower | FeatureWindower:
    window_s, channels = window_s or card.window_s, len(card.channels)
    if whole_samples(window_s, card.rate_hz) == 1 and isclose(card.rate_hz, rate_in_hz, rel_tol=SAME_RATE):
        return FeatureWindower(rate_hz=rate_in_hz, channels=channels, max_gap_s=max_gap_s)
    return Windower(
        rate_in_hz=rate_in_hz,
        rate_hz=card.rate_hz,
        channels=channels,
        window_s=window_s,
        stride_s=stride_s or card.stride_s,
        max_gap_s=max_gap_s,
    )
