"""Labels in a column of a user's table: codes, and classes without regard to case."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sight.recordings.labels import classes_of_labels
from sight.types import UNLABELLED, Array

#: A label such as 1.0, which is the same as 1.
WHOLE_NUMBER = re.compile(r"-?\d+\.0+")


def label_codes(column: Any, codes: dict[str, int]) -> Array:
    """Return a code for each label of a block; new labels are added to `codes`."""
    encoded = column.dictionary_encode()
    names = [_label_text(value) for value in encoded.dictionary.to_pylist()]
    own = [codes.setdefault(name, len(codes)) if name else UNLABELLED for name in names]
    index: Array = encoded.indices.fill_null(len(own)).to_numpy()
    return np.array([*own, UNLABELLED], np.int16)[index]


def _label_text(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    text = str(value).strip()
    return text.partition(".")[0] if WHOLE_NUMBER.fullmatch(text) else text


def class_indices(
    path: Path, codes: Array, names: list[str], classes: Sequence[str] | Mapping[str, str] | None
) -> tuple[Array, list[str]]:
    """Return the class index of each code, and the classes."""
    label_map = classes if isinstance(classes, Mapping) else {name: name for name in classes or sorted(names)}
    label_map = {_label_text(label): name for label, name in label_map.items()}
    ordered = class_names(label_map)
    counts = dict(zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True))
    index = classes_of_labels(path, counts, ordered, label_map, "sample")
    return np.array([*(index[name] for name in names), UNLABELLED], np.int16)[codes], ordered


def class_names(label_map: Mapping[str, str]) -> list[str]:
    """Return the classes of a map from label to class, in order; of names that differ only in case, the first.

    Examples
    --------
    >>> class_names({"1": "Walk", "2": "", "3": "sit", "4": "walk"})
    ['Walk', 'sit']
    """
    names: dict[str, str] = {}
    for name in label_map.values():
        names.setdefault(name.casefold(), name)
    return [name for name in names.values() if name]
