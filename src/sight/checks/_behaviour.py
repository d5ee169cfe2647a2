"""The promises of the contract, one function each; the first line of a docstring is the promise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sight.base import OutputAdapter
from sight.checks._declarations import bad_input, declaration, half_life, settings, unbound
from sight.checks._harness import (
    CLOSE,
    Case,
    CheckFailed,
    answers,
    apart,
    digest,
    fingerprint,
    finite_state,
    parts,
    pieces,
    probable,
    same,
    size_of_piece,
)

# --- what comes out -----------------------------------------------------------------------------------------------


def probabilities(case: Case) -> None:
    """Promise: answers are probabilities, one row per window; no window, no row."""
    adapter = case.fresh()
    for piece in pieces(adapter, case.x):
        probable(case, adapter.step(piece), len(piece), "on the stream")
        lengths = {key: len(values) for key, values in adapter.trace().items()}
        case.demand(
            all(length == len(piece) for length in lengths.values()),
            f"expected a trace entry for each of {len(piece)} windows, got {lengths}; write one value per window.",
        )
    probable(case, adapter.step(case.x[:0]), 0, "without windows")


def source_untouched(case: Case) -> None:
    """Promise: windows and source are read, never written."""
    adapter, x = case.fresh(), case.x.copy()
    before = fingerprint(case.source), digest(x)
    answers(adapter, x)
    adapter.reset()
    case.demand(
        before[1] == digest(x),
        "changes the windows it is given; copy them before writing (another method reads them).",
    )
    case.demand(
        before[0] == fingerprint(case.source),
        "changes its source (weights, statistics or network); work on a copy, for example copy.deepcopy(module()).",
    )


def constant_stream(case: Case) -> None:
    """Promise: a sensor that lies on a table, and one that is off, give valid answers for ever."""
    for name, window in (("one window repeated", case.x[:1]), ("all samples zero", np.zeros_like(case.x[:1]))):
        x = np.repeat(window, len(case.x), axis=0)
        adapter = case.fresh()
        probable(case, answers(adapter, x), len(x), f"with {name}")
        finite_state(case, adapter, f"after {name}")


def one_class(case: Case) -> None:
    """Promise: a whole stream of one class gives valid answers."""
    label = case.source.encode(case.x)[1].argmax(axis=1)
    own = np.flatnonzero(label == np.bincount(label).argmax())
    adapter, x = case.fresh(), case.x[np.resize(own, len(case.x))]
    probable(case, answers(adapter, x), len(x), "on a stream of one class")
    finite_state(case, adapter, "after a stream of one class")


def gap(case: Case) -> None:
    """Promise: after a gap of any length answers are valid, and a gap that cannot be is refused."""
    adapter = case.fresh()
    for seconds, piece in zip((0.0, 1.0, 1e7), parts(case.x, 3), strict=True):
        adapter.gap(seconds)
        probable(case, answers(adapter, piece), len(piece), f"after a gap of {seconds:g} s")
    try:
        adapter.gap(-1.0)
    except ValueError:
        return
    raise CheckFailed(f"{adapter.name}: accepts a gap of -1 s; refuse it with a ValueError.")


# --- what is remembered -------------------------------------------------------------------------------------------


def reset(case: Case) -> None:
    """Promise: `reset` forgets everything; the same stream gets the same answers, bit for bit."""
    adapter = case.fresh()
    first = answers(adapter, case.x)
    again = answers(adapter.reset(), case.x)
    case.demand(
        np.array_equal(first, again),
        f"answers otherwise after reset ({apart(first, again)}); build all state in _reset.",
    )


def clone(case: Case) -> None:
    """Promise: a clone is fresh, and neither hears of the other."""
    adapter = case.fresh()
    head, tail = parts(case.x, 2)
    first = answers(adapter, head)
    before = adapter.state()
    twin = adapter.clone()
    case.demand(
        np.array_equal(first, answers(twin, head)), "gives a clone that is not fresh; keep what was learned in state."
    )
    case.demand(
        same(before, adapter.state()), "shares state with its clone: what one learns changes the other; copy arrays."
    )
    straight = case.fresh()
    answers(straight, head)
    case.demand(
        np.array_equal(answers(adapter, tail), answers(straight, tail)),
        "answers otherwise once its clone was used; do not share anything that changes.",
    )


def resume(case: Case) -> None:
    """Promise: state goes through bytes to another machine, and the stream goes on bit for bit."""
    from safetensors.numpy import load, save

    adapter = case.fresh()
    stream = list(pieces(adapter, case.x))
    half = len(stream) // 2
    for piece in stream[:half]:
        adapter.step(piece)
    stored = save({key: np.array(value, order="C") for key, value in adapter.state().items()})
    other = case.fresh().restore(load(stored))
    for piece in stream[half:]:
        here, there = adapter.step(piece), other.step(piece)
        case.demand(
            np.array_equal(here, there),
            f"answers otherwise once restored ({apart(here, there)}); something learned is missing in state().",
        )


def memory(case: Case) -> None:
    """Promise: state has one size, however long the wearer is watched."""
    adapter = case.fresh()
    sizes = []
    for windows in (50, 350):
        answers(adapter, np.resize(case.x, (windows, *case.x.shape[1:])))
        sizes.append(sum(array.nbytes for array in adapter.state().values()))
    case.demand(
        sizes[0] == sizes[1],
        f"holds {sizes[0]} bytes after 50 windows and {sizes[1]} after 400; give memories a fixed capacity.",
    )


def peek(case: Case) -> None:
    """Promise: `peek` answers what the next `step` answers, and changes nothing."""
    adapter = case.fresh()
    first, *others = pieces(adapter, case.x)
    adapter.step(first)
    before = adapter.state()
    looked = adapter.peek(others[0])
    case.demand(same(before, adapter.state()), "changes state when peeked at; let _set_state undo all that step does.")
    stepped = adapter.step(others[0])
    case.demand(
        np.array_equal(looked, stepped),
        f"answers otherwise to peek than to the step after it ({apart(looked, stepped)}); peek must not use chance "
        f"that state does not hold.",
    )


# --- time ---------------------------------------------------------------------------------------------------------


def cuts(case: Case) -> None:
    """Promise: how a stream is cut into steps changes nothing, unless the method says that it works in chunks."""
    for ruled in case.rules():
        if ruled.fresh().chunk is None:
            _cuts(ruled)


def _cuts(case: Case) -> None:
    whole = case.fresh().step(case.x)
    for size in (1, 7):
        adapter = case.fresh()
        cut = np.concatenate([adapter.step(case.x[t : t + size]) for t in range(0, len(case.x), size)])
        case.demand(
            np.allclose(whole, cut, atol=CLOSE),
            f"answers otherwise when the stream comes {size} windows at a time ({apart(whole, cut)}) under the rule "
            f"{adapter.rule!r}; answer window by window, or declare Needs(batch=True) and a chunk.",
        )


def causality(case: Case) -> None:
    """Promise: what comes later cannot change an answer given before."""
    adapter = case.fresh()
    first = size_of_piece(adapter, case.x)
    other = np.concatenate([case.x[:first], case.x[first:][::-1] + 1])
    if adapter.chunk is None:
        here, there = adapter.step(case.x)[:first], case.fresh().step(other)[:first]
    else:
        here, there = answers(adapter, case.x)[:first], answers(case.fresh(), other)[:first]
    case.demand(
        np.allclose(here, there, atol=CLOSE),
        f"looks ahead: with other windows after the first {first} its answers to those change ({apart(here, there)}).",
    )


# --- sources ------------------------------------------------------------------------------------------------------


def twins(case: Case) -> None:
    """Promise: the same model as another kind of source leads to the same answers."""
    if case.twin is None or not isinstance(case.adapter, OutputAdapter):
        return
    here, there = answers(case.fresh(), case.x), answers(case.unbound().bind(case.twin), case.x)
    case.demand(
        np.allclose(here, there, atol=1e-3),
        f"answers otherwise on the twin of its source ({apart(here, there)}); is a decision taken on the last bit?",
    )


#: Name to check, in the order they are tried.
CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__: check
    for check in (
        probabilities,
        source_untouched,
        reset,
        clone,
        resume,
        cuts,
        causality,
        peek,
        memory,
        constant_stream,
        one_class,
        gap,
        half_life,
        unbound,
        bad_input,
        settings,
        declaration,
        twins,
    )
}
