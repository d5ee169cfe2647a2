"""A model, a folder of recordings, and the results of a run over them."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from tests.helpers.cohorts import READABLE, write_cohort, write_folder, write_model


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "model.safetensors")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("folder") / "recordings")


@pytest.fixture(scope="session")
def cohort(folder, model, tmp_path_factory):
    """The cohort after one run; tests that change it use a copy."""
    return write_cohort(tmp_path_factory.mktemp("cohort") / "out", folder, model)


@pytest.fixture
def copied(cohort, folder, tmp_path):
    """Copies of the recordings and of the results."""
    shutil.copytree(folder, tmp_path / "recordings")
    shutil.copytree(cohort, tmp_path / "out")
    return tmp_path / "recordings", tmp_path / "out"


@pytest.fixture(scope="module")
def windows(cohort):
    """All windows of the cohort."""
    return pd.concat([pd.read_parquet(cohort / "windows" / f"{name}.parquet") for name in READABLE])
