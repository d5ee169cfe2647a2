"""Writers of small files in the official layouts of datasets."""

from __future__ import annotations

import gzip
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from sight.datasets.synthetic import Synthetic

RNG = np.random.default_rng(7)

ANNOTATIONS = {
    "7030 sleeping;MET 0.95": "sleep",
    "11580 office work such as writing and typing (with or without eating at the same time);MET 1.5": "sedentary",
    'home activity;walking;17150 "walking household, without observable loads";MET 2.0': "light",
    "leisure;sports;15711 beach volleyball;MET 8.0": "moderate-vigorous",
}


def zipped(folder: Path) -> Path:
    """Pack a folder into a zip with one directory on top."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in folder.rglob("*"):
            archive.write(path, Path("top") / path.relative_to(folder))
        archive.writestr("__MACOSX/top/._S006.csv", b"resource fork")
    return target


def harth_table(labels, start="2019-01-12 00:00:00.000"):
    times = pd.date_range(start, periods=len(labels), freq="20ms").strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
    axes = ["back_x", "back_y", "back_z", "thigh_x", "thigh_y", "thigh_z"]
    table = pd.DataFrame(RNG.normal(size=(len(labels), 6)).round(6), columns=axes)
    table.insert(0, "timestamp", times)
    table["label"] = labels
    return table


def capture_lines(spans, start="2016-11-13 02:18:00"):
    """Rows at 100 Hz; a span is (annotation or '', seconds, pause before it)."""
    moment, frames = pd.Timestamp(start), []
    for annotation, seconds, pause in spans:
        moment += pd.Timedelta(seconds=pause)
        n = int(seconds * 100)
        frame = pd.DataFrame(RNG.normal(size=(n, 3)).astype(np.float32), columns=["x", "y", "z"])
        frame.insert(0, "time", pd.date_range(moment, periods=n, freq="10ms").strftime("%Y-%m-%d %H:%M:%S.%f"))
        frame["annotation"] = annotation
        frames.append(frame)
        moment += pd.Timedelta(seconds=seconds)
    return pd.concat(frames)


def capture_hours(folder, hours):
    """Write a CAPTURE-24 recording of whole hours; the second hour is not annotated."""
    (folder / "annotation-label-dictionary.csv").write_text(
        "annotation,label:Walmsley2020\n7030 sleeping;MET 0.95,sleep\nsitting;MET 1.5,sedentary\n"
    )
    rows = [
        f"2016-11-13 HH:MM:{i // 100:02}.{i % 100:02}0000,{i % 100 / 100:.6f},0.73,-0.67,NOTE\n" for i in range(6000)
    ]
    minute = "".join(rows).encode()
    with (folder / "P001.csv.gz").open("wb") as out:  # a gzip file may consist of several members
        out.write(gzip.compress(b"time,x,y,z,annotation\n", 1))
        for index in range(60 * hours):
            note = b"" if index // 60 == 1 else b"7030 sleeping;MET 0.95" if index < 480 else b"sitting;MET 1.5"
            text = minute.replace(b"HH:MM", b"%02d:%02d" % divmod(index, 60)).replace(b"NOTE", note)
            out.write(gzip.compress(text, 1))


def write_hapt(root):
    """Write three synthetic wearers of a thigh sensor as users 1 to 3 of HAPT, one experiment of 12 minutes each.

    With this seed each of them does all six activities; running stands for walking downstairs.
    """
    codes = {"walking": 1, "stairs": 2, "running": 3, "sitting": 4, "standing": 5, "lying": 6}  # cycling is unlabelled
    dataset, labels = Synthetic(wearers=3, hours=0.2, gaps_per_hour=0, shift=0.3, seed=88), []
    (root / "RawData").mkdir(parents=True)
    for user, wearer in enumerate(dataset.subjects(), start=1):
        recording = next(dataset.recordings(wearer))
        name = f"exp{user:02}_user{user:02}.txt"
        np.savetxt(root / "RawData" / f"acc_{name}", recording.values[:, :3], fmt="%.9g")
        np.savetxt(root / "RawData" / f"gyro_{name}", np.deg2rad(recording.values[:, 3:]), fmt="%.9g")
        edges = [0, *(np.flatnonzero(np.diff(recording.labels)) + 1).tolist(), len(recording.labels)]
        for first, end in pairwise(edges):
            code = codes.get(dataset.classes[recording.labels[first]])
            if code:
                labels.append(f"{user} {user} {code} {first + 1} {end}\n")
    (root / "RawData" / "labels.txt").write_text("".join(labels))
    return root


def ucihar(root, parts):
    """Write the official tree; a part is a list of (subject, activity, windows (N, 9, 128))."""
    for part, rows in parts.items():
        folder = root / "UCI HAR Dataset" / part
        (folder / "Inertial Signals").mkdir(parents=True)
        (folder / f"subject_{part}.txt").write_text("".join(f"{subject}\n" * len(x) for subject, _, x in rows))
        (folder / f"y_{part}.txt").write_text("".join(f"{activity}\n" * len(x) for _, activity, x in rows))
        kinds = [f"{kind}_{axis}" for kind in ("total_acc", "body_acc", "body_gyro") for axis in "xyz"]
        for i, kind in enumerate(kinds):
            lines = ["  ".join(f"{value: .7e}" for value in window[i]) for _, _, x in rows for window in x]
            (folder / "Inertial Signals" / f"{kind}_{part}.txt").write_text("".join(f"  {line}\n" for line in lines))


def overlapping(n, signal):
    return np.stack([signal[:, 64 * i : 64 * i + 128] for i in range(n)])
