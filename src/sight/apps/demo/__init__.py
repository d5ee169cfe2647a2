"""The demo: a small model trained on synthetic wearers, and three unseen ones whose bias adaptation corrects.

``python -m tools.demo_model`` trains the model and measures all wearers; docs/live.md shows the result.
"""

from pathlib import Path
from typing import Any

from sight.datasets.synthetic import Synthetic
from sight.types import Recording

MODEL = Path(__file__).parent / "demo.onnx"
#: Options of the synthetic dataset, and its subjects that the model was trained on.
DATASET: dict[str, Any] = {"wearers": 60, "hours": 0.4, "seed": 4}
TRAINING_SUBJECTS = ("W01", "W02", "W03", "W04", "W05")
#: Subjects of the demo. They were chosen because adaptation gains much for them; for most others it gains less.
WEARERS = {"demo-anna": "W08", "demo-bela": "W29", "demo-cleo": "W30"}


def recordings() -> dict[str, Recording]:
    dataset = Synthetic(**DATASET)
    return {name: next(dataset.recordings(subject)) for name, subject in WEARERS.items()}
