"""Draw the picture of the README: a day of one person, true classes above those of the model alone and adapted.

Run as ``python -m tools.readme_picture`` with HAPT in the data folder; takes some minutes. The model is trained on ten
subjects (setting HAPT body P). The day is built from recordings of another subject: 60 % sitting, in bouts
(`sight.apps.bench.simulated_days`). Of the subjects that were not in training, the one with the median gain
of Keel is drawn.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sight.apps.bench.simulated_days import day_stream
from sight.datasets import load, windows_of
from sight.methods.keel import Keel
from sight.models.train import train
from sight.results.report.lanes import runs
from sight.results.report.palette import class_colours, stack_order
from sight.types import Array

PATH = Path(__file__).resolve().parents[1] / "docs" / "images" / "raw-adapted.png"
SOURCES, EPOCHS = 10, 33


def gain(day: dict[str, Array]) -> float:
    """Return by how many percentage points adaptation raises the accuracy of a day."""
    return 100 * float((day["adapted"] == day["true"]).mean() - (day["model alone"] == day["true"]).mean())


def held_out_days() -> tuple[tuple[str, ...], dict[str, dict[str, Array]]]:
    """Return class names, and true and predicted classes of a day of each subject that was not in training."""
    dataset = load("hapt", protocol="ucihar", acc="body_acc")
    subjects, classes = dataset.subjects(), dataset.classes
    windows = {subject: windows_of(dataset, subject) for subject in subjects}
    source = train(
        [windows[subject] for subject in subjects[:SOURCES]],
        classes,
        epochs=EPOCHS,
        channels=dataset.channels,
        units=dataset.units,
        rate_hz=dataset.rate_hz,
        dataset=dataset.name,
    )
    keel, found = Keel().bind(source), {}
    for number, subject in enumerate(subjects[SOURCES:]):
        label = windows[subject].label
        index = day_stream(label, "day-60", number, dominating=classes.index("sitting"))
        if index is not None:
            z, p = source.encode(windows[subject].x[index])
            adapted = keel.reset().refine(z, p).argmax(axis=1)
            found[subject] = {"true": label[index], "model alone": p.argmax(axis=1), "adapted": adapted}
    return classes, found


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
    """Choose the day with the median gain and write its picture."""
    classes, found = held_out_days()
    ranked = sorted(found, key=lambda subject: gain(found[subject]))
    chosen = ranked[len(ranked) // 2]
    gains = [gain(found[subject]) for subject in ranked]
    draw(classes, found[chosen]).savefig(PATH, dpi=150)
    print(f"{PATH}: subject {chosen}, gain {gain(found[chosen]):+.1f}; all {min(gains):+.1f} to {max(gains):+.1f}")


if __name__ == "__main__":
    main()
