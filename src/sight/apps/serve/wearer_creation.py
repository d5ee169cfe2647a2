"""Creation of wearers: choice and validation of model, method, hyper-parameters and rate."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sight import registry
from sight.apps.serve.errors import Conflict, Refused
from sight.apps.serve.model_catalogue import Model, ModelCatalogue
from sight.apps.serve.wearer_session import WearerSession
from sight.base import Adapter

#: Accepted rates of a sensor, as multiples of the model's rate.
MIN_RATE, MAX_RATE = 0.1, 100.0


@dataclass(frozen=True, kw_only=True)
class WearerOptions:
    """What can be chosen when a wearer is created; None selects the default."""

    model: str | None = None  # name@version, or a name for its newest version
    method: str | None = None
    params: Mapping[str, Any] | None = None
    rate_hz: float | None = None  # nominal rate of the samples that will be sent; the model's by default

    @property
    def is_default_method(self) -> bool:
        return not self.params and (self.method or registry.RECOMMENDED).lower() == registry.RECOMMENDED

    def config(self, models: ModelCatalogue, state_bytes: int) -> dict[str, Any]:
        """Return the configuration of a new wearer; raise `Refused` if its state may exceed `state_bytes`."""
        model, method = models.get(self.model), (self.method or registry.RECOMMENDED).lower()
        adapter = _make_adapter(method, self.params or {})
        _check_state_size(adapter, model, state_bytes)
        return {
            "model": model.id,
            "method": method,
            "params": adapter.params(),
            "rate_hz": check_rate(self.rate_hz, model),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def check_agreement(self, info: Mapping[str, Any], models: ModelCatalogue) -> None:
        """Raise `Conflict` if the options contradict an existing wearer; None agrees with anything."""
        requested: dict[str, Any] = {}
        if self.model is not None:
            same_name = info["model"].partition("@")[0] == self.model
            requested["model"] = info["model"] if same_name else models.get(self.model).id
        if self.method is not None:
            requested["method"] = self.method.lower()
        if self.params or self.method is not None:
            requested["params"] = _make_adapter(requested.get("method", info["method"]), self.params or {}).params()
        if self.rate_hz is not None:
            requested["rate_hz"] = float(self.rate_hz)
        params = requested.pop("params", {})
        if requested.get("method", info["method"]) == info["method"]:
            requested |= params
        stored = {**info["params"], **info}
        pairs = [(key, stored.get(key), value) for key, value in requested.items()]
        differing = [f"{key} is {old}, not {new}" for key, old, new in pairs if old != new]
        if differing:
            raise Conflict(f"{info['wearer']} exists: {'; '.join(differing)}; delete it first, or use another name.")


def new_session(wearer: str, config: Mapping[str, Any], models: ModelCatalogue) -> WearerSession:
    """Return the session of a wearer that has not sent anything; raise `Refused` if the method does not fit."""
    model = models.get(config["model"])
    try:
        return WearerSession(wearer, config, model)
    except (ValueError, TypeError) as error:
        raise Refused("request", f"{wearer}: {error}") from None


def _make_adapter(method: str, params: Mapping[str, Any]) -> Adapter:
    """Return an adapter without a source; a hyper-parameter that is text is read as on the command line."""
    texts = [f"{key}={value}" for key, value in params.items() if isinstance(value, str)]
    fields = {key: value for key, value in params.items() if not isinstance(value, str)}
    try:
        adapter: Adapter = registry.method(method, assignments=texts, **fields)
    except (ValueError, TypeError, ModuleNotFoundError) as error:
        raise Refused("request", f"method {method!r}: {error}") from None
    if not adapter.served:
        text = f"{method} adapts the network itself, which all wearers share; use a method such as sight or keel."
        raise Refused("request", text)
    return adapter


def _check_state_size(adapter: Adapter, model: Model, limit: int) -> None:
    try:
        size = adapter.max_state_bytes(model.source)
    except TypeError as error:  # the method does not fit the model
        raise Refused("request", str(error)) from None
    if size is None:
        text = f"{adapter.name} does not declare the size of its state; write _max_state_bytes, or use another method."
        raise Refused("state", text)
    if size > limit:
        expected = f"Expected a method that holds at most {limit} bytes for a wearer"
        got = f"{adapter.name} with these params and {model.id} holds up to {size}"
        raise Refused("state", f"{expected}, {got}; choose smaller params, or raise the limit state_bytes.", 413)


def check_rate(rate_hz: float | None, model: Model) -> float:
    """Return the nominal rate of a wearer, by default the model's; raise `Refused` if the model cannot use it."""
    own = model.card.rate_hz
    if rate_hz is None:
        return own
    if not MIN_RATE * own <= rate_hz <= MAX_RATE * own:
        expected = f"between {MIN_RATE * own:g} and {MAX_RATE * own:g} Hz for a model at {own:g} Hz"
        raise Refused("request", f"Expected a rate {expected}, got {rate_hz:g}; check the unit.")
    return float(rate_hz)
