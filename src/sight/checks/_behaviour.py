"""Checks of predictions, state and streaming, and the list of all checks."""

from collections.abc import Callable

import numpy as np

from sight.checks._case import CLOSE, Case, CheckFailed, chunk_size, chunks, parts, predict, source_digest, states_equal
from sight.checks._declarations import bad_input, declaration, half_life, params_as_text, unbound, unused_features
from sight.methods.compiled.adapter import CompiledAdapter
from sight.methods.compiled.backend import numpy_backend


def probabilities(case: Case) -> None:
    """Check that predictions are probabilities, one row per window, and the trace has one value per window."""
    adapter = case.fresh()
    for chunk in chunks(adapter, case.x):
        case.require_probabilities(adapter.step(chunk), len(chunk), "on the stream")
        lengths = {key: len(values) for key, values in adapter.trace().items()}
        case.require(
            all(length == len(chunk) for length in lengths.values()),
            f"expected a trace entry for each of {len(chunk)} windows, got {lengths}; write one value per window.",
        )
    case.require_probabilities(adapter.step(case.x[:0]), 0, "without windows")


def source_unchanged(case: Case) -> None:
    """Check that windows and source are read, never written."""
    adapter, x = case.fresh(), case.x.copy()
    source, windows = source_digest(case.source), x.copy()
    predict(adapter, x)
    adapter.reset()
    case.require(np.array_equal(windows, x), "changes the windows it is given; copy them before writing.")
    case.require(
        source == source_digest(case.source),
        "changes its source (weights, statistics or network); work on a copy, such as copy.deepcopy(module()).",
    )


def constant_stream(case: Case) -> None:
    """Check that a sensor that does not move, or that is off, leads to valid predictions and a finite state."""
    for name, window in (("one window repeated", case.x[:1]), ("all samples zero", np.zeros_like(case.x[:1]))):
        x = np.repeat(window, len(case.x), axis=0)
        adapter = case.fresh()
        case.require_probabilities(predict(adapter, x), len(x), f"with {name}")
        case.require_finite_state(adapter, f"after {name}")


def one_class(case: Case) -> None:
    """Check that a stream of a single class leads to valid predictions and a finite state."""
    label = case.source.encode(case.x)[1].argmax(axis=1)
    own = np.flatnonzero(label == np.bincount(label).argmax())
    adapter, x = case.fresh(), case.x[np.resize(own, len(case.x))]
    case.require_probabilities(predict(adapter, x), len(x), "on a stream of one class")
    case.require_finite_state(adapter, "after a stream of one class")


def gap(case: Case) -> None:
    """Check that predictions after a gap of any length are valid, and a negative gap is refused."""
    adapter = case.fresh()
    for seconds, part in zip((0.0, 1.0, 1e7), parts(case.x, 3), strict=True):
        adapter.gap(seconds)
        case.require_probabilities(predict(adapter, part), len(part), f"after a gap of {seconds:g} s")
    try:
        adapter.gap(-1.0)
    except ValueError:
        return
    raise CheckFailed(f"{adapter.name}: accepts a gap of -1 s; raise a ValueError.")


def reset(case: Case) -> None:
    """Check that after `reset` the same stream leads to the same predictions, bit for bit."""
    adapter = case.fresh()
    first = predict(adapter, case.x)
    case.require_same(first, predict(adapter.reset(), case.x), "after reset", "build all state in _reset")


def clone(case: Case) -> None:
    """Check that a clone starts fresh, and neither adapter influences the other."""
    adapter, straight = case.fresh(), case.fresh()
    head, tail = parts(case.x, 2)
    first = predict(adapter, head)
    before = adapter.state()
    case.require_same(first, predict(adapter.clone(), head), "in a clone", "keep everything that is learned in state")
    case.require(states_equal(before, adapter.state()), "shares state with its clone; copy arrays.")
    predict(straight, head)
    case.require_same(predict(adapter, tail), predict(straight, tail), "after its clone was used", "share nothing")


def resume(case: Case) -> None:
    """Check that state goes through bytes to another adapter, which continues bit for bit."""
    from safetensors.numpy import load, save

    adapter = case.fresh()
    stream = list(chunks(adapter, case.x))
    half = len(stream) // 2
    for chunk in stream[:half]:
        adapter.step(chunk)
    other = case.fresh().restore(load(save(adapter.state())))
    for chunk in stream[half:]:
        case.require_same(
            adapter.step(chunk), other.step(chunk), "after restore", "something learned is missing in state()"
        )


