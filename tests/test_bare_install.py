"""The base install alone, and the base install with data packages but without torch."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.conftest import ROOT
from tests.helpers.requirements import missing

BARE = ROOT / ".venv-bare" / "bin" / "python"


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    """Return an exported model, which the base install must be able to run."""
    from sight.models.export.onnx import export_onnx
    from sight.testing import toy_network

    return export_onnx(toy_network("cnn"), tmp_path_factory.mktemp("onnx") / "model.onnx")


def run(python, code, *arguments):
    done = subprocess.run(
        [str(python), "-c", textwrap.dedent(code), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def bare():
    if not BARE.exists():
        missing("the base environment is not here; `make test` makes it")
    return BARE


def test_the_base_install_has_no_optional_package(bare):
    run(
        bare,
        """
        import importlib.util
        for name in ("torch", "numba", "pandas", "scipy", "pyarrow", "onnx"):
            assert importlib.util.find_spec(name) is None, name
        """,
    )


def test_the_base_install_runs_a_bundled_model(bare):
    run(
        bare,
        """
        import numpy as np, sight
        source = sight.load("wrist")
        adapter = sight.method("keel").bind(source)
        x = np.zeros((2, 3, source.card.length), np.float32)
        assert adapter.step(x).shape == (2, len(source.classes))
        """,
    )


def test_the_base_install_refines_and_steps_an_onnx_model(bare, onnx):
    run(
        bare,
        """
        import sys
        import numpy as np, sight
        rng = np.random.default_rng(0)
        z, weight = rng.normal(size=(50, 8)), rng.normal(size=(3, 8))
        q = sight.refine(z, np.full((50, 3), 1 / 3), weight, method="sight")
        assert q.shape == (50, 3) and np.allclose(q.sum(axis=1), 1)
        source = sight.load(sys.argv[1])
        adapter = sight.method("sight").bind(source)
        q = adapter.step(rng.normal(size=(4, *source.shape)).astype("float32"))
        assert q.shape == (4, len(source.classes))
        """,
        onnx,
    )


@pytest.mark.parametrize("words", [["--help"], ["methods"], ["datasets"], ["encoders"], ["data", "list"]])
def test_commands_work_on_the_base_install(bare, words):
    done = subprocess.run([str(bare), "-m", "sight", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_demo_runs_on_the_base_install(bare, tmp_path):
    words = ["demo", "--minutes", "2", "--wearer", "W09"]
    done = subprocess.run([str(bare), "-m", "sight", *words], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "keel" in done.stdout
    assert "sight-har[data]" in done.stdout
    assert (tmp_path / "out/demo/model.onnx").exists()


@pytest.mark.parametrize(
    ("words", "extra"),
    [(["export", "x.safetensors"], "train"), (["adapt", "synthetic:W01", "-m", "ONNX"], "data")],
)
def test_commands_name_the_missing_extra(bare, onnx, tmp_path, words, extra):
    (tmp_path / "x.safetensors").write_bytes(b"")
    words = [str(onnx) if word == "ONNX" else word for word in words]
    done = subprocess.run([str(bare), "-m", "sight", *words], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert f"sight-har[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_onnx_source_is_adapted_without_torch(tmp_path):
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic
    from sight.models.export.onnx import export_onnx
    from sight.models.train import train

    dataset = Synthetic(hours=0.05, gaps_per_hour=0)
    facts = {"channels": dataset.channels, "units": dataset.units, "dataset": dataset.name}
    source = train(windows_of(dataset, "W01"), dataset.classes, encoder="cnn", epochs=1, **facts)
    onnx = export_onnx(source, tmp_path / "model.onnx")
    run(
        sys.executable,
        """
        import sys
        for name in ("torch", "onnx", "onnxscript", "numba", "sklearn", "matplotlib", "joblib"):
            sys.modules[name] = None
        from sight.apps.cli import app
        app(["adapt", "synthetic:W02", "-m", sys.argv[1], "-o", sys.argv[2], "--option", "hours=0.05"])
        """,
        onnx,
        tmp_path / "out",
    )
    assert (tmp_path / "out" / "report.html").is_file()
