"""Live predictions for one wearer, bit for bit the same as offline."""

from sight.apps.stream.session import Session

__all__ = ["Session"]
