"""Exported models for tests of fleets, and plans that run them."""

from __future__ import annotations

from sight.apps.fleet.plan import Plan, file_digest, load_plan
from sight.models.export.onnx import export_onnx
from sight.testing import toy_network

#: A model, and the same one retrained.
MODELS = {"first": {}, "retrained": {"seed": 1}}


def export_models(folder, *names):
    """Export models of `MODELS` and return their paths by name."""
    return {name: export_onnx(toy_network(**MODELS[name]), folder / f"{name}.onnx") for name in names}


def load_model(path, method="sight", **fields):
    """Load a model with a method for a fleet."""
    return load_plan(Plan(path=str(path), digest=file_digest(path), method=method, **fields))
