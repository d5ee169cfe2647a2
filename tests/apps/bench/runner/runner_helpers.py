"""A setting of synthetic wearers, and runs of `sight bench` on it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from sight.apps.cli import app

TINY = """
dataset = "synthetic"
options = { wearers = 4, hours = 0.06, gaps_per_hour = 0.0 }
windowing = { stride_s = 2.0 }
epochs = 2
orders = { time = {} }
sedentary = ["lying", "sitting"]
standing = "standing"
pairs = ["W01->W02", "W01->W03", "W02+W03->W04"]
"""


def bench(*arguments: str):
    return CliRunner().invoke(app, ["bench", *arguments])


def finished(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("rows/*/*.json")}


def stored_rows(path: Path) -> list[list[str]]:
    """Return the rows of a result file without times."""
    return pd.read_parquet(path).drop(columns=["seconds", "computed_at"]).astype(str).to_numpy().tolist()
