"""Promises about manners: what a method says of itself, and how it refuses what it cannot work with."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sight.base import Adapter, Needs, OutputAdapter
from sight.checks._harness import Case, CheckFailed, answers, parts, probable, refuses, size_of_piece
from sight.params import parse


def unbound(case: Case) -> None:
    """Promise: used before `bind`, a method says what to do."""
    adapter = case.unbound()
    if hasattr(adapter, "_source"):
        raise CheckFailed(f"{adapter.name}: is bound by its constructor; let bind alone set the source.")
    uses: dict[str, Callable[[], Any]] = {
        "step": lambda: adapter.step(case.x),
        "peek": lambda: adapter.peek(case.x),
        "reset": adapter.reset,
        "state": adapter.state,
        "gap": lambda: adapter.gap(1.0),
    }
    for name, use in uses.items():
        try:
            use()
        except RuntimeError as error:
            case.demand(
                "bind" in str(error), f"{name} before bind says {str(error)!r}; tell to call bind(source) first."
            )
        else:
            raise CheckFailed(
                f"{adapter.name}: {name} before bind does not fail; raise a RuntimeError that names bind."
            )


def bad_input(case: Case) -> None:
    """Promise: NaN, infinity and wrong shapes are refused with a ValueError before anything changes."""
    adapter = case.fresh()
    good = case.x[: size_of_piece(adapter, case.x)]
    adapter.step(good)
    spoilt = [good.copy(), good.copy()]
    spoilt[0][-1, 0, 0], spoilt[1][0, -1, -1] = np.nan, np.inf
    channels = np.concatenate([good, good[:, :1]], axis=1)
    attempts: dict[str, Callable[[], Any]] = {
        "a window with NaN": lambda: adapter.step(spoilt[0]),
        "a window with infinity": lambda: adapter.step(spoilt[1]),
        "windows without a channel axis": lambda: adapter.step(good[:, 0]),
        "windows with a channel too many": lambda: adapter.step(channels),
    }
    if isinstance(adapter, OutputAdapter):
        z, p = case.source.encode(good)
        attempts |= {
            "features of another size": lambda: adapter.refine(z[:, :-1], p),
            "probabilities of another K": lambda: adapter.refine(z, p[:, :-1]),
            "a single window without its axis": lambda: adapter.refine(z[0], p[0]),
            "logits instead of probabilities": lambda: adapter.refine(z, 3 * p),
            "a feature that is NaN": lambda: adapter.refine(np.full_like(z, np.nan), p),
        }
    for what, attempt in attempts.items():
        refuses(case, adapter, what, attempt)


def half_life(case: Case) -> None:
    """Promise: a `gap_half_life_s` that cannot be is refused; with a time, or None, answers after a gap are valid."""
    if "gap_half_life_s" not in case.adapter.params():
        return
    adapter = case.fresh()
    for wrong in (-5.0, 0.0, float("nan")):
        told = refuses(case, adapter, f"gap_half_life_s={wrong}", partial(adapter.clone, gap_half_life_s=wrong))
        case.demand(
            "expected" in told and "got" in told,
            f"refuses gap_half_life_s={wrong} with {told!r}; say expected and got.",
        )
    head, tail = parts(case.x, 2)
    for right in (None, 45.0):
        adapter = case.fresh().clone(gap_half_life_s=right)
        answers(adapter, head)
        adapter.gap(30.0)
        probable(case, answers(adapter, tail), len(tail), f"after a gap, with gap_half_life_s={right}")


def settings(case: Case) -> None:
    """Promise: settings are fields, and go through text and back."""
    values = case.adapter.params()
    texts = [f"{key}={'none' if value is None else value}" for key, value in values.items()]
    again = type(case.adapter)(**parse(type(case.adapter), texts))
    case.demand(
        again.params() == values,
        f"has settings {values} that come back from text as {again.params()}; annotate fields as bool, int, float, "
        f"str, Literal or None, and store them unchanged.",
    )


def declaration(case: Case) -> None:
    """Promise: name, needs and a docstring that explains each setting are there, and agree with what it does."""
    kind, needs = type(case.adapter), case.adapter.needs
    case.demand(bool(getattr(kind, "name", "")), "has no name; give the class a `name`.")
    declared = any("needs" in vars(base) for base in kind.__mro__ if base not in (Adapter, OutputAdapter))
    case.demand(
        declared and isinstance(needs, Needs), "declares no needs; write `needs: ClassVar[Needs] = Needs(...)`."
    )
    case.demand(
        needs.batch or case.rules()[0].fresh().chunk is None,
        "works in chunks but does not declare it; write Needs(batch=True).",
    )
    case.demand(
        needs.source_stats in ("no", "optional", "required"),
        f"declares source_stats={needs.source_stats!r}; say 'no', 'optional' or 'required'.",
    )
    # A dataclass without a docstring is given its signature for one.
    own = kind.__doc__ or ""
    case.demand(bool(own) and not own.startswith(f"{kind.__name__}("), "has no docstring; say what it believes.")
    told = " ".join(base.__doc__ or "" for base in kind.__mro__)
    missing = [key for key in case.adapter.params() if not re.search(rf"\b{key}\b", told)]
    case.demand(not missing, f"does not explain {', '.join(missing)} in its docstring.")
