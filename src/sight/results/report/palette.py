"""Colours of classes by their name, the same in reports of all models and on the pages of the service.

A name is compared with words such as "walk" or "sit". Related classes have related colours: blue for postures, green
for walking, orange for stairs and running, brown for eating. A name without a known word takes a spare colour that
depends only on the name, unless another class of the model has it already.
"""

import re
from collections.abc import Sequence
from functools import reduce

#: Colour of each known kind of class on light and on dark, from rest to vigorous activity.
KINDS = {
    "lying": ("#323aa2", "#4b50d1"),
    "sitting": ("#0072b2", "#2b8fd6"),
    "vehicle": ("#313947", "#828e9b"),
    "typing": ("#838ecb", "#6b67b5"),
    "writing": ("#5a30c9", "#8c5af9"),
    "drinking": ("#423317", "#f9debc"),
    "soup": ("#785b34", "#a1855f"),
    "pasta": ("#efb288", "#ebb796"),
    "chips": ("#753605", "#e48957"),
    "sandwich": ("#a57a4f", "#82603f"),
    "eating": ("#c09b7d", "#d0a670"),
    "washing": ("#77dbdb", "#71ecf1"),
    "standing": ("#56b4e9", "#85cbfb"),
    "hand": ("#642563", "#9a5494"),
    "household": ("#a3a45d", "#c3d85e"),
    "clapping": ("#934b5d", "#d291ac"),
    "catching": ("#bb408a", "#b91469"),
    "dribbling": ("#ec73a7", "#c45f85"),
    "kicking": ("#773b83", "#c166c6"),
    "walking": ("#009e73", "#1fb48b"),
    "shuffling": ("#97c5ad", "#4d8c75"),
    "downstairs": ("#d5bc64", "#f5d17c"),
    "stairs": ("#e69f00", "#eaa92a"),
    "upstairs": ("#9d5f03", "#ba7b04"),
    "cycling": ("#bdda78", "#c2f45e"),
    "running": ("#d55e00", "#c05803"),
    "vigorous": ("#ee4352", "#d31e32"),
    "transition": ("#726f68", "#bdb6a9"),
}
#: Colours of classes without a known word, and of a second class of the same kind.
SPARE = (
    *(("#44aa99", "#5cc3b2"), ("#cc6677", "#dd7f8f"), ("#6f9f3a", "#88b953"), ("#7b4fa3", "#9a6fc2")),
    *(("#c4a000", "#d9b820"), ("#2f6f8f", "#4a8dae"), ("#e07b6a", "#ec9485"), ("#4b6cb7", "#6685cf")),
    *(("#999933", "#b3b34d"), ("#a65d8e", "#c07aa8"), ("#557755", "#739673"), ("#b0663c", "#c88257")),
)
#: Beginnings of words and the kind that they mean; the first that occurs in a name decides.
WORDS = {
    **{"to": "transition", "transition": "transition", "elevator": "vehicle", "car": "vehicle", "bus": "vehicle"},
    **{"driv": "vehicle", "vehicle": "vehicle", "train": "vehicle", "transport": "vehicle"},
    **{"cycl": "cycling", "bicycl": "cycling", "bik": "cycling", "downstair": "downstairs", "descend": "downstairs"},
    **{"upstair": "upstairs", "ascend": "upstairs", "climb": "upstairs", "stair": "stairs"},
    **{"run": "running", "jog": "running", "vigorous": "vigorous", "mvpa": "vigorous", "jump": "vigorous"},
    **{"sport": "vigorous", "exercis": "vigorous", "shuffl": "shuffling", "walk": "walking", "gait": "walking"},
    **{"lying": "lying", "laying": "lying", "lie": "lying", "sleep": "lying", "sit": "sitting", "seated": "sitting"},
    **{"sedentary": "sitting", "inactive": "sitting", "still": "sitting", "rest": "sitting", "stand": "standing"},
    **{"typ": "typing", "comput": "typing", "desk": "typing", "writ": "writing", "drink": "drinking"},
    **{"soup": "soup", "pasta": "pasta", "chips": "chips", "sandwich": "sandwich", "eat": "eating"},
    **{"teeth": "washing", "brush": "washing", "wash": "washing", "hygiene": "washing", "hand": "hand"},
    **{"fold": "household", "house": "household", "cook": "household", "clean": "household", "light": "household"},
    **{"clap": "clapping", "catch": "catching", "dribbl": "dribbling", "kick": "kicking"},
    **{"up": "upstairs", "down": "downstairs"},
}
#: Short words that begin others ("toast", "carry", "restaurant") and therefore match only as a whole.
WHOLE_WORDS = ("to", "up", "car", "bus", "train", "rest", "light", "hand")
#: Colour of time in bed, which is no class, on light and on dark.
IN_BED = ("#8d93bd", "#5a5f90")
#: Colours of lines and bars that are not classes.
SERIES = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"),
    *("#b8a800", "#7d828a", "#332288", "#882255", "#117733", "#8c6d4f"),
)
#: All colours; the place of a colour is the number that `slots` returns.
COLOURS = (*KINDS.values(), *SPARE)


def slots(classes: Sequence[str]) -> list[int]:
    """Return the place in `COLOURS` of each class.

    Of several classes of one kind, the one with the shortest name has the colour of the kind; the others take spare
    colours. Colours repeat if a model has more such classes than there are spare colours.
    """
    taken: set[int] = set()
    found = [0] * len(classes)
    for k in sorted(range(len(classes)), key=lambda k: (len(classes[k]), classes[k])):
        slot = _slot_of_kind(classes[k])
        if slot is None or slot in taken:
            first = reduce(lambda value, byte: (31 * value + byte) % 2**32, classes[k].lower().encode(), 0)
            wanted = [len(KINDS) + (first + i) % len(SPARE) for i in range(len(SPARE))]
            slot = next((spare for spare in wanted if spare not in taken), wanted[0])
        taken.add(slot)
        found[k] = slot
    return found


def class_colours(classes: Sequence[str]) -> list[tuple[str, str]]:
    """Return the colour of each class on light and on dark."""
    return [COLOURS[slot] for slot in slots(classes)]


def stack_order(classes: Sequence[str]) -> list[int]:
    """Return the indices of the classes from rest to vigorous activity, the order in which drawings stack them."""
    places = slots(classes)
    return sorted(range(len(classes)), key=places.__getitem__)


def stylesheet(colours: Sequence[tuple[str, str]]) -> str:
    """Return CSS with the properties `--k0`, `--k1` ..., `--bed` and a class for each; print uses the light colours."""
    named = [*((f"k{i}", pair) for i, pair in enumerate(colours)), ("bed", IN_BED)]
    light, dark = (";".join(f"--{name}:{pair[scheme]}" for name, pair in named) for scheme in (0, 1))
    rules = "".join(f".{name}{{--k:var(--{name})}}" for name, _ in named)
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}"


def _slot_of_kind(name: str) -> int | None:
    words = re.findall("[a-z]+", name.lower())
    for start, kind in WORDS.items():
        if any(word == start if start in WHOLE_WORDS else word.startswith(start) for word in words):
            return list(KINDS).index(kind)
    return None
