"""Signal processing: from samples on any clock to windows at a model's rate.

`prepare` runs all steps on a recording; `Windower` makes the same windows from a live stream. Each step returns its
data and a dictionary of facts. Steps that also run live are causal, state their delay and give the same result for
any chunking of the samples.
"""

from sight.recordings.signal.calibrate import Calibration
from sight.recordings.signal.live_windows import Windower
from sight.recordings.signal.preparation import prepare
from sight.recordings.signal.windows import join

__all__ = ["Calibration", "Windower", "join", "prepare"]
