"""Session: samples of one wearer in, predictions out as soon as windows are complete."""

from collections.abc import Sequence
from dataclasses import replace
from math import isclose, isfinite

import numpy as np

from sight._util.object_state import Stateful
from sight.apps.stream.channel_mapping import ChannelMapping
from sight.base import Adapter, Source
from sight.models.card import ModelCard, filled, require_card
from sight.models.training_domain import Domain
from sight.recordings.signal.calibrate import Calibration
from sight.recordings.signal.clock import MAX_GAP_S
from sight.recordings.signal.live_windows import FeatureWindower, Windower
from sight.recordings.signal.resample import SAME_RATE
from sight.recordings.signal.windows import whole_samples
from sight.results.prediction_loop import split_at_gaps
from sight.types import Array, Event, Warning, Windows

#: First windows of a stream that are compared with the training data of the model.
EXAMINED = 60


class Session(Stateful):
    """Live stream of one wearer through a model and a method; synchronous, without threads.

    Parameters
    ----------
    source
        A model with a card, which defines rate, channels, units and windows.
    adapter
        Any method; bound to the source if it is not yet, and continued from its current state.
    rate_in_hz
        Nominal rate of the sensor; None takes the model's.
    channels
        Names of the pushed columns, if they are more than the model's or in another order.
    units
        Unit of each pushed column, or one for all; None takes the model's.
    window_s, stride_s
        Length of a window and distance between two; None takes the model's.
    max_gap_s
        A longer pause counts as a gap.
    calibration
        Scale and offset of the accelerometer, estimated beforehand.

    Notes
    -----
    Any chunking of a recording gives exactly the windows of `sight.recordings.signal.prepare` and, with a source that
    encodes windows one by one as an ONNX source does, exactly the predictions of `sight.run`. Saving with `state` at
    any moment and continuing with `restore` changes nothing.

    Steps that need the whole recording are not done live: calibration is not estimated, non-wear is not flagged, the
    nominal rate is not checked against the timestamps, and there are no warnings about units.

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
                f"{adapter.name} predicts {adapter.chunk} windows together, which delays live predictions; "
                f"set rule=stream."
            )
        self.rate_in_hz = rate_in_hz or self.card.rate_hz
        self._mapping = ChannelMapping(self.card, channels, units, calibration)
        self.windower = make_windower(self.card, self.rate_in_hz, window_s, stride_s, max_gap_s)
        self.count_ = 0
        self.anchor_s_ = 0.0  # samples without times follow this time at the nominal rate
        self.since_ = 0
        self._domain = Domain.of(self.card)
        self.early_ = np.empty((0, 8), np.float32)  # statistics of the first windows, for `warnings`

    @property
    def count(self) -> int:
        return self.count_

    @property
    def facts(self) -> dict[str, int]:
        """Number of samples accepted so far, and dropped by reason."""
        return self.windower.facts

    @property
    def warnings(self) -> list[Warning]:
        """What does not look like the training data in the first windows; empty before `EXAMINED` windows."""
        return self._domain.warnings(self.early_) if self._domain and len(self.early_) == EXAMINED else []

    @property
    def delay_s(self) -> float:
        """Seconds from the end of a window until it is complete."""
        return self.windower.delay_s

    def push(self, values: Array, time_s: Array | None = None) -> list[Event]:
        """Add samples (n, C) with times in seconds; return the events of windows that are now complete."""
        return self._encode_and_predict(self.cut(values, time_s))

    def flush(self) -> list[Event]:
        """End the stream; return the events of windows that were waiting for another sample."""
        return self._encode_and_predict(self._fill(self.windower.flush()))

    def cut(self, values: Array, time_s: Array | None = None) -> Windows:
        """Add samples (n, C) and return the windows that are now complete, for callers that encode them together.

        Without times (n,), the samples continue from the latest one at the nominal rate.
        """
        values = self._mapping.apply(values)
        if time_s is not None:
            windows = self.windower.push(values, time_s)
            if isfinite(self.windower.last_s):
                self.anchor_s_, self.since_ = self.windower.last_s, 1
            return self._fill(windows)
        later = np.arange(self.since_, self.since_ + len(values)) / self.rate_in_hz
        self.since_ += len(values)
        return self._fill(self.windower.push(values, self.anchor_s_ + later))

    def predict(self, windows: Windows, encoded: tuple[Array, Array] | None) -> list[Event]:
        """Return the events of windows of `cut`, given their features (N, D) and probabilities (N, K).

        `encoded` is None for a method that encodes windows itself; raw probabilities of the events are then its own.
        """
        if self._domain and len(self.early_) < EXAMINED:
            early = self._domain.statistics(windows.x[: EXAMINED - len(self.early_)])
            self.early_ = np.concatenate([self.early_, early])
        events: list[Event] = []
        for piece in split_at_gaps(windows.gap_before_s, None):
            gap_s = float(windows.gap_before_s[piece.start])
            if gap_s > 0:
                self.adapter.gap(gap_s)
            if encoded is None:
                q, p = self.adapter.step(windows.x[piece]), self.adapter.raw()
            else:
                z, p = (part[piece] for part in encoded)
                q = self.adapter.predict(windows.x[piece], z, p)
            trace = self.adapter.trace()
            for row, at in enumerate(range(piece.start, piece.stop)):
                event = Event(
                    window=self.count_,
                    time_s=float(windows.time_s[at]),
                    q=q[row],
                    p=p[row].copy(),  # not a view, which would keep the whole batch in memory
                    gap_s=0.0 if row else gap_s,
                    diagnostics={name: float(values[row]) for name, values in trace.items()},
                )
                events.append(event)
                self.count_ += 1
        return events

    def _fits(self, name: str, value: Array, current: Array) -> bool:
        return value.shape[1:] == current.shape[1:] if name == "early" else super()._fits(name, value, current)

    def _encode_and_predict(self, windows: Windows) -> list[Event]:
        own = self.adapter.encodes or not len(windows)
        return self.predict(windows, None if own else self.source.encode(windows.x))

    def _fill(self, windows: Windows) -> Windows:
        return replace(windows, x=filled(windows.x, self.card.fill)) if self.card.fill else windows


def make_windower(
    card: ModelCard,
    rate_in_hz: float,
    window_s: float | None = None,
    stride_s: float | None = None,
    max_gap_s: float = MAX_GAP_S,
) -> Windower | FeatureWindower:
    """Return the windower of a live stream for a model; windows of one sample are passed on as they are."""
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
