"""Every Python example of docs/python.md runs, in order, and shows what the page says."""

from __future__ import annotations

import re

import pytest

import sight
from tests.conftest import ROOT
from tests.helpers.commands import run_sight
from tests.helpers.onnx_files import keras_like


@pytest.mark.long
def test_the_examples_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    keras_like(tmp_path / "keras.onnx")
    page, names = (ROOT / "docs" / "python.md").read_text("utf-8"), {}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(example, "docs/python.md", "exec"), names)
    printed = capsys.readouterr().out
    raw, refined = map(float, re.search(r"accuracy ([\d.]+) raw, ([\d.]+) refined", printed).groups())
    assert refined > raw
    assert sight.compare(names["results"]).mean > 0
    command = re.search(r"```sh\nsight (.*?)\n```", page)[1].split()
    run_sight(*command, "--option", "hours=0.05")
    assert (tmp_path / "out" / "info.json").exists()
    assert sight.load("keras_with_card.onnx").card.length == 20
