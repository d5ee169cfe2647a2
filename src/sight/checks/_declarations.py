"""Checks of what a method declares, and of how it refuses invalid input."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sight.base import Adapter, Needs, OutputAdapter
from sight.checks._case import Case, CheckFailed, chunk_size, parts, predict
from sight.models.given_features import FeatureSource
from sight.params import parse


def unbound(case: Case) -> None:
    """Check that a method that is used before `bind` raises a RuntimeError that names bind."""
    adapter = case.unbound()
    if hasattr(adapter, "_source"):
        raise CheckFailed(f"{adapter.name}: is bound by its constructor; only bind may set the source.")
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
            case.require("bind" in str(error), f"{name} before bind raises {str(error)!r}; name bind(source) in it.")
        else:
            raise CheckFailed(f"{adapter.name}: {name} before bind does not fail; raise a RuntimeError.")


def bad_input(case: Case) -> None:
    """Check that NaN, infinity and wrong shapes are refused with a ValueError before any state changes."""
    adapter = case.fresh()
    good = case.x[: chunk_size(adapter, case.x)]
    adapter.step(good)
    bad = [good.copy(), good.copy()]
    bad[0][-1, 0, 0], bad[1][0, -1, -1] = np.nan, np.inf
    channels = np.concatenate([good, good[:, :1]], axis=1)
    attempts: dict[str, Callable[[], Any]] = {
        "a window with NaN": lambda: adapter.step(bad[0]),
        "a window with infinity": lambda: adapter.step(bad[1]),
        "windows without a channel axis": lambda: adapter.step(good[:, 0]),
        "windows with an additional channel": lambda: adapter.step(channels),
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
        case.require_refusal(adapter, what, attempt)


def unused_features(case: Case) -> None:
    """Check that a method that does not require features predicts the same without them."""
    adapter = case.unbound()
    if not isinstance(adapter, OutputAdapter) or adapter.needs.features == "required":
        return
    adapter.bind(FeatureSource(case.source.weight, case.source.bias, case.source.classes))
    z, p = case.source.encode(case.x)
    case.require_same(
        adapter.refine(z, p),
        adapter.reset().refine(np.zeros_like(z), p),
        "with other features",
        f"its needs declare features={adapter.needs.features!r}",
    )


def half_life(case: Case) -> None:
    """Check that an invalid `gap_half_life_s` is refused, and that a valid one leads to valid predictions."""
    if "gap_half_life_s" not in case.adapter.params():
        return
    adapter = case.fresh()
    for wrong in (-5.0, 0.0, float("nan")):
        what = f"gap_half_life_s={wrong}"
        message = case.require_refusal(adapter, what, partial(adapter.clone, gap_half_life_s=wrong))
        case.require(
            "expected" in message and "got" in message,
            f"refuses {what} with {message!r}; state what was expected and what was got.",
        )
    head, tail = parts(case.x, 2)
    for right in (None, 45.0):
        adapter = case.fresh().clone(gap_half_life_s=right)
        predict(adapter, head)
        adapter.gap(30.0)
        q = predict(adapter, tail)
        case.require_probabilities(q, len(tail), f"after a gap, with gap_half_life_s={right}")


def params_as_text(case: Case) -> None:
    """Check that hyper-parameters are fields that can be written as text and read again."""
    values = case.adapter.params()
    texts = [f"{key}={'none' if value is None else value}" for key, value in values.items()]
    again = type(case.adapter)(**parse(type(case.adapter), texts))
    case.require(
        again.params() == values,
        f"has parameters {values} that are read from text as {again.params()}; annotate fields as bool, int, float, "
        f"str, Literal or None, and store them unchanged.",
    )


def declaration(case: Case) -> None:
    """Check that name, needs and a docstring that explains each field exist and agree with the behaviour."""
    kind, needs = type(case.adapter), case.adapter.needs
    case.require(bool(getattr(kind, "name", "")), "has no name; give the class a `name`.")
    declared = any("needs" in vars(base) for base in kind.__mro__ if base not in (Adapter, OutputAdapter))
    case.require(
        declared and isinstance(needs, Needs), "declares no needs; write `needs: ClassVar[Needs] = Needs(...)`."
    )
    case.require(
        needs.batch or case.rules()[0].fresh().chunk is None,
        "works in chunks but does not declare it; write Needs(batch=True).",
    )
    for key, value in (("source_stats", needs.source_stats), ("features", needs.features)):
        known = value in ("no", "optional", "required")
        case.require(known, f"declares {key}={value!r}; use 'no', 'optional' or 'required'.")
    # A dataclass without a docstring has its signature as docstring.
    own = kind.__doc__ or ""
    case.require(bool(own) and not own.startswith(f"{kind.__name__}("), "has no docstring; say what it assumes.")
    texts = " ".join(base.__doc__ or "" for base in kind.__mro__)
    missing = [key for key in case.adapter.params() if not re.search(rf"\b{key}\b", texts)]
    case.require(not missing, f"does not explain {', '.join(missing)} in its docstring.")
