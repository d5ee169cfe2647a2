"""Keel with normalisation that follows the wearer: running statistics in the encoder, without gradients."""

from sight.methods.keel_norm.method import KeelNorm

__all__ = ["KeelNorm"]
