"""Bundled models: names, cards, and their use without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sight
from sight.apps.cli import app
from sight.models.bundled import FOLDER, names, resolve

ABOUT = (
    "title",
    "placement",
    "licence",
    "citation",
    "homepage",
    "label_map",
    "subjects",
    "augmentation",
    "scores",
    "limits",
)


def test_a_name_is_a_bundled_model_and_a_path_is_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wrist").mkdir()
    assert resolve("wrist") == FOLDER / "wrist.onnx"
    assert resolve("wrist.onnx") == Path("wrist.onnx")
    assert resolve("models/wrist") == Path("models/wrist")
    with pytest.raises(ValueError, match="Did you mean 'wrist'"):
        resolve("wirst")


@pytest.mark.parametrize("name", names())
def test_a_bundled_model_is_small_and_its_card_complete(name):
    source = sight.load(name)
    assert resolve(name).stat().st_size <= 1.5e6
    assert set(ABOUT) <= set(source.card.about)
    assert source.stats.subjects == len(source.card.training["subjects"])
    assert sorted({c for c in source.card.about["label_map"].values() if c}) == sorted(source.classes)
    assert {"none", "sticky", "keel"} <= set(source.card.about["scores"])
    z, p = source.encode(np.zeros((1, len(source.card.channels), source.card.length), np.float32))
    assert np.isfinite(z).all()
    assert p.sum() == pytest.approx(1, abs=1e-5)


def test_commands_list_and_describe_models(tmp_path):
    run = CliRunner().invoke
    listed = run(app, ["models", "list"], env={"COLUMNS": "200"}).output
    assert all(name in listed for name in names())
    facts = json.loads(run(app, ["models", "info", "wrist", "--json"]).output)
    assert facts["classes"] == list(sight.load("wrist").classes)
    assert run(app, ["export", "wrist", "-o", str(tmp_path / "w.onnx")]).exit_code == 0
    assert (tmp_path / "w.onnx").read_bytes() == resolve("wrist").read_bytes()
