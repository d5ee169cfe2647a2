"""From samples on any clock to windows on the model's: gaps, resampling, calibration, non-wear, windows.

Every step returns data and facts. What a live session needs as well is causal, states its delay, and answers the
same whatever chunks the samples arrive in.
"""

from sight.signal.calibrate import Calibration
from sight.signal.live_windows import Windower
from sight.signal.pipeline import prepare
from sight.signal.windows import cut, join

__all__ = ["Calibration", "Windower", "cut", "join", "prepare"]
