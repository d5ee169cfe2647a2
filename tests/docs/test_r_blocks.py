"""Every R block of the docs is run by Rscript on files that the commands of the page write."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.docs.test_code_blocks import PAGES, blocks
from tests.helpers.commands import run_sight
from tests.helpers.requirements import program

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
R_PAGES = [page for page in [*PAGES, ROOT / "GLOSSARY.md"] if blocks(page, ("r", "R"))]
#: Days, samples a second, and participants of the study.
DAYS, RATE_HZ, PEOPLE = 6, 20, 3


def write_week(path, seed):
    """Write a recording from a Monday morning: still nights from 23:00 to 7:00, steps for some minutes of an hour."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    seconds = np.arange(DAYS * 86400 * RATE_HZ) / RATE_HZ
    hour = (9 + seconds / 3600) % 24
    asleep = (hour >= 23) | (hour < 7)
    moving = rng.normal(0, 0.5, len(seconds) // 100 + 1).repeat(100)[: len(seconds)]
    arm = np.where(asleep, 0.6 * np.sin(seconds // 1500 * 17.0), moving)
    values = np.stack([np.cos(arm), np.zeros(len(arm)), np.sin(arm)], axis=1) + rng.normal(0, 0.02, (len(arm), 3))
    steps = ~asleep & (seconds % 3600 < 400 + 300 * (seed % 2))
    values[steps] *= 1 + 0.5 * np.sin(2 * np.pi * 1.8 * seconds[steps])[:, None]
    table = pd.DataFrame(values.astype(np.float32), columns=["x", "y", "z"])
    start = pd.Timestamp("2025-03-03 09:00", tz="Europe/Vienna")
    table.insert(0, "time", start + pd.to_timedelta(seconds, unit="s"))
    table.to_parquet(path)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a folder with the results of one recording and of a cohort, named as on the pages."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "recordings").mkdir()
    lines = ["recording,age,sex"]
    for number in range(1, PEOPLE + 1):
        write_week(folder / "recordings" / f"P0{number}.parquet", number)
        lines.append(f"P0{number},{30 + 7 * number},f")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    options = ("-m", "wrist", "--tz", "Europe/Vienna")
    run_sight("adapt", folder / "recordings" / "P01.parquet", *options, "-o", folder / "results" / "P01")
    tables = ("--participants", folder / "people.csv")
    run_sight("cohort", "run", folder / "recordings", *options, "-o", folder / "study", *tables, "--engine", "serial")
    return folder


def run_r(code, folder):
    rscript = program("Rscript", package="r-base-core")
    script = folder / "page.R"
    script.write_text(code)
    # Warnings are errors: R warns where a column is not what the code takes it for.
    command = [rscript, "--vanilla", "-e", "options(warn = 2)", "-e", f"source('{script}', echo = TRUE)"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", R_PAGES, ids=lambda page: page.stem)
def test_r_blocks_run(page, study):
    printed = run_r("\n".join(code for _, _, code in blocks(page, ("r", "R"))), study)
    assert "P01" in printed or page.stem != "week"


def test_base_r_reads_truth_values_and_times(study):
    code = """
    nights <- read.csv("results/P01/nights.csv")
    stopifnot(is.logical(nights$valid), sum(nights$valid) >= 3)
    onset <- as.POSIXct(sub(":(..)$", "\\\\1", nights$onset), format = "%Y-%m-%dT%H:%M:%OS%z", tz = "Europe/Vienna")
    known <- nights$onset != ""
    stopifnot(!any(is.na(onset[known])), all(format(onset[known], "%H") %in% c("22", "23")))
    for (file in Sys.glob(c("results/P01/*.csv", "study/summary/*.csv"))) {
      table <- read.csv(file)
      text <- Filter(is.character, table)
      stopifnot(!any(unlist(text) %in% c("true", "false", "True", "False")))
    }
    daily <- read.csv("study/summary/daily.csv")
    stopifnot(is.logical(daily$valid), is.logical(daily$complete), any(daily$valid))
    """
    run_r(code, study)


def test_an_error_in_a_block_is_noticed(study):
    with pytest.raises(AssertionError, match="object 'nowhere' not found"):
        run_r("print(nowhere)", study)
