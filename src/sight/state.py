"""Save and resume for everything live, by one convention: state is what ends with an underscore, as in `sight.base`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from sight.types import Array


class Resumable(Protocol):
    """Whatever can be saved as named arrays and go on from them."""

    def state(self) -> dict[str, Array]:
        """Everything needed to go on, as arrays."""

    def restore(self, state: Mapping[str, Array]) -> Any:
        """Go on from `state`."""


class Stateful:
    """Saves attributes whose name ends with an underscore, and those of its parts under the part's name.

    Notes
    -----
    Values are numbers, truth values and arrays, never None: an origin nobody knows yet is NaN, a filter that has not
    started is an empty array. An array may grow along its first axis; its type and number of axes stay.

    Examples
    --------
    >>> class Counter(Stateful):
    ...     def __init__(self):
    ...         self.count_ = 0
    >>> counter = Counter()
    >>> counter.count_ += 3
    >>> counter.state()
    {'count': array(3)}
    >>> Counter().restore(counter.state()).count_
    3
    """

    def state(self) -> dict[str, Array]:
        """Return everything needed to go on elsewhere, bit for bit."""
        found = {name.rstrip("_"): np.array(value, order="C") for name, value in self._own().items()}
        for name, part in self._parts().items():
            # Formats that do not store strides would scramble an array that is not contiguous.
            found |= {f"{name}.{key}": np.asarray(array, order="C") for key, array in part.state().items()}
        return found

    def restore(self, state: Mapping[str, Array]) -> Self:
        """Go on from `state`; where it does not fit, nothing changes."""
        before = self.state()
        self._check(state)
        try:
            self._set(state)
        except (ValueError, TypeError, KeyError):
            self._set(before)
            raise
        return self

    def _check(self, state: Mapping[str, Array]) -> None:
        """Refuse names, types and axes that are not those of this object."""
        own = {name.rstrip("_"): np.asarray(value) for name, value in self._own().items()}
        parts = tuple(f"{name}." for name in self._parts())
        given = {name for name in state if not name.startswith(parts)}
        if given != set(own):
            raise ValueError(
                f"Expected saved state with {', '.join(sorted(own))}, got {', '.join(sorted(given)) or 'nothing'}; "
                f"was it saved by another version or with other settings?"
            )
        for name, now in own.items():
            value = np.asarray(state[name])
            if value.dtype != now.dtype or value.ndim != now.ndim:
                raise ValueError(
                    f"Expected saved {name!r} with {now.ndim} axes of {now.dtype}, got {value.ndim} of {value.dtype}; "
                    f"the stored copy is damaged or of another version."
                )

    def _set(self, state: Mapping[str, Array]) -> None:
        for name, now in self._own().items():
            value = state[name.rstrip("_")]
            setattr(self, name, np.array(value) if isinstance(now, np.ndarray) else type(now)(value))
        for name, part in self._parts().items():
            dot = f"{name}."
            part.restore({key.removeprefix(dot): array for key, array in state.items() if key.startswith(dot)})

    def _own(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def _parts(self) -> dict[str, Resumable]:
        return {name.strip("_"): value for name, value in vars(self).items() if hasattr(value, "restore")}
