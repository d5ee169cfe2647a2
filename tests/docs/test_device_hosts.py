"""The hosts of docs/onnx.md in JavaScript and C++ predict what the adapter predicts, where a toolchain exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import sight
from tests.conftest import ROOT
from tests.helpers.requirements import program

STATIC = ROOT / "src" / "sight" / "apps" / "serve" / "static"


def sample(language):
    page = (ROOT / "docs" / "onnx.md").read_text("utf-8")
    return re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)[1]


@pytest.fixture(scope="module")
def recording():
    """Samples of the device page's model: time and three channels, with a gap of ten seconds."""
    from sight.models.fused_model import FusedSession

    shape = FusedSession(STATIC / "model.onnx").shape
    rng = np.random.default_rng(0)
    values = np.repeat(rng.normal(size=(12, shape[0])), 100, axis=0) + 0.2 * rng.normal(size=(1200, shape[0]))
    return shape, values


def expected(path, windows, gaps_s):
    from sight.models.fused_model import FusedSession

    session, labels = FusedSession(path), []
    for window, gap_s in zip(windows, gaps_s, strict=True):
        if gap_s:
            session.gap(gap_s)
        labels.append(int(session.step(window)[0].argmax()))
    return labels, session.classes


def test_the_javascript_host(recording, tmp_path):
    node = program("node", package="nodejs")
    from sight.models.card import ModelCard
    from sight.models.onnx import CARD, open_session

    shape, values = recording
    card = ModelCard.from_json(open_session(STATIC / "model.onnx").get_modelmeta().custom_metadata_map[CARD])
    time_s = np.arange(len(values)) / card.rate_hz
    time_s[600:] += 10
    rows = "\n".join(",".join(map(repr, (t, *row))) for t, row in zip(time_s.tolist(), values.tolist(), strict=True))
    for folder in ("js", "vendor"):
        shutil.copytree(STATIC / folder, tmp_path / folder)
    (tmp_path / "host.mjs").write_text(sample("javascript"))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        [node, "host.mjs", str(STATIC / "model.onnx")],
        input=rows,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    starts, windows, gaps_s = [], [], []
    stride = round(card.stride_s * card.rate_hz)
    for first, last in ((0, 600), (600, 1200)):
        begins = range(first, last - shape[1] + 1, stride)
        gaps_s += [time_s[600] - starts[-1] - card.window_s if starts else 0.0] + [0.0] * (len(begins) - 1)
        starts += [time_s[begin] for begin in begins]
        windows += [values[begin : begin + shape[1]].T for begin in begins]
    labels, classes = expected(STATIC / "model.onnx", windows, gaps_s)
    printed = [line.split() for line in done.stdout.splitlines()]
    np.testing.assert_allclose([float(line[0]) for line in printed], starts, atol=0.01)
    assert [" ".join(line[1:-1]) for line in printed] == [classes[k] for k in labels]


@pytest.mark.long
def test_the_cpp_host(recording, tmp_path):
    home = os.environ.get("ORT_HOME")
    if home is None or shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler, and ORT_HOME with the headers and library of ONNX Runtime")
    from sight.models.export import export
    from sight.testing import toy_network, toy_stream

    path = export(toy_network(), tmp_path / "keel.onnx", method=sight.method("keel"))
    windows, gaps_s = toy_stream(n=40).x, np.where(np.arange(40) == 20, 45.0, 0.0)
    (tmp_path / "host.cpp").write_text(sample("cpp"))
    library = Path(home) / "lib"
    flags = ["-I", str(Path(home) / "include"), "-L", str(library), f"-Wl,-rpath,{library}", "-lonnxruntime"]
    subprocess.run(["c++", "-std=c++17", "host.cpp", *flags, "-o", "host"], cwd=tmp_path, check=True)
    lines = [" ".join(map(repr, (gap, *w.ravel().tolist()))) for gap, w in zip(gaps_s.tolist(), windows, strict=True)]
    done = subprocess.run(
        ["./host", str(path)], input="\n".join(lines), capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert list(map(int, done.stdout.split())) == expected(path, windows, gaps_s)[0]
