"""Base class of objects whose state can be saved and restored; the file format is in `sight.apps.stream.state_file`.

State is every attribute whose name ends with an underscore, and the state of every attribute that is itself `Stateful`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, final

import numpy as np

from sight._util.arrays import Array


class Stateful:
    """Base class of objects that can be saved as named arrays and restored from them.

    State values are numbers, truth values and arrays, never None. Types and numbers of axes are fixed. Arrays may grow
    and hold NaN or infinity, unless the class sets `_fixed`.
    """

    _fixed: ClassVar[bool] = False  # whether arrays have constant shapes and finite values

    @final
    def state(self) -> dict[str, Array]:
        """Return a copy of everything needed to continue on another machine, bit for bit."""
        self._require_ready()
        # C order: formats that do not store strides would scramble other arrays.
        saved = {name: np.array(value, order="C") for name, value in sorted(self._own().items())}
        for part, inner in sorted(self._parts().items()):
            saved |= {f"{part}.{name}": array for name, array in inner.state().items()}
        return saved

    @final
    def restore(self, state: Mapping[str, Array]) -> Self:
        """Continue from a saved state; raise ValueError and change nothing if it does not fit."""
        self._require_ready()
        self._check(state)
        self._set_state(state)
        return self

    def _require_ready(self) -> None:
        """Raise RuntimeError if there is no state yet."""

    def _title(self) -> str:
        return type(self).__name__

    def _own(self) -> dict[str, Any]:
        """Return the state of this object without its parts, name to value."""
        return {
            name[:-1]: value
            for name, value in vars(self).items()
            if name.endswith("_") and name[0] != "_" and not isinstance(value, Stateful)
        }

    def _parts(self) -> dict[str, Stateful]:
        return {name.strip("_"): value for name, value in vars(self).items() if isinstance(value, Stateful)}

    def _fits(self, name: str, value: Array, current: Array) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether a saved array may replace the current one of the same type."""
        return value.shape == current.shape if self._fixed else value.ndim == current.ndim

    def _check(self, state: Mapping[str, Array]) -> None:
        parts = self._parts()
        own = {name: np.asarray(value) for name, value in self._own().items()}
        given = {name: value for name, value in state.items() if name.partition(".")[0] not in parts}
        check_state(given, own, self._title(), fits=self._fits, finite=self._fixed)
        for name, part in parts.items():
            part._check(_within(state, name))

    def _set_state(self, state: Mapping[str, Array]) -> None:
        for name, current in self._own().items():
            value = np.array(state[name]) if isinstance(current, np.ndarray) else type(current)(state[name])
            setattr(self, f"{name}_", value)
        for name, part in self._parts().items():
            part._set_state(_within(state, name))


def same_shape(_: str, value: Array, current: Array) -> bool:
    return value.shape == current.shape


def check_state(
    state: Mapping[str, Any],
    expected: Mapping[str, Array],
    title: str,
    *,
    fits: Callable[[str, Array, Array], bool] = same_shape,
    finite: bool = True,
    same_type: bool = True,
) -> None:
    """Raise ValueError unless a saved state has the names, types, shapes and finite values of an expected one.

    `title` names the object in the message. ``fits(name, saved, current)`` returns whether a shape is acceptable.
    """
    if set(state) != set(expected):
        raise ValueError(
            f"{title}: expected state {sorted(expected)}, got {sorted(state)}; "
            f"was it saved by another method or version?"
        )
    for name, current in expected.items():
        value = np.asarray(state[name])
        if (same_type and value.dtype != current.dtype) or not fits(name, value, current):
            raise ValueError(
                f"{title}: expected state {name!r} of shape {current.shape} and type {current.dtype}, got "
                f"{value.shape} and {value.dtype}; was it saved with another model or other hyper-parameters?"
            )
        if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{title}: state {name!r} holds NaN or infinity; the saved copy is damaged.")


def _within(state: Mapping[str, Array], part: str) -> dict[str, Array]:
    prefix = f"{part}."
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
