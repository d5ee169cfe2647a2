"""Trained classifiers behind one contract: torch, ONNX, cached features; one file format for all."""

from __future__ import annotations

from sight.sources.features import FeatureSource

__all__ = ["FeatureSource"]
