"""A compiled and exportable method needs nothing but its own package and its name in the registry."""

from __future__ import annotations

import importlib
import math
import sys
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("numba")

from sight import registry
from sight._util.code_hash import class_fingerprint
from sight.apps.cli import app
from sight.apps.fleet import shard_state
from sight.apps.fleet.shard import Rows, advance
from sight.checks import check_adapter
from sight.models.export.onnx import export_onnx
from sight.models.fused_model import FusedSession
from sight.results.prediction_loop import run
from sight.testing import ToySource, toy_network, toy_stream
from tests.helpers.fleets import load_model

FILES = {
    "__init__": "from blend.method import Blend\n",
    "method": '''
        from dataclasses import dataclass
        from typing import ClassVar

        from sight.base import Needs
        from sight.methods.compiled import CompiledAdapter, StateLayout
        from sight.params import GapHalfLife, UnitInterval


        @dataclass(kw_only=True)
        class Blend(CompiledAdapter):
            """Multiplies probabilities with a prior that the class stayed.

            Parameters
            ----------
            rate
                Probability of a change.
            gap_half_life_s
                Half-life of the belief over a gap.
            """

            name: ClassVar[str] = "blend"
            needs: ClassVar[Needs] = Needs(gap="belief relaxes")
            change_trace: ClassVar[str | None] = "surprise"
            layout: ClassVar[StateLayout] = StateLayout(
                entries={"belief": "K", "sums": "K", "count": "int"}, frequencies="sums", means={"sums": "count"}
            )
            trace_names: ClassVar[tuple[str, ...]] = ("surprise",)
            numpy_step: ClassVar[str] = "blend.reference:step"
            numba_step: ClassVar[str] = "blend.compiled:advance"
            fused_step: ClassVar[str | None] = "blend.fused:BlendStep"
            rate: UnitInterval = 0.1
            gap_half_life_s: GapHalfLife = 30.0

            def _constants(self):
                return (float(self.rate),)

            def _initial(self):
                return {"belief": 1 / self.n_classes}
        ''',
    "reference": """
        def step(z, p, arrays, rate):
            belief, sums = arrays.vectors
            joint = p * ((1 - rate) * belief + rate / len(p))
            belief[:] = joint / joint.sum()
            sums += belief
            arrays.numbers[0] += 1
            return belief, (rate,)
        """,
    "compiled": """
        import numpy as np

        from sight.methods.compiled import contiguous, exact


        @exact
        def _advance(p, vectors, numbers, rows, rate, q):
            span = len(p) // max(len(rows), 1)
            for n in range(len(p)):
                r = rows[n // span]
                total = 0.0
                for k in range(p.shape[1]):
                    q[n, k] = p[n, k] * ((1 - rate) * vectors[r, 0, k] + rate / p.shape[1])
                    total += q[n, k]
                for k in range(p.shape[1]):
                    q[n, k] /= total
                    vectors[r, 0, k] = q[n, k]
                    vectors[r, 1, k] += q[n, k]
                numbers[r, 0] += 1


        def advance(z, p, arrays, rows, rate):
            q = np.empty_like(p)
            _advance(contiguous(p), arrays.vectors, arrays.numbers, np.asarray(rows), rate, q)
            return q, np.full((len(p), 1), rate, p.dtype)
        """,
    "fused": """
        import torch

        from sight.methods.compiled import FusedStep


        class BlendStep(FusedStep):
            def __init__(self, network, adapter):
                super().__init__(network, adapter)
                (self.rate,) = adapter.constants

            def forward(self, x, belief, sums, count):
                _, p = self.encode(x)
                classes, fresh = p.shape[1], count == 0
                belief, sums = torch.where(fresh, 1 / classes, belief), torch.where(fresh, 0.0, sums)
                joint = p[0] * ((1 - self.rate) * belief + self.rate / classes)
                q = joint / joint.sum()
                mean = sums + (q - sums) / (count + 1)
                return q[None], p, torch.full_like(q[:1], self.rate), q, mean, count + 1
        """,
}


@pytest.fixture(scope="module")
def method(tmp_path_factory):
    """Write the package, make it importable and register it under its name."""
    folder = tmp_path_factory.mktemp("package") / "blend"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder.parent)
        patch.setitem(registry.TABLES["methods"], "blend", "blend:Blend")
        importlib.invalidate_caches()
        yield registry.get("methods", "blend")
    for name in [name for name in sys.modules if name.partition(".")[0] == "blend"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def files(method, tmp_path_factory):
    """Return a checkpoint, its plain export and its fused export by the command."""
    folder = tmp_path_factory.mktemp("models")
    source = toy_network()
    source.save(folder / "model.safetensors")
    arguments = ["export", str(folder / "model.safetensors"), "--fused", "--method", "blend", "--set", "rate=0.2"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(folder / "fused.onnx")])
    assert result.exit_code == 0, result.output
    return source, export_onnx(source, folder / "plain.onnx"), folder / "fused.onnx"


def test_it_passes_the_checks_with_its_compiled_step(method):
    check_adapter(method())
    assert method().bind(ToySource()).backend.name == "numba"
    assert class_fingerprint(method)


def test_it_runs_as_a_fused_graph(method, files):
    source, _, path = files
    session, x = FusedSession(path), toy_stream(n=60).x
    adapter = method(rate=0.2).bind(source)
    q = np.array([session.step(window)[0] for window in x])
    np.testing.assert_allclose(q, adapter.step(x), atol=1e-5)
    for name, value in adapter.state().items():
        np.testing.assert_allclose(session.state()[name], value, rtol=1e-4, atol=1e-4)


def test_it_serves_a_fleet(method, files):
    model = load_model(files[1], method="blend")
    z, p = model.source.encode(toy_stream(n=20).x)
    shard = shard_state.empty(model)
    rows = Rows(np.array(["w"] * 20, object), np.arange(20), np.arange(20.0), {"z": list(z), "p": list(p)})
    predicted, _ = advance(shard, rows, model)
    assert shard_state.unpack(shard_state.pack(shard, model), model)[1] == "same"
    np.testing.assert_array_equal(np.stack(predicted["q"]), method().bind(model.source).refine(z, p))


def test_its_predictions_can_be_smoothed(method):
    source = ToySource()
    result = run(method().bind(source), toy_stream(source, n=100, noise=3.0), lag=math.inf)
    assert result.rule == "whole recording"
    np.testing.assert_allclose(result.q.sum(axis=1), 1, atol=1e-5)


def test_capabilities_are_listed_in_errors(method, files, tmp_path):
    for capability in ("fused_step", "change_trace", "many"):
        assert "blend" in registry.supporting(capability)
    arguments = ["export", str(files[1].with_name("model.safetensors")), "--fused", "--method", "ema"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "fused.onnx")])
    assert result.exit_code == 2
    assert " or ".join(registry.supporting("fused_step")) in " ".join(result.output.split())
