"""Check that a killed benchmark ends with the same rows: run an experiment once, then again with kills.

    python -m benchmarks.bench.kills                                             # HAPT's main table, about 20 minutes
    python -m benchmarks.bench.kills --dataset synthetic --out /tmp/kills.json   # a minute

Both runs start with an empty folder. The second run and its workers get SIGKILL when the given shares of its models and
rows exist, and it is started again each time. Rows are compared in every column but times.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from sight._util.atomic import write_json

OUT = Path(__file__).resolve().parents[1] / "results" / "kills.json"
#: Columns in which two runs of the same rows may differ.
TIMES = ("seconds", "computed_at")


def main() -> None:
    """Run, kill, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", default="table-main")
    parser.add_argument("--dataset", default="hapt")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shares", default="0.3,0.7", help="shares of models and rows at which the run is killed")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    shares = [float(share) for share in given.shares.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        plain, killed = Path(folder) / "plain", Path(folder) / "killed"
        began = time.monotonic()
        start(given, plain).wait()
        minutes = (time.monotonic() - began) / 60
        limits = [(kind, int(share * count(plain, kind))) for kind in ("models", "rows") for share in shares]
        kills = [kill(given, killed, kind, limit) for kind, limit in limits]
        start(given, killed).wait()
        one, other = (pd.read_parquet(next(place.glob("*.parquet"))) for place in (plain, killed))
        differ = [name for name in one if name not in TIMES and one[name].astype(str).ne(other[name].astype(str)).any()]
        found = {
            "experiment": given.experiment,
            "dataset": given.dataset,
            "jobs": given.jobs,
            "rows": len(one),
            "minutes_without_kills": round(minutes, 1),
            "kills": kills,
            "columns_that_differ": differ,
        }
    write_json(given.out, found)
    print(found)
    sys.exit(bool(differ) or len(one) != len(other))


def start(given: argparse.Namespace, out: Path) -> subprocess.Popen[bytes]:
    """Start the command in its own process group."""
    what = ["bench", "run", given.experiment, "--dataset", given.dataset, "--jobs", str(given.jobs), "--out", str(out)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "sight", *what], start_new_session=True, env=environment, **quiet)


def kill(given: argparse.Namespace, out: Path, kind: str, limit: int) -> dict[str, int]:
    """Kill a run as soon as it has so many models or rows, and return the counts."""
    running = start(given, out)
    wait(lambda: count(out, kind) >= limit or running.poll() is not None)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    return {"models": count(out, "models"), "rows": count(out, "rows")}


def wait(ready: Callable[[], bool]) -> None:
    """Wait for a condition, polling ten times a second."""
    while not ready():
        time.sleep(0.1)


def count(out: Path, kind: str) -> int:
    """Count finished models or rows."""
    return len(list(out.glob({"models": "models/*.safetensors", "rows": "rows/*/*.json"}[kind])))


if __name__ == "__main__":
    main()
