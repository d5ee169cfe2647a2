"""Exported models for tests of fleets, and plans that run them."""

from __future__ import annotations

from sight.fleet.plan import Plan, digest, load
from sight.sources.onnx_export import export_onnx
from sight.testing import toy_network

#: One model, the same trained anew, one with other classes, one with other features.
KINDS = {"first": {}, "retrained": {"seed": 1}, "classes": {"classes": 4}, "features": {"encoder": "resnet"}}


def exported(folder, *names):
    return {name: export_onnx(toy_network(**KINDS[name]), folder / f"{name}.onnx") for name in names}


def planned(path, method="sight", **fields):
    return load(Plan(path=str(path), digest=digest(path), method=method, **fields))
