"""Score the predictions of `train_encode`: one row per run, and tables of gains over source-only.

Run as ``python -m benchmarks.keel.evaluate WINDOWS PREDICTIONS RESULTS``. Development subjects are those at even
positions of the dataset's list, counted from 0; the others were held out while hyper-parameters were chosen.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sight.results import metrics

SETTINGS = (
    "extrasensory_P",
    "hugadb_P",
    "hugadb_S",
    "hapt-total_P",
    "hapt-total_S",
    "hapt-body_P",
    "hapt-body_S",
    "wisdm_P",
    "wisdm_S",
)
HALVES = ("development", "held out")
SEGMENTED = ("none", "sticky", "sight", "keel")
MARGIN = 3.0  # points that a run may lose before it counts as harmed


def scores(windows: Path, predictions: Path) -> list[dict[str, Any]]:
    """Return one row per run (setting, source, seed, target) with macro-F1 and accuracy of each method in points."""
    rows = []
    for path in sorted(predictions.glob("*.npz")):
        dataset, kind, source, seed = path.stem.split("_")
        facts = json.loads((windows / f"{dataset}.json").read_text())
        edges, found = np.r_[0, np.cumsum(facts["counts"])], np.load(path)
        methods = {name: found[name] for name in found.files if name != "subjects"}
        for i, name in enumerate(facts["subjects"]):
            if i in found["subjects"]:
                continue
            part = slice(edges[i], edges[i + 1])
            row = {
                "setting": f"{dataset}_{kind}",
                "source": source,
                "seed": seed,
                "target": name,
                "half": HALVES[i % 2],
            }
            for method, labels in methods.items():
                table = metrics.confusion(np.array(facts["labels"][i]), labels[part], len(facts["classes"]))
                row[method] = 100 * metrics.macro_f1_union(table)
                row[f"{method} accuracy"] = 100 * metrics.accuracy(table)
                if method in SEGMENTED:
                    row |= {
                        f"{method} {key}": value for key, value in changes(facts["labels"][i], labels[part]).items()
                    }
            rows.append(row)
    return rows


def changes(truth: list[int], predicted: np.ndarray) -> dict[str, float]:
    """Return predicted changes per true change, windows until a change is predicted, and the share never predicted."""
    label = np.array(truth)
    delays = metrics.transition_delays(label, predicted, np.arange(len(label), dtype=float))
    return {
        "fragmentation": float((np.diff(predicted) != 0).sum() / max((np.diff(label) != 0).sum(), 1)),
        "delay": float(np.nanmean(delays)) if np.isfinite(delays).any() else float("nan"),
        "missed": float(np.isnan(delays).mean()) if len(delays) else float("nan"),
    }


def interval(rows: list[dict[str, Any]], method: str) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean gain over target subjects, the runs of each averaged first."""
    by_subject: dict[str, list[float]] = {}
    for row in rows:
        by_subject.setdefault(row["target"], []).append(row[method] - row["none"])
    means = np.array([np.mean(gains) for gains in by_subject.values()])
    drawn = np.random.default_rng(0).integers(0, len(means), (2000, len(means)))
    low, high = np.quantile(means[drawn].mean(axis=1), (0.025, 0.975))
    return round(float(low), 2), round(float(high), 2)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return points, gain over source-only and harmed runs of each method, by setting."""
    names = [name for name in rows[0] if f"{name} accuracy" in rows[0]]
    table = []
    for setting in SETTINGS:
        for half in (*HALVES, "all"):
            chosen = [row for row in rows if row["setting"] == setting and half in (row["half"], "all")]
            for name in names:
                gain = np.array([row[name] - row["none"] for row in chosen])
                low, high = interval(chosen, name)
                right = np.array([row[f"{name} accuracy"] - row["none accuracy"] for row in chosen])
                table.append(
                    {
                        "setting": setting,
                        "half": half,
                        "method": name,
                        "runs": len(chosen),
                        "macro_f1": round(float(np.mean([row[name] for row in chosen])), 2),
                        "gain": round(float(gain.mean()), 2),
                        "gain_low": low,
                        "gain_high": high,
                        "accuracy_gain": round(float(right.mean()), 2),
                        "harmed": int((gain < -MARGIN).sum()),
                        "harmed_accuracy": int((right < -MARGIN).sum()),
                    }
                )
    return table


def markdown(table: list[dict[str, Any]], half: str, methods: list[str], figure: str = "gain") -> str:
    """Write one table of the document: methods down, settings across, then their mean and the share harmed."""
    lines = ["| | " + " | ".join((*SETTINGS, "mean", "harmed")) + " |", "|---" * (len(SETTINGS) + 3) + "|"]
    for name in methods:
        own = [row for row in table if row["half"] == half and row["method"] == name]
        values = [row[figure] for row in own]
        count = "harmed_accuracy" if figure == "accuracy_gain" else "harmed"
        harmed = 100 * sum(row[count] for row in own) / sum(row["runs"] for row in own)
        form = "{:.1f}" if figure == "macro_f1" else "{:+.1f}"
        cells = [*(form.format(value) for value in values), form.format(np.mean(values)), f"{harmed:.1f} %"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def segmented(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean figures of activity changes, by setting and method."""
    keys = ("fragmentation", "delay", "missed")
    table = []
    for setting in SETTINGS:
        own = [row for row in rows if row["setting"] == setting]
        for name in SEGMENTED:
            means = {key: float(np.nanmean([row[f"{name} {key}"] for row in own])) for key in keys}
            table.append({"setting": setting, "method": name, **means})
    return table


def write(path: Path, rows: list[dict[str, Any]], columns: list[str]) -> None:
    """Write rows as CSV, figures to two decimals."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(
            [round(row[key], 2) if isinstance(row[key], float) else row[key] for key in columns] for row in rows
        )


def main() -> None:
    """Write `runs.csv`, `summary.csv` and `changes.csv`, and print the tables."""
    windows, predictions, results = (Path(name) for name in sys.argv[1:4])
    rows = scores(windows, predictions)
    table = summary(rows)
    results.mkdir(parents=True, exist_ok=True)
    names = [name for name in rows[0] if f"{name} accuracy" in rows[0]]
    plain = [name for name in names if not name.startswith("keel-") and "@" not in name]
    write(results / "runs.csv", rows, ["setting", "source", "seed", "target", "half", *plain])
    write(results / "summary.csv", table, list(table[0]))
    write(results / "changes.csv", segmented(rows), ["setting", "method", "fragmentation", "delay", "missed"])
    print(markdown(table, "all", ["none"], "macro_f1"))
    for half in (*HALVES, "all"):
        print(f"\n{half}\n{markdown(table, half, [name for name in names if '@' not in name and name != 'none'])}")
    print(f"\nshuffled\n{markdown(table, 'all', [name for name in names if name.endswith('@shuffled')])}")
    alone = [name for name in names if name.endswith("@alone")]
    print(f"\none class at a time, accuracy\n{markdown(table, 'all', alone, 'accuracy_gain')}")
    print(f"\naccuracy\n{markdown(table, 'all', plain[1:], 'accuracy_gain')}")


if __name__ == "__main__":
    main()
