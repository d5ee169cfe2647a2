"""What is decided when a wearer is created: model, method, params, rate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sight import registry
from sight.base import OutputAdapter
from sight.params import parse
from sight.serve.errors import BadRequest, Conflict
from sight.serve.model_catalog import Model, Models
from sight.serve.wearer_session import Resident

#: Rates that a sensor may have, as multiples of the model's.
SLOWEST, FASTEST = 0.1, 100.0


def enrol(
    wearer: str,
    models: Models,
    model: str | None,
    method: str | None,
    params: Mapping[str, Any] | None,
    rate_hz: float | None,
) -> Resident:
    """Make a new wearer; what is None is the default."""
    chosen = models.get(model)
    name = (method or registry.RECOMMENDED).lower()
    facts = {
        "model": chosen.id,
        "method": name,
        "params": resolved(name, params or {}),
        "rate_hz": _rate(rate_hz, chosen),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return started(wearer, facts, chosen)


def started(wearer: str, facts: Mapping[str, Any], model: Model) -> Resident:
    """Make a wearer who has sent nothing yet."""
    try:
        return Resident(wearer, facts, model)
    except (ValueError, TypeError) as error:
        raise BadRequest(f"{wearer}: {error}") from None


def agree(
    facts: Mapping[str, Any],
    models: Models,
    model: str | None,
    method: str | None,
    params: Mapping[str, Any] | None,
    rate_hz: float | None,
) -> None:
    """Refuse what contradicts the facts of a wearer who exists; None agrees with anything."""
    asked: dict[str, Any] = {}
    if model is not None:
        same_name = facts["model"].partition("@")[0] == model
        asked["model"] = facts["model"] if same_name else models.get(model).id
    if method is not None:
        asked["method"] = method.lower()
    if params or method is not None:
        asked["params"] = resolved(asked.get("method", facts["method"]), params or {})
    if rate_hz is not None:
        asked["rate_hz"] = float(rate_hz)
    differing = [f"{key} is {facts[key]}, not {value}" for key, value in asked.items() if facts[key] != value]
    if differing:
        raise Conflict(f"{facts['wearer']} exists: {'; '.join(differing)}; delete it first, or take another name.")


def resolved(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Check params against the method's fields, and fill in its defaults, which a later version may change."""
    try:
        cls = registry.get("methods", method)
        given = parse(cls, [f"{key}={value}" for key, value in params.items()])
        adapter = cls(**given)
    except (ValueError, TypeError, ModuleNotFoundError) as error:
        raise BadRequest(f"method {method!r}: {error}") from None
    if not isinstance(adapter, OutputAdapter):
        raise BadRequest(
            f"{method} adapts the network itself, which the service shares; take one such as sight or keel."
        )
    return adapter.params()


def _rate(rate_hz: float | None, model: Model) -> float:
    own = model.card.rate_hz
    if rate_hz is None:
        return own
    if not SLOWEST * own <= rate_hz <= FASTEST * own:
        raise BadRequest(
            f"Expected a rate between {SLOWEST * own:g} and {FASTEST * own:g} Hz for a model at {own:g} Hz, "
            f"got {rate_hz:g}; check the unit."
        )
    return float(rate_hz)
