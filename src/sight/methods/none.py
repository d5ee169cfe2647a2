"""The source model without adaptation, the reference of every comparison."""

from dataclasses import dataclass
from typing import ClassVar

from sight.base import Needs, OutputAdapter
from sight.types import Array


@dataclass(kw_only=True)
class SourceOnly(OutputAdapter):
    """Returns the probabilities of the source unchanged.

    Examples
    --------
    >>> import numpy as np, sight
    >>> sight.refine(np.ones((1, 3)), np.array([[0.9, 0.1]]), np.eye(2, 3), method="none")
    array([[0.9, 0.1]])
    """

    name: ClassVar[str] = "none"
    needs: ClassVar[Needs] = Needs(features="no", gap="ignored")

    def _reset(self) -> None:
        pass

    def _max_state_bytes(self, head: Array) -> int:  # noqa: ARG002 - there is no state
        return 0

    def _refine(self, z: Array, p: Array) -> Array:  # noqa: ARG002 - features are not used
        return p.copy()
