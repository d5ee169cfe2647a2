"""SIGHT: surprise-induced geometric hierarchical tracking."""

from sight.methods.sight.method import SIGHT
from sight.methods.sight.state import from_half, to_half

__all__ = ["SIGHT", "from_half", "to_half"]
