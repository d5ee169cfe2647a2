"""Every method on one real subject, through the command line, within a minute in total."""

from __future__ import annotations

import json
import time

import pytest
from typer.testing import CliRunner

from sight import registry
from sight.cli import app


@pytest.mark.long
@pytest.mark.real
@pytest.mark.timeout(600)
def test_every_method_runs_on_a_real_stream(real, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(real("hapt.zip").parent))
    model = tmp_path / "model.safetensors"
    options = ["--option", "protocol=ucihar"]
    words = ["train", "--data", "hapt", *options, "--subjects", "1", "--epochs", "3", "--fisher", "-o", str(model)]
    assert CliRunner().invoke(app, words).exit_code == 0
    began = time.process_time()
    for name in registry.names("methods"):
        result = CliRunner().invoke(
            app, ["adapt", "hapt:2", "-m", str(model), "--method", name, "-o", str(tmp_path / name)]
        )
        assert result.exit_code == 0, f"{name}: {result.output}"
        assert json.loads((tmp_path / name / "info.json").read_text())["method"] == name
    assert time.process_time() - began < 60
