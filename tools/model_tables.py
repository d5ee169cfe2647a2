"""Tables of docs/models.md, computed from the cards of the bundled models and benchmarks/results/models."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean, stdev

from sight.models.bundled import names
from sight.models.model_inspection import inspect
from tools.findings_tables import markdown
from tools.result_files import RESULTS, read_csv

METHODS = {"none": "model alone", "sticky": "sticky", "keel": "Keel"}
#: How the sensor is turned in training, in words.
MOUNTS = {
    "none": "as recorded",
    "tilt": "tilted",
    "wrist": "tilted, x and y swapped, axes flipped",
    "any": "tilted, axes permuted and flipped",
}


def read(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    return read_csv(RESULTS / "models" / f"{name}.csv")


def overview() -> str:
    """Return the table of bundled models: use, classes, input and licence."""
    rows = []
    for name in names():
        facts = inspect(name)
        about = facts["about"]
        cut = f"{facts['rate_hz']:g} Hz, {facts['window_s']:g} s every {facts['stride_s']:g} s"
        dataset = f"[{about['data'].partition(':')[0]}]({about['homepage']})"
        data = f"{dataset}, {about['subjects']} subjects; {about['licence']}"
        size = f"{facts['size_bytes'] / 1024:.0f} KB"
        rows.append([f"`{name}`", about["placement"], ", ".join(facts["classes"]), cut, data, size])
    return markdown(["model", "worn at", "classes", "windows", "trained on", "size"], rows)


def label_map() -> str:
    """Return the activities in each class of the model `wrist`."""
    groups: dict[str, list[str]] = {}
    for label, group in inspect("wrist")["about"]["label_map"].items():
        groups.setdefault(group, []).append(label)
    return markdown(
        ["class of `wrist`", "activities in WISDM"], [[group, ", ".join(own)] for group, own in groups.items()]
    )


def scores() -> str:
    """Return scores of left-out subjects for each model, mounting and method."""
    table, rows = read("scores"), []
    for name in names():
        for mounting in ("as recorded", "remounted") if name != "waist" else ("as recorded",):
            for method, text in METHODS.items():
                own = [
                    row for row in table if (row["model"], row["mounting"], row["method"]) == (name, mounting, method)
                ]
                rows.append([f"`{name}`", mounting, text, _spread(own, "macro_f1"), _spread(own, "accuracy")])
    return markdown(["model", "sensor", "predictions", "macro-F1", "accuracy"], rows)


def selection() -> str:
    """Return raw macro-F1 of the variants that were compared, as recorded and remounted."""
    table, rows = read("selection"), []
    for name in sorted({row["model"] for row in table}):
        dataset, window, mounts, *encoder = name.split("-")
        raw = [row for row in table if row["model"] == name and row["method"] == "none"]
        by_mounting = [[row for row in raw if row["mounting"] == mounting] for mounting in ("as recorded", "remounted")]
        text = [f"{mean(float(row['macro_f1']) for row in own):.1f}" for own in by_mounting]
        network = "CNN" if encoder else "ResNet"
        rows.append([dataset.upper(), f"{window} s", network, MOUNTS[mounts], *text])
    return markdown(["dataset", "window", "network", "sensor in training", "as recorded", "remounted"], rows)


def label_maps() -> str:
    """Return macro-F1 of ways to group the activities of WISDM."""
    table = read("label_maps")
    order = list(dict.fromkeys(row["map"] for row in table))
    return markdown(
        ["classes", "macro-F1"],
        [[name, _spread([row for row in table if row["map"] == name], "macro_f1")] for name in order],
    )


def out_of_domain() -> str:
    """Return how often the check warns for each input."""
    table, rows = read("out_of_domain"), []
    for model, given in dict.fromkeys((row["model"], row["input"]) for row in table):
        own = [row for row in table if (row["model"], row["input"]) == (model, given)]
        warned = [sum(int(row[column]) for row in own) for column in ("recording_warns", "stream_warns")]
        rows.append([f"`{model}`", given, *(f"{count} of {len(own)}" for count in warned)])
    return markdown(["model", "input", "recordings with a warning", "streams with a warning"], rows)


def _spread(rows: list[dict[str, str]], column: str) -> str:
    values = [float(row[column]) for row in rows]
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


BLOCKS: dict[str, Callable[[], str]] = {
    "models-overview": overview,
    "models-label-map": label_map,
    "models-scores": scores,
    "models-selection": selection,
    "models-label-maps": label_maps,
    "models-out-of-domain": out_of_domain,
}
