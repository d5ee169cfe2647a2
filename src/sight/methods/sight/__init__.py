"""SIGHT: surprise-induced geometric hierarchical tracking."""

from sight.methods.sight.method import SIGHT

__all__ = ["SIGHT"]