def memory(case: Case) -> None:
    """Check that the size of the state does not grow with the stream."""
    adapter = case.fresh()
    sizes = []
    for windows in (50, 350):
        predict(adapter, np.resize(case.x, (windows, *case.x.shape[1:])))
        sizes.append(sum(array.nbytes for array in adapter.state().values()))
    case.require(
        sizes[0] == sizes[1],
        f"holds {sizes[0]} bytes after 50 windows and {sizes[1]} after 400; give memories a fixed capacity.",
    )


def declared_size(case: Case) -> None:
    """Check that the state takes no more bytes than the method declares beforehand, if it declares a size."""
    declared = case.unbound().max_state_bytes(case.source)
    if declared is None:
        return
    adapter = case.fresh()
    predict(adapter, case.x)
    held = sum(array.nbytes for array in adapter.state().values())
    case.require(
        held <= declared, f"declares at most {declared} bytes of state and holds {held}; correct _max_state_bytes."
    )


def peek(case: Case) -> None:
    """Check that `peek` returns what the next `step` returns, and changes nothing."""
    adapter = case.fresh()
    first, second, *_ = chunks(adapter, case.x)
    adapter.step(first)
    before = adapter.state()
    peeked = adapter.peek(second)
    case.require(states_equal(before, adapter.state()), "changes state in peek; all that step changes must be state.")
    case.require_same(peeked, adapter.step(second), "in peek than in the next step", "keep generators in the state")


def chunking(case: Case) -> None:
    """Check that how a stream is cut into steps makes no difference, unless the method declares a chunk."""
    for ruled in case.rules():
        if ruled.fresh().chunk is not None:
            continue
        whole = ruled.fresh().step(ruled.x)
        for size in (1, 7):
            adapter = ruled.fresh()
            cut = np.concatenate([adapter.step(ruled.x[t : t + size]) for t in range(0, len(ruled.x), size)])
            when = f"with {size} windows at a time under the rule {adapter.rule!r}"
            ruled.require_same(whole, cut, when, "declare Needs(batch=True) and a chunk if that is intended", CLOSE)


def causality(case: Case) -> None:
    """Check that later windows do not change earlier predictions."""
    adapter, other = case.fresh(), case.fresh()
    first = chunk_size(adapter, case.x)
    changed = np.concatenate([case.x[:first], case.x[first:][::-1] + 1])
    if adapter.chunk is None:
        here, there = adapter.step(case.x), other.step(changed)
    else:
        here, there = predict(adapter, case.x), predict(other, changed)
    case.require_same(here[:first], there[:first], "if later windows change", "do not look ahead", CLOSE)


def many_wearers(case: Case) -> None:
    """Check that many wearers advanced together are predicted as one by one, and that numpy and numba agree."""
    adapter = case.fresh()
    if not isinstance(adapter, CompiledAdapter):
        return
    z, p = (part.astype(case.source.weight.dtype) for part in case.source.encode(case.x))
    many, expected = adapter.many(3), adapter.refine(z, p)
    together = [many.refine(z[[t, -1 - t]], p[[t, -1 - t]], np.array([2, 0]))[0] for t in range(len(z))]
    case.require_same(np.array(together), expected, "for many wearers", "advance each row by its own state")
    case.require(states_equal(many.state(2), adapter.state()), "has other states for many wearers.")
    adapter.reset()
    q, _ = numpy_backend(type(adapter)).advance(z, p, adapter.states.arrays, [0], *adapter.constants)
    case.require_same(q, expected, f"in numpy than in {adapter.backend.name}", "correct one of the steps", CLOSE)


def twins(case: Case) -> None:
    """Check that the same model as another kind of source leads to the same predictions."""
    if case.twin is None or not case.adapter.served:  # methods that train the network need torch
        return
    here, there = predict(case.fresh(), case.x), predict(case.unbound().bind(case.twin), case.x)
    case.require_same(here, there, "on the twin of its source", "does a decision depend on the last bit?", 1e-3)


#: Name to check, in the order in which they run.
CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__: check
    for check in (
        probabilities,
        source_unchanged,
        reset,
        clone,
        resume,
        chunking,
        causality,
        peek,
        memory,
        declared_size,
        constant_stream,
        one_class,
        gap,
        half_life,
        unused_features,
        unbound,
        bad_input,
        params_as_text,
        declaration,
        many_wearers,
        twins,
    )
}
