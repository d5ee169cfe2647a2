"""The contract as checks for anybody's method: what an adapter promises, tried out.

``check_adapter(Mine())`` runs them all; a test suite parametrises over `checks` to see each by name::

    @pytest.mark.parametrize("check", sight.checks.checks(Mine()), ids=str)
    def test_contract(check):
        check()
"""

from __future__ import annotations

from dataclasses import dataclass

from sight.base import Adapter, Source
from sight.checks._behaviour import CHECKS
from sight.checks._harness import Case, CheckFailed
from sight.types import Windows

__all__ = ["CHECKS", "Case", "Check", "CheckFailed", "check_adapter", "checks"]


@dataclass(frozen=True)
class Check:
    """One promise about one method; call it to try it."""

    name: str
    case: Case

    def __call__(self) -> None:
        """Try the promise."""
        CHECKS[self.name](self.case)

    def __str__(self) -> str:
        return self.name


def checks(
    adapter: Adapter, source: Source | None = None, stream: Windows | None = None, twin: Source | None = None
) -> list[Check]:
    """List every check of an adapter as a named callable.

    Examples
    --------
    >>> from sight.methods.ema import EMA
    >>> [str(check) for check in checks(EMA())][:3]
    ['probabilities', 'source_untouched', 'reset']
    """
    adapter = adapter() if isinstance(adapter, type) else adapter
    case = Case(adapter=adapter, given_source=source, given_stream=stream, twin=twin)
    return [Check(name, case) for name in CHECKS]


def check_adapter(
    adapter: Adapter, source: Source | None = None, stream: Windows | None = None, twin: Source | None = None
) -> None:
    """Try everything the contract promises on an adapter; raise `CheckFailed` at the first promise it breaks.

    Parameters
    ----------
    adapter
        The method with the settings to check, or its class; it is cloned, never touched.
    source, stream
        What to check it with; a toy source and a toy stream where None.
    twin
        The same model as `source` in another form, such as its ONNX export; both must lead to the same answers.

    Examples
    --------
    >>> from sight.methods.sticky import Sticky
    >>> check_adapter(Sticky(s=0.5))
    """
    for check in checks(adapter, source, stream, twin):
        check()
