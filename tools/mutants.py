"""Mutation tests of a sample: change one expression of a target module, run the module's tests, and list the survivors.

``make mutants`` runs it in copies of the repository. It is a script of its own because mutmut replaces each function by
a trampoline, which numba cannot compile, and cosmic-ray runs one test command for all modules, which takes hours here.

Mutants are chosen by a hash of seed, file, function and change, in turn from each module, so that an edit elsewhere
keeps the choice. Changes that cannot matter are listed in ``mutants_equivalent.toml`` with the reason and are not
counted. Tests run without real recordings and without those marked `long`; a mutant that exceeds the time limit counts
as killed.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from tools.mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parents[1]
LOG = "mutants.log"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.toml")
COMPILED = "tests/methods/test_compiled_adapter.py"
GOLDEN = "tests/methods/test_golden.py::test_{}_equal_the_stored_ones[{}]"
BASELINES = ("ema", "sticky", "t3a", "lame", "tca", "oatta")
OUTPUT = "tests/methods/test_output_baselines.py tests/results/test_prediction_loop.py " + " ".join(
    GOLDEN.format(part, name) for name in (*BASELINES, "sticky-learned") for part in ("predictions", "defaults")
)
STORES = "tests/apps/serve/test_sqlite_store.py tests/apps/serve/test_stores.py tests/apps/serve/test_tokens.py"
SIGNAL = "tests/recordings/signal tests/apps/stream/test_session.py"
#: Target below src/sight to its tests, those that find most first.
TARGETS = {
    "methods/sight/compiled.py": f"{COMPILED} tests/methods/test_sight.py",
    "methods/sight/reference.py": f"tests/methods/test_sight.py {COMPILED}",
    "methods/keel/compiled.py": f"{COMPILED} tests/methods/test_keel.py",
    "methods/keel/reference.py": f"tests/methods/test_keel.py {COMPILED}",
    **{f"methods/{name}.py": OUTPUT for name in BASELINES},
    "methods/compiled/many_wearers.py": COMPILED,
    "methods/compiled/state_layout.py": f"{COMPILED} tests/models/fused",
    "results/metrics.py": "tests/results/test_metrics.py",
    "results/segments.py": "tests/results/test_segments.py",
    "recordings/signal/calibrate.py": SIGNAL,
    "recordings/signal/clock.py": SIGNAL,
    "recordings/signal/live_windows.py": SIGNAL,
    "recordings/signal/nonwear.py": SIGNAL,
    "recordings/signal/preparation.py": SIGNAL,
    "recordings/signal/quality.py": SIGNAL,
    "recordings/signal/resample.py": SIGNAL,
    "recordings/signal/resampling_stages.py": SIGNAL,
    "recordings/signal/sampling_rate.py": SIGNAL,
    "recordings/signal/windows.py": SIGNAL,
    "apps/serve/backup.py": "tests/apps/serve/test_backup.py",
    "apps/serve/ingest_queue.py": "tests/apps/serve/test_ingest_queue.py",
    "apps/serve/sqlite_file.py": STORES,
    "apps/serve/sqlite_store.py": STORES,
    "apps/serve/tokens.py": "tests/apps/serve/test_tokens.py tests/apps/serve/test_security.py",
    "_util/folder_or_zip.py": "tests/util/test_folder_or_zip.py tests/test_damaged_files.py tests/datasets",
    "_util/object_state.py": "tests/util/test_object_state.py tests/test_base.py tests/apps/stream/test_state_file.py",
    "params.py": "tests/test_registry.py tests/test_base.py",
}


def sample(targets: dict[str, str], number: int, seed: int) -> list[Mutant]:
    """Return `number` mutants, in turn from each target, in the order of their hashes."""
    columns = [
        sorted(mutants(file, (ROOT / "src/sight" / file).read_text("utf-8")), key=lambda mutant: mutant.rank(seed))
        for file in targets
    ]
    return [mutant for mutant in chain.from_iterable(zip_longest(*columns)) if mutant][:number]


def run_tests(tree: Path, file: str, limit_s: float) -> tuple[str, str, float]:
    """Run the tests of a target in a copy of the repository.

    Returns "passed", "failed" or "timeout", the first test that failed, and the seconds.
    """
    plugins = ("pytest_timeout", "anyio", "_hypothesis_pytestplugin", "no:cacheprovider")
    options = ["-x", "-q", "-m", "not long and not real", "--hypothesis-seed=0"]
    options += [word for plugin in plugins for word in ("-p", plugin)]
    settings = {"PYTHONPATH": f"{tree}/src", "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": f"{tree}/.numba"}
    settings |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    began = time.monotonic()
    with (tree / LOG).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *TARGETS[file].split(), f"src/sight/{file}"],
            cwd=tree,
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            result = "passed" if process.wait(limit_s) == 0 else "failed"
        except subprocess.TimeoutExpired:
            result = "timeout"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    lines = (tree / LOG).read_text("utf-8", "replace").splitlines()
    failed = next((line for line in reversed(lines) if line.startswith(("FAILED ", "ERROR "))), "")
    return result, failed.partition(" - ")[0], round(time.monotonic() - began, 1)


def judge(mutant: Mutant, trees: queue.Queue[Path], limits: dict[str, float]) -> Mutant:
    """Apply a mutant to a free copy, run the tests, and undo it; return it with its result."""
    tree = trees.get()
    place = tree / "src/sight" / mutant.file
    source = place.read_text("utf-8")
    try:
        place.write_text(source[: mutant.start] + mutant.text + source[mutant.end :], "utf-8")
        result, failed, seconds = run_tests(tree, mutant.file, limits[mutant.file])
    finally:
        place.write_text(source, "utf-8")
        trees.put(tree)
    result = {"passed": "survived", "failed": "killed"}.get(result, result)
    print(f"{result:9} {seconds:6.1f} s  {mutant.file}:{mutant.line} {mutant.kind} {failed}", flush=True)
    return replace(mutant, result=result, failed=failed, seconds=seconds)


def time_limits(files: list[str], trees: queue.Queue[Path], pool: ThreadPoolExecutor) -> dict[str, float]:
    """Run the tests of each target unchanged; return five times their seconds, and at least two minutes."""

    def unchanged(file: str) -> float:
        tree = trees.get()
        try:
            result, failed, seconds = run_tests(tree, file, 900)
        finally:
            trees.put(tree)
        if result != "passed":
            raise SystemExit(f"The tests of {file} do not pass unchanged ({result}): {failed}")
        print(f"unchanged {seconds:6.1f} s  {file}", flush=True)
        return max(5 * seconds, 120)

    groups = {TARGETS[file]: file for file in files}
    limits = dict(zip(groups, pool.map(unchanged, groups.values()), strict=True))
    return {file: limits[TARGETS[file]] for file in files}


def known_equivalent() -> set[tuple[str, str, str]]:
    """Return file, line before and line after of each mutant that is known to be equivalent."""
    entries = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return {(entry["file"], entry["before"], entry["after"]) for entry in entries}


def read_results(path: Path | None) -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """Return the rows of an earlier run that were killed, by file, line before, line after and place."""
    rows = [] if path is None else json.loads(path.read_text("utf-8"))["mutants"]
    killed = (row for row in rows if row["result"] in ("killed", "timeout"))
    return {(row["file"], row["before"], row["after"], row["start"]): row for row in killed}


def copies(number: int, folder: Path) -> queue.Queue[Path]:
    """Return a queue of copies of the repository's code and tests."""
    trees: queue.Queue[Path] = queue.Queue()
    for i in range(number):
        for part in ("src", "tests", "tools", "docs", "benchmarks", "pyproject.toml", "README.md"):
            copy_part = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            (folder / str(i)).mkdir(parents=True, exist_ok=True)
            copy_part(ROOT / part, folder / str(i) / part)
        trees.put(folder / str(i))
    return trees


