"""Live: samples of one wearer in, answers out; the same as offline, sample for sample and bit for bit."""

from sight.stream.session import Session

__all__ = ["Session"]
