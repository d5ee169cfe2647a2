"""Keel with normalisation that follows the wearer: class-conditional statistics in the encoder, without gradients."""

from sight.methods.keel_norm.method import KeelNorm

__all__ = ["KeelNorm"]
