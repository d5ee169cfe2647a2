"""Class colours: fixed by name, distinguishable, and the same in Python and on the pages of the service."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import numpy as np
import pytest

from sight.results.report.palette import COLOURS, KINDS, SPARE, class_colours, slots

WISDM = (
    *("walking", "jogging", "stairs", "sitting", "standing", "typing", "teeth", "soup", "chips", "pasta"),
    *("drinking", "sandwich", "kicking", "catch", "dribbling", "writing", "clapping", "folding"),
)
HAPT = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
EVERYDAY = ("lying", "sitting", "standing", "walking", "stairs", "running", "cycling", "hand activity")
UNKNOWN = tuple(f"class {i}" for i in range(30))
LISTS = (WISDM, HAPT, EVERYDAY, UNKNOWN, ("sit", "sitting", "Sit to stand", "Ærø", "up", "upper body"), ())

#: Colours as seen with a colour-vision deficiency, linear RGB (Machado et al., 2009, severity 1).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    cones = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
    axes = [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]
    return np.array(axes) @ np.cbrt(np.array(cones) @ np.clip(rgb, 0, 1))


def smallest_distance(classes: tuple[str, ...], scheme: int, vision: str) -> float:
    seen = [oklab(np.array(VISION[vision]) @ linear(pair[scheme])) for pair in class_colours(classes)]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_visibly(scheme, vision):
    # 0.02 is a just noticeable difference in OKLab.
    assert smallest_distance(EVERYDAY, scheme, vision) > (0.13 if vision == "normal" else 0.06)
    assert smallest_distance(HAPT, scheme, vision) > (0.13 if vision == "normal" else 0.06)
    assert smallest_distance(WISDM, scheme, vision) > (0.09 if vision == "normal" else 0.05)


@pytest.mark.parametrize(("scheme", "paper", "least"), [(0, "#fcfbf8", 1.45), (1, "#15171b", 2.5)])
def test_colours_differ_from_the_page(scheme, paper, least):
    def luminance(colour):
        return float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05

    for pair in COLOURS:
        light, dark = sorted((luminance(pair[scheme]), luminance(paper)), reverse=True)
        assert light / dark > least, pair[scheme]


def test_a_name_has_one_colour_in_all_models():
    for shared in ("walking", "sitting", "standing"):
        found = {classes: class_colours(classes)[classes.index(shared)] for classes in (WISDM, HAPT, EVERYDAY)}
        assert len(set(found.values())) == 1
    assert slots(["Lying", "jogging"]) == slots(["laying", "running"])


def test_classes_of_one_model_never_share_a_colour():
    for classes in (*LISTS[:3], UNKNOWN[: len(SPARE)]):
        assert len(set(slots(classes))) == len(classes)


def test_the_shortest_name_of_a_kind_has_its_colour():
    walking = list(KINDS).index("walking")
    names = ["nordic walking", "walking", "walking a dog"]
    assert [slot == walking for slot in slots(names)] == [False, True, False]


def test_transitions_and_parts_of_words():
    kinds = list(KINDS)
    assert [kinds[slot] for slot in slots(["stand to sit", "cycling (sit)", "stairs (ascending)", "carrying"])[:3]] == [
        *("transition", "cycling", "upstairs")
    ]
    assert slots(["carrying"])[0] >= len(kinds)  # not "car"


def test_the_pages_assign_the_same_colours(browser):
    folder = files("sight.apps.serve") / "static" / "js"
    text = "".join((folder / name).read_text("utf-8") for name in ("palette_words.js", "palette.js"))
    script = re.sub(r"^import .*$|^export ", "", text, flags=re.MULTILINE)
    page = browser.new_page()
    found = page.evaluate(f"(lists) => {{ {script}; return lists.map(slots); }}", [list(names) for names in LISTS])
    page.close()
    assert found == [slots(names) for names in LISTS]
