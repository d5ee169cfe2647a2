"""Draw the picture of the README: a day of one person, true classes above those of the model alone and adapted.

Run as ``python -m tools.readme_picture RUNS`` with HAPT in the data folder. RUNS is a folder of ``sight bench run days
-d hapt-total-pooled``, whose source model is used; it is trained there if it is missing. The streams are the waking
days ``time-use`` of that experiment. The day on HAPT P is drawn whose gain, that of Keel on the whole recording, is
near the mean over all settings, and whose accuracy without adaptation is near the mean of HAPT P.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sight.apps.bench import result_rows
from sight.apps.bench.experiments import load_experiment
from sight.apps.bench.settings import load_setting
from sight.apps.bench.trial_data import Job, load_trial
from sight.apps.bench.trials import trials
from sight.results.prediction_loop import run
from sight.results.report.lanes import runs
from sight.results.report.palette import class_colours, stack_order
from sight.types import Array
from tools.result_files import RESULTS

PATH = Path(__file__).resolve().parents[1] / "docs" / "images" / "raw-adapted.png"
SETTING, ORDER, METHOD = "hapt-total-pooled", "time-use", "Keel, whole recording"
KEY = ["setting", "sources", "target", "seed"]


def accuracies() -> tuple[Any, Any]:
    """Return accuracy without adaptation and the gain of the method on all days, in points, by `KEY`."""
    rows = result_rows.read(sorted(RESULTS.glob("*/days_*.parquet")))
    rows = rows[rows["order"] == ORDER]
    accuracy = {label: own.set_index(KEY)["accuracy"] for label, own in rows.groupby("label")}
    return 100 * accuracy["Source-only"], 100 * (accuracy[METHOD] - accuracy["Source-only"])


def predictions(folder: Path, sources: str, target: str, seed: int) -> tuple[tuple[str, ...], dict[str, Array]]:
    """Return class names, and the true and predicted classes of a run, with the source model of a runs folder."""
    experiment, setting = load_experiment("days"), load_setting(SETTING)
    job = Job(experiment=experiment, setting=setting, out=folder)
    own = (sources, target, seed, ORDER)
    trial = next(t for t in trials(experiment, setting) if ("+".join(t.sources), t.target, t.seed, t.order) == own)
    data = load_trial(trial, job)
    source, (variant,) = data.source(), [v for v in experiment.variants if v.label == METHOD]
    windows, encoded = data.stream(source, data.index)
    result = run(variant.adapter().bind(source), windows, encoded=encoded, lag=math.inf)
    return data.recipe.classes, {
        "true": windows.label,
        "model alone": encoded[1].argmax(axis=1),
        "adapted": result.q.argmax(axis=1),
    }


def draw(classes: tuple[str, ...], day: dict[str, Array]) -> Figure:
    """Return a figure with one lane for the true classes and one for each prediction."""
    mpl.rcParams["font.family"] = "DejaVu Sans"
    colours = [light for light, _ in class_colours(classes)]
    figure = Figure(figsize=(10, 2.9), layout="constrained")
    axes = figure.subplots()
    names = []
    for row, (name, labels) in enumerate(day.items()):
        right = "" if name == "true" else f"\n{(labels == day['true']).mean():.0%} correct"
        names.append(name + right)
        position = np.arange(len(labels)) * 16 / len(labels)
        for k, start, end in zip(*runs(labels, position, position + 16 / len(labels)), strict=True):
            axes.broken_barh([(start, end - start)], (-row, 0.8), color=colours[k], linewidth=0)
    axes.set_yticks([0.4 - row for row in range(len(names))], names)
    axes.set_xlim(0, 16)
    axes.set_xlabel("hours of a waking day")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    used = set(np.concatenate(list(day.values())).tolist())
    entries = [Patch(color=colours[k], label=classes[k]) for k in stack_order(classes) if k in used]
    figure.legend(handles=entries, loc="outside lower center", ncols=9, frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Choose the day whose gain and accuracy are nearest to the means, and write its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of the source models")
    folder, (alone, found) = parser.parse_args().runs, accuracies()
    mean, own, level = found.groupby("setting").mean().mean(), found.loc[SETTING], alone.loc[SETTING]
    chosen = ((own - mean).abs() + (level - level.mean()).abs()).idxmin()
    classes, day = predictions(folder, *chosen)
    shown = 100 * float((day["adapted"] == day["true"]).mean() - (day["model alone"] == day["true"]).mean())
    if abs(shown - own[chosen]) > 0.05:
        raise ValueError(
            f"The rows have a gain of {own[chosen]:+.1f}, this run {shown:+.1f}; run the experiment again."
        )
    draw(classes, day).savefig(PATH, dpi=150)
    print(
        f"{PATH}: subject {chosen[1]}, seed {chosen[2]}, {level[chosen]:.1f} and {shown:+.1f} (mean of the setting "
        f"{level.mean():.1f}); {len(found)} days, mean {mean:+.1f}, "
        f"median {found.median():+.1f}, quartiles {found.quantile(0.25):+.1f} and {found.quantile(0.75):+.1f}, "
        f"{(found < 0).mean():.0%} lose"
    )


if __name__ == "__main__":
    main()
