"""Every registered method keeps the contract; the checks themselves fail when they should; nobody is forgotten."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest

import sight
from sight.base import Adapter, Needs, OutputAdapter
from sight.checks import CHECKS, Case, CheckFailed, check_adapter, checks
from sight.ops import relaxed
from sight.registry import TABLES, get, method
from sight.testing import ToySource, toy_network, toy_stream

METHODS = tuple(TABLES["methods"])
TRIVIAL = ("none", "ema", "sticky", "sticky-learned")
ENCODERS = ("cnn", "resnet", "transformer")
FOLDER = Path(inspect.getfile(sight)).parent / "methods"


def on_features(name):
    return issubclass(get("methods", name), OutputAdapter)


#: A method with each network it is checked on; methods on features need none.
CHECKED = [(name, encoder) for name in METHODS for encoder in ((None,) if on_features(name) else ENCODERS)]


@cache
def network(encoder="cnn", classes=5):
    return toy_network(encoder, classes=classes)


def small(name, **fields):
    """A method with room for few windows, where it has such a field: faster, and its memories fill up."""
    known = {"M": 4, "memory": 16, "update_every": 16, "batch": 16}
    hints = {key: value for key, value in known.items() if key in method(name).params()}
    return method(name, **(hints | fields))


# --- everybody keeps the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("name", "encoder"), CHECKED)
def test_method_keeps_the_contract(name, encoder, check):
    if encoder in (None, "cnn"):
        case = Case(adapter=method(name), given_source=network() if encoder else None)
    else:
        case = Case(adapter=small(name), given_source=network(encoder), given_stream=toy_stream(n=34))
    CHECKS[check](case)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("classes", "batch"), [(2, 1), (2, 32), (18, 1), (18, 32)])
def test_method_answers_any_number_of_classes_at_batch_1_and_32(name, classes, batch):
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
def test_docstring_tells_what_the_method_is(name):
    doc = inspect.getdoc(get("methods", name))
    for section in ("Parameters", "Notes", "Examples", "References"):
        assert f"{section}\n{'-' * len(section)}" in doc, f"{name} has no section {section}"
    assert "It believes" in doc
    assert method(name).needs.completed == ("authors' code is not public" in " ".join(doc.split()))


@pytest.mark.parametrize("name", [name for name in METHODS if on_features(name)])
def test_torch_and_onnx_lead_to_the_same_answers(name, onnx_twin):
    CHECKS["twins"](Case(adapter=method(name), given_source=network("resnet"), twin=onnx_twin))


@pytest.fixture(scope="module")
def onnx_twin(tmp_path_factory):
    from sight.sources.onnx import OnnxSource
    from sight.sources.onnx_export import export_onnx

    path = tmp_path_factory.mktemp("onnx") / "toy.onnx"
    return OnnxSource(export_onnx(network("resnet"), path, shape=(3, 20)))


# --- nobody is forgotten ------------------------------------------------------------------------------------------


def test_the_registry_holds_every_method_on_disk():
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        module = importlib.import_module(f"sight.methods.{path.stem}")
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and issubclass(value, Adapter) and "name" in vars(value):
                found[value.name] = f"{module.__name__}:{value.__name__}"
    assert found == TABLES["methods"]


def test_every_method_and_every_check_was_meant():
    assert len({name for name, _ in CHECKED}) == len(TABLES["methods"]) == len(set(TABLES["methods"].values()))
    assert {method(name).name for name in METHODS} == set(METHODS)
    assert [str(check) for check in checks(method("none"))] == list(CHECKS)


# --- the checks fail when they should -----------------------------------------------------------------------------


@dataclass(kw_only=True)
class Honest(OutputAdapter):
    """Averages with what came before, by a weight w."""

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


class Scribbler(Honest):
    def _refine_one(self, z, p):
        self.source.weight[0] += 1
        return super()._refine_one(z, p)


class Hoarder(Honest):
    def _refine_one(self, z, p):
        self.past_ = np.concatenate([getattr(self, "past_", p[:0]), p])
        return super()._refine_one(z, p)


class Elephant(Honest):
    """Never forgets: reset does not reach what it keeps."""

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


class Prophet(Honest):
    def _refine(self, z, p):  # noqa: ARG002
        return np.repeat(p.mean(axis=0, keepdims=True), len(p), axis=0)


class Undeclared(Honest):
    """Works in chunks, by a weight w, and tells nobody."""

    @property
    def chunk(self):
        return 8


class Fragile(Honest):
    def _reset(self):
        super()._reset()
        self.last_ = np.zeros(self.source.weight.shape[1])

    def _refine_one(self, z, p):
        moved, self.last_ = not np.array_equal(z, self.last_), z.astype(float)
        return super()._refine_one(z, p) if moved else p * np.nan


class Shared(Honest):
    shelf: ClassVar[dict] = {}

    def _reset(self):
        self.shelf.clear()
        super()._reset()

    def _refine_one(self, z, p):  # noqa: ARG002
        past = self.shelf.get("p", p)
        self.shelf["p"] = (past + p) / 2
        return self.shelf["p"]


@dataclass(kw_only=True)
class Changer(Honest):
    """Stores another w than it was given."""

    def __post_init__(self):
        self.w = min(self.w * 1.5, 0.9)


class Late(Honest):
    """Checks its windows after it has taken them in, by a weight w."""

    def _step(self, x):
        self.belief_ = self.belief_[::-1].copy()
        return super()._step(x)


@dataclass(kw_only=True)
class Timeless(Honest):
    """Takes any half-life."""

    gap_half_life_s: float | None = 30.0

    def _gap(self, seconds):
        self.belief_ = relaxed(self.belief_, seconds, self.gap_half_life_s)


@dataclass(kw_only=True)
class Curt(Timeless):
    def __post_init__(self):
        if self.gap_half_life_s is not None and not self.gap_half_life_s > 0:
            raise ValueError("no")


@dataclass(kw_only=True)
class Sworn(Timeless):
    """Refuses what cannot be, and then also None."""

    def __post_init__(self):
        if self.gap_half_life_s is None or not self.gap_half_life_s > 0:
            raise ValueError(f"sworn: expected gap_half_life_s > 0, got {self.gap_half_life_s}.")


@dataclass(kw_only=True)
class Ruled(Honest):
    """Works window by window as it is, and in chunks of any size under the other rule, without saying so."""

    rule: Literal["window", "whole"] = "window"

    def _refine(self, z, p):
        return super()._refine(z, p) if self.rule == "window" else np.repeat(p.mean(axis=0, keepdims=True), len(p), 0)


BROKEN = [
    (Unnormalised, "probabilities", "sum to 1"),
    (Scribbler, "source_untouched", "changes its source"),
    (Hoarder, "memory", "fixed capacity"),
    (Elephant, "reset", "after reset"),
    (Hidden, "resume", "missing in state"),
    (Hidden, "peek", "otherwise to peek"),
    (Prophet, "cuts", "windows at a time"),
    (Prophet, "causality", "looks ahead"),
    (Undeclared, "declaration", "does not declare"),
    (Fragile, "constant_stream", "NaN"),
    (Timeless, "half_life", "accepts gap_half_life_s=-5.0"),
    (Curt, "half_life", "say expected and got"),
    (Ruled, "cuts", "windows at a time .* under the rule 'whole'"),
    (Shared, "clone", "clone"),
    (Changer, "settings", "come back from text"),
    (Late, "bad_input", "has changed by then"),
]


@pytest.mark.parametrize(("broken", "check", "words"), BROKEN)
def test_a_broken_promise_is_found_and_named(broken, check, words):
    with pytest.raises(CheckFailed, match=words):
        CHECKS[check](Case(adapter=broken()))


def test_an_honest_stranger_passes_and_a_secretive_one_does_not():
    check_adapter(Honest())
    with pytest.raises(CheckFailed, match="does not explain hidden"):
        CHECKS["declaration"](Case(adapter=Secretive()))
    with pytest.raises(CheckFailed, match="honest: accepts"):
        CHECKS["bad_input"](Case(adapter=Trusting()))


@dataclass(kw_only=True)
class Secretive(Honest):
    """Has a setting more than it tells."""

    hidden: int = 1


def test_none_is_a_half_life():
    with pytest.raises(ValueError, match="got None"):
        CHECKS["half_life"](Case(adapter=Sworn()))


@pytest.mark.parametrize("name", [name for name in METHODS if "gap_half_life_s" in method(name).params()])
@pytest.mark.parametrize("wrong", [-5, 0, float("nan"), float("inf")])
def test_an_impossible_half_life_is_refused_with_what_would_be_right(name, wrong):
    with pytest.raises(ValueError, match=f"{name}: expected gap_half_life_s > 0 or None, got {wrong}"):
        method(name, gap_half_life_s=wrong)


@pytest.mark.parametrize("name", ["note", "coa-har"])
def test_needs_are_those_of_the_usual_rule_whatever_rule_is_checked(name):
    CHECKS["declaration"](Case(adapter=method(name, rule="chunk"), given_source=network()))


class Trusting(Honest):
    def _checked(self, z, p):
        return z, p


# --- degenerate input for SIGHT and the trivial rivals ------------------------------------------------------------

DEGENERATE = [*((name, {}) for name in TRIVIAL), ("sight", {"variant": "paper"}), ("sight", {"variant": "authors"})]


@pytest.mark.parametrize(("name", "fields"), DEGENERATE)
@pytest.mark.parametrize("classes", [2, 5, 50])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
class TestDegenerateInput:
    def answers(self, name, fields, z, p, dtype):
        weight = np.random.default_rng(0).normal(size=(p.shape[1], z.shape[1])).astype(dtype)
        q = sight.refine(z.astype(dtype), p.astype(dtype), weight, method=name, **fields)
        assert q.dtype == dtype
        assert np.isfinite(q).all()
        assert (q >= 0).all()
        np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-4)
        return q

    def test_zero_features(self, name, fields, classes, dtype):
        p = np.random.default_rng(1).dirichlet(np.ones(classes), size=40)
        self.answers(name, fields, np.zeros((40, 8)), p, dtype)

    def test_certain_answers_of_one_class(self, name, fields, classes, dtype):
        z = np.random.default_rng(1).normal(size=(40, 8))
        q = self.answers(name, fields, z, np.eye(classes)[np.ones(40, int)], dtype)
        assert (q.argmax(axis=1) == 1).all()

    def test_certain_answers_that_contradict_each_other(self, name, fields, classes, dtype):
        z = np.random.default_rng(1).normal(size=(40, 8))
        self.answers(name, fields, z, np.eye(classes)[np.arange(40) % classes], dtype)

    def test_probabilities_with_zeros(self, name, fields, classes, dtype):
        p = np.random.default_rng(1).dirichlet(np.ones(classes), size=40)
        p[:, 0] = 0
        q = self.answers(
            name, fields, np.random.default_rng(2).normal(size=(40, 8)), p / p.sum(axis=1, keepdims=True), dtype
        )
        assert (q[:, 0] < 1e-6).all()

    def test_features_of_any_scale(self, name, fields, classes, dtype):
        rng = np.random.default_rng(1)
        z = rng.normal(size=(40, 8)) * 10.0 ** rng.integers(-12, 6, size=(40, 1))
        self.answers(name, fields, z, rng.dirichlet(np.ones(classes), size=40), dtype)
