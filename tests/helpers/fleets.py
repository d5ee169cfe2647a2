"""Exported models for tests of fleets, and options that run them."""

from __future__ import annotations

from sight._util.hashing import file_sha256
from sight.apps.fleet.fleet_model import FleetOptions, load_fleet_model
from sight.models.export.onnx import export_onnx
from sight.testing import toy_network

#: A model, and the same one retrained.
MODELS = {"first": {}, "retrained": {"seed": 1}}


def export_models(folder, *names):
    """Export models of `MODELS` and return their paths by name."""
    return {name: export_onnx(toy_network(**MODELS[name]), folder / f"{name}.onnx") for name in names}


def load_model(path, method="sight", **fields):
    """Load a model with a method for a fleet."""
    return load_fleet_model(FleetOptions(path=str(path), digest=file_sha256(path), method=method, **fields))
