"""Every registered method passes the checks, and the checks fail on methods that violate the contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest

import sight
import sight.methods
from sight.base import Adapter, Needs, OutputAdapter
from sight.checks import CHECKS, Case, CheckFailed, check_adapter, checks
from sight.methods.ops import relax
from sight.params import Range
from sight.registry import TABLES, get, method
from sight.testing import ToySource, toy_network, toy_stream

METHODS = tuple(TABLES["methods"])
TRIVIAL = ("none", "ema", "sticky", "sticky-learned")
#: Checks that depend on the kind of network; tests/methods covers the rest on every network.
ON_NETWORKS = ("probabilities", "source_unchanged", "resume", "peek")


def on_features(name):
    return issubclass(get("methods", name), OutputAdapter)


#: Method, encoder (None for methods on features) and check.
CHECKED = [
    (name, encoder, check)
    for name in METHODS
    for encoder in ((None,) if on_features(name) else ("cnn", "resnet", "transformer"))
    for check in (CHECKS if encoder in (None, "cnn") else ON_NETWORKS)
]


@cache
def network(encoder="cnn", classes=5):
    return toy_network(encoder, classes=classes)


def small(name, **fields):
    """Return a method with small memories and batches, so that it is fast and its memories fill up."""
    values = {"M": 4, "memory": 16, "update_every": 16, "batch": 16, "views": 2}
    return method(name, **({key: value for key, value in values.items() if key in method(name).params()} | fields))


# --- registered methods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "encoder", "check"), CHECKED)
def test_method_passes(name, encoder, check):
    if encoder is None:
        case = Case(adapter=method(name))
    else:
        case = Case(adapter=small(name), given_source=network(encoder), given_stream=toy_stream(n=40))
    CHECKS[check](case)


@pytest.mark.parametrize("name", [name for name in METHODS if on_features(name)])
def test_methods_on_features_declare_the_size_of_their_state(name):
    small_source, large_source = ToySource(classes=3), ToySource(classes=18)
    assert method(name).max_state_bytes(small_source) <= method(name).max_state_bytes(large_source)


@pytest.mark.parametrize("name", [name for name in METHODS if not get("methods", name).needs.gradient])
@pytest.mark.parametrize(("classes", "batch"), [(2, 1), (18, 32)])
def test_any_number_of_classes_and_batch_size(name, classes, batch):
    toy = ToySource(classes=classes)
    source = toy if on_features(name) else network(classes=classes)
    fields = {"batch": batch} if "batch" in method(name).params() else {}
    stream = toy_stream(toy, n=18 if batch == 1 else 70)
    adapter = small(name, **fields).bind(source)
    q = np.concatenate([adapter.step(stream.x[t : t + batch]) for t in range(0, len(stream.x), batch)])
    assert np.isfinite(q).all()
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-4)
    one_class = np.repeat(stream.x[:1], batch, axis=0)
    q = np.concatenate([adapter.step(one_class) for _ in range(3)])
    assert np.isfinite(q).all()


@pytest.mark.parametrize("name", [name for name in METHODS if name not in TRIVIAL])
def test_docstring_has_all_sections(name):
    doc = inspect.getdoc(get("methods", name))
    for section in ("Parameters", "Notes", "Examples", "References"):
        assert f"{section}\n{'-' * len(section)}" in doc, f"{name} has no section {section}"
    assert "Assumes that" in doc
    assert method(name).needs.completed == ("authors' code is not public" in " ".join(doc.split()))


@pytest.mark.parametrize("name", [name for name in METHODS if get("methods", name).served])
def test_torch_and_onnx_lead_to_the_same_predictions(name, onnx_twins):
    twin = onnx_twins[name == "keel-norm"]
    CHECKS["twins"](Case(adapter=method(name), given_source=network("resnet"), twin=twin))


@pytest.fixture(scope="module")
def onnx_twins(tmp_path_factory):
    from sight.models.export.onnx import export_onnx
    from sight.models.onnx import OnnxSource

    folder = tmp_path_factory.mktemp("onnx")
    return [
        OnnxSource(export_onnx(network("resnet"), folder / f"{norms}.onnx", shape=(3, 20), norms=norms))
        for norms in (False, True)
    ]


# --- completeness -------------------------------------------------------------------------------------------------


def test_the_registry_lists_every_method_on_disk():
    found = {}
    for module in pkgutil.iter_modules(sight.methods.__path__, "sight.methods."):
        for value in vars(importlib.import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__.startswith(module.name)
            if own and issubclass(value, Adapter) and "name" in vars(value):
                found[value.name] = f"{module.name}:{value.__name__}"
    assert found == TABLES["methods"]


def test_every_method_is_checked():
    assert {name for name, _, _ in CHECKED} == set(METHODS) == {method(name).name for name in METHODS}
    assert [str(check) for check in checks(method("none"))] == list(CHECKS)


# --- violations ---------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Honest(OutputAdapter):
    """Averages with the previous average, by a weight w."""

    name: ClassVar[str] = "honest"
    needs: ClassVar[Needs] = Needs()
    w: float = 0.5

    def _reset(self):
        self.belief_ = np.full(self.n_classes, 1 / self.n_classes, self.source.weight.dtype)

    def _refine_one(self, z, p):  # noqa: ARG002
        self.belief_ = self.w * self.belief_ + (1 - self.w) * p
        return self.belief_


class Unnormalised(Honest):
    def _refine_one(self, z, p):
        return 2 * super()._refine_one(z, p)


class SourceWriter(Honest):
    def _refine_one(self, z, p):
        self.source.weight[0] += 1
        return super()._refine_one(z, p)


class Growing(Honest):
    def _refine_one(self, z, p):
        self.past_ = np.concatenate([getattr(self, "past_", p[:0]), p])
        return super()._refine_one(z, p)


class Understated(Honest):
    def _max_state_bytes(self, head):
        return min(len(head), 1)


class Unresettable(Honest):
    """Keeps a value that reset does not reach."""

    def _refine_one(self, z, p):
        self._seen = getattr(self, "_seen", 0) + 1
        self.w = 0.5 if self._seen < 20 else 0.9
        return super()._refine_one(z, p)


class Hidden(Honest):
    def _reset(self):
        super()._reset()
        self._memory = np.zeros(self.n_classes)

    def _refine_one(self, z, p):
        self._memory = self._memory + p
        return (super()._refine_one(z, p) + self._memory / self._memory.sum()) / 2


class Noncausal(Honest):
    def _refine(self, z, p):  # noqa: ARG002
        return np.repeat(p.mean(axis=0, keepdims=True), len(p), axis=0)


class Undeclared(Honest):
    """Works in chunks, by a weight w, without declaring it."""

    @property
    def chunk(self):
        return 8


class NotANumber(Honest):
    def _reset(self):
        super()._reset()
        self.last_ = np.zeros(self.source.weight.shape[1])

    def _refine_one(self, z, p):
        moved, self.last_ = not np.array_equal(z, self.last_), z.astype(float)
        return super()._refine_one(z, p) if moved else p * np.nan


class Shared(Honest):
    shared: ClassVar[dict] = {}

    def _reset(self):
        self.shared.clear()
        super()._reset()

    def _refine_one(self, z, p):  # noqa: ARG002
        past = self.shared.get("p", p)
        self.shared["p"] = (past + p) / 2
        return self.shared["p"]


@dataclass(kw_only=True)
class Changer(Honest):
    """Stores another w than it was given."""

    def __post_init__(self):
        self.w = min(self.w * 1.5, 0.9)


class LateCheck(Honest):
    """Changes its state before it checks its windows, by a weight w."""

    def _step(self, x):
        self.belief_ = self.belief_[::-1].copy()
        return super()._step(x)


class Unchecked(Honest):
    def _is_valid(self, z, p):  # noqa: ARG002
        return True


@dataclass(kw_only=True)
class AnyHalfLife(Honest):
    """Accepts any half-life."""

    gap_half_life_s: float | None = 30.0

    def _gap(self, seconds):
        if self.gap_half_life_s:
            self.belief_ = relax(self.belief_, seconds, abs(self.gap_half_life_s))


@dataclass(kw_only=True)
class BadMessage(AnyHalfLife):
    def __post_init__(self):
        if self.gap_half_life_s is not None and not self.gap_half_life_s > 0:
            raise ValueError("no")


@dataclass(kw_only=True)
class NoneRefused(AnyHalfLife):
    """Requires a half-life."""

    gap_half_life_s: Annotated[float, Range(above=0)] = 30.0


@dataclass(kw_only=True)
class UndeclaredRule(Honest):
    """Works in chunks of any size under one of its rules, without declaring it."""

    rule: Literal["window", "whole"] = "window"

    def _refine(self, z, p):
        return super()._refine(z, p) if self.rule == "window" else np.repeat(p.mean(axis=0, keepdims=True), len(p), 0)


@dataclass(kw_only=True)
class Unexplained(Honest):
    """Has a field that this text does not name."""

    hidden: int = 1


BROKEN = [
    (Unnormalised, "probabilities", "sum to 1"),
    (SourceWriter, "source_unchanged", "changes its source"),
    (Growing, "memory", "fixed capacity"),
    (Understated, "declared_size", "declares at most 1 bytes"),
    (Unresettable, "reset", "after reset"),
    (Hidden, "resume", "missing in state"),
    (Hidden, "peek", "differently in peek"),
    (Noncausal, "chunking", "windows at a time"),
    (Noncausal, "causality", "look ahead"),
    (Undeclared, "declaration", "does not declare"),
    (Unexplained, "declaration", "does not explain hidden"),
    (NotANumber, "constant_stream", "NaN"),
    (AnyHalfLife, "half_life", "accepts gap_half_life_s=-5.0"),
    (BadMessage, "half_life", "expected and what was got"),
    (UndeclaredRule, "chunking", "windows at a time under the rule 'whole'"),
    (Shared, "clone", "clone"),
    (Changer, "params_as_text", "read from text"),
    (LateCheck, "bad_input", "has changed by then"),
    (Unchecked, "bad_input", "honest: accepts"),
]


@pytest.mark.parametrize(("broken", "check", "words"), BROKEN)
def test_a_violation_is_found(broken, check, words):
    with pytest.raises(CheckFailed, match=words):
        CHECKS[check](Case(adapter=broken()))


def test_a_correct_method_passes_all_checks():
    check_adapter(Honest())


def test_none_must_be_a_valid_half_life():
    with pytest.raises(ValueError, match="got None"):
        CHECKS["half_life"](Case(adapter=NoneRefused()))


@pytest.mark.parametrize("name", [name for name in METHODS if "gap_half_life_s" in method(name).params()])
@pytest.mark.parametrize("wrong", [-5, 0, float("nan"), float("inf")])
def test_an_invalid_half_life_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name}: expected gap_half_life_s > 0 or None, got {wrong}"):
        method(name, gap_half_life_s=wrong)


@pytest.mark.parametrize("name", ["note", "coa-har"])
def test_needs_describe_the_default_rule(name):
    CHECKS["declaration"](Case(adapter=method(name, rule="chunk"), given_source=network()))


# --- degenerate input ---------------------------------------------------------------------------------------------

DEGENERATE = [*((name, {}) for name in TRIVIAL), ("sight", {"variant": "paper"}), ("sight", {"variant": "authors"})]


@pytest.mark.parametrize(("name", "fields"), DEGENERATE)
@pytest.mark.parametrize("classes", [2, 5, 50])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
class TestDegenerateInput:
    def refined(self, name, fields, z, p, dtype):
        weight = np.random.default_rng(0).normal(size=(p.shape[1], z.shape[1])).astype(dtype)
        q = sight.refine(z.astype(dtype), p.astype(dtype), weight, method=name, **fields)
        assert q.dtype == dtype
        assert np.isfinite(q).all()
        assert (q >= 0).all()
        np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-4)
        return q

    def test_zero_features(self, name, fields, classes, dtype):
        p = np.random.default_rng(1).dirichlet(np.ones(classes), size=40)
        self.refined(name, fields, np.zeros((40, 8)), p, dtype)

    def test_certain_predictions_of_one_class(self, name, fields, classes, dtype):
        z = np.random.default_rng(1).normal(size=(40, 8))
        q = self.refined(name, fields, z, np.eye(classes)[np.ones(40, int)], dtype)
        assert (q.argmax(axis=1) == 1).all()

    def test_certain_predictions_that_contradict_each_other(self, name, fields, classes, dtype):
        z = np.random.default_rng(1).normal(size=(40, 8))
        self.refined(name, fields, z, np.eye(classes)[np.arange(40) % classes], dtype)

    def test_probabilities_with_zeros(self, name, fields, classes, dtype):
        p = np.random.default_rng(1).dirichlet(np.ones(classes), size=40)
        p[:, 0] = 0
        q = self.refined(
            name, fields, np.random.default_rng(2).normal(size=(40, 8)), p / p.sum(axis=1, keepdims=True), dtype
        )
        assert (q[:, 0] < 1e-6).all()

    def test_features_of_any_scale(self, name, fields, classes, dtype):
        rng = np.random.default_rng(1)
        z = rng.normal(size=(40, 8)) * 10.0 ** rng.integers(-12, 6, size=(40, 1))
        self.refined(name, fields, z, rng.dirichlet(np.ones(classes), size=40), dtype)