def main() -> None:
    """Run a sample and write the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=120, help="size of the sample")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a target's path")
    parser.add_argument("--again", type=Path, help="results of an earlier run; what it killed is not run again")
    parser.add_argument("-o", type=Path, default=ROOT / "out" / "mutants.json")
    options = parser.parse_args()
    chosen = sample({file: tests for file, tests in TARGETS.items() if options.only in file}, options.n, options.seed)
    known, earlier = known_equivalent(), read_results(options.again)
    results, waiting = [], []
    for mutant in chosen:
        key = (mutant.file, mutant.before, mutant.after)
        if key in known:
            results.append(replace(mutant, result="equivalent"))
        elif (*key, mutant.start) in earlier:
            results.append(Mutant(**earlier[*key, mutant.start]))
        else:
            waiting.append(mutant)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        trees = copies(options.jobs, Path(folder))
        limits = time_limits(list(dict.fromkeys(mutant.file for mutant in waiting)), trees, pool)
        results += pool.map(lambda mutant: judge(mutant, trees, limits), waiting)
    counts = Counter(mutant.result for mutant in results)
    killed = counts["killed"] + counts["timeout"]
    summary = {"seed": options.seed, "sample": len(results), **counts}
    summary["killed_share"] = round(killed / max(killed + counts["survived"], 1), 3)
    options.o.parent.mkdir(parents=True, exist_ok=True)
    options.o.write_text(json.dumps({**summary, "mutants": [asdict(mutant) for mutant in results]}, indent=1) + "\n")
    for mutant in results:
        if mutant.result == "survived":
            print(f"\n{mutant.file}:{mutant.line} {mutant.kind}\n- {mutant.before}\n+ {mutant.after}")
    print("\n" + ", ".join(f"{name} {value}" for name, value in summary.items()))


if __name__ == "__main__":
    main()
