"""Parts of drawings and texts of the report, on small examples."""

from __future__ import annotations

import numpy as np
import pytest

from sight.results.report.axis import Axis, Piece
from sight.results.report.day_grid import _pieces
from sight.results.report.day_rows import _rectangles
from sight.results.report.fact_tables import fact_label
from sight.results.report.figures import _signed
from sight.results.report.glossary import term
from sight.results.report.html import figure, percent, tag
from sight.results.report.lanes import MAX_POINTS, envelope, limited_runs, runs, strokes
from sight.results.report.palette import class_colours, slots, stack_order, stylesheet


def axis(span):
    return Axis(1.0, span, (0.0, float(span)), (Piece(0, 0, 1.0),), False)


def test_elements_escape_text_and_write_attributes():
    element = tag("p", "a < b", tag("br"), class_="note", aria_label='say "hi"', hidden=True, title=None)
    assert element == '<p class="note" aria-label="say &quot;hi&quot;" hidden>a &lt; b<br></p>'


def test_a_term_has_its_definition_as_a_tooltip():
    title = "The label that came with the recording. The method never uses it."
    assert term("truth") == f'<abbr title="{title}" tabindex="0">truth</abbr>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([percent(v) for v in (0.1234, 1, 0, 0.0004)], ["12.3\xa0%", "100\xa0%", "0\xa0%", "<\xa00.1\xa0%"]),
        ([figure(v) for v in (12345, 0.98765, True, "chunk32")], ["12,345", "0.988", "yes", "chunk32"]),
        ([figure(v) for v in (None, float("nan"))], ["\N{EN DASH}"] * 2),
        ([_signed(v) for v in (1.24, -0.04, -3)], ["+1.2", "0.0", "\N{MINUS SIGN}3.0"]),
        ([fact_label(v) for v in ("rate_measured_hz", "label_rule", "s")], ["rate measured (Hz)", "label rule", "s"]),
    ],
)
def test_values_are_formatted(text, expected):
    assert text == expected


def test_ticks_are_at_round_times():
    assert axis(7200).ticks(limit=5) == [(0.0, "0:00"), (0.25, "0:30"), (0.5, "1:00"), (0.75, "1:30"), (1.0, "2:00")]


def test_adjacent_intervals_with_one_key_are_joined():
    found = runs(np.array([3, 3, 3, 1]), np.array([0, 1, 5, 6]), np.array([1, 2, 6, 7]))
    assert [a.tolist() for a in found] == [[3, 3, 1], [0, 5, 6], [2, 6, 7]]


def test_lanes_of_many_runs_are_drawn_from_some_of_the_windows():
    alternating = np.arange(100_000)
    key, _, end, n = limited_runs(alternating % 3, alternating, alternating + 1)
    assert (len(key), end[-1], n) == (25_000, 100_000, 4)


def test_a_trace_is_reduced_to_minimum_maximum_and_mean():
    _, levels = envelope(axis(100_000), np.arange(1e5) % 2, np.arange(1e5))
    assert levels.size <= MAX_POINTS
    assert levels[:, 0].round(1).tolist() == [0.0, 1.0, 0.5]


def test_paths_join_what_touches():
    assert strokes(np.array([0, 12]), np.array([5, 15])) == "M0 .5m0 0h5m7 0h3"
    assert _rectangles(np.array([0, 0, 5]), np.array([100, 100, 5])) == "M0 0h2v100h-2z"


def test_intervals_are_cut_at_the_edges_of_parts_of_a_day():
    found = _pieces(np.array([1.0, 9]), np.array([4.0, 25]), np.array([0, 10, 20]))
    pieces = [[values.tolist() for values in piece] for piece in found]
    assert pieces == [[[0, 1], [0, 0], [3.0, 1.0]], [[1], [1], [10.0]]]


def test_colours_depend_on_words_and_not_on_spelling():
    assert slots(["walking", "WALKING_UPSTAIRS", "sitting"]) == slots(["Walking", "walking upstairs", "sit"])
    assert class_colours(["Sitting", "walking"]) == [("#0072b2", "#2b8fd6"), ("#009e73", "#1fb48b")]
    assert stack_order(["running", "sitting", "walking"]) == [1, 2, 0]


def test_the_style_sheet_has_colours_on_light_and_on_dark():
    dark = "@media screen and (prefers-color-scheme:dark){:root{--k0:#2b8fd6;--bed:#5a5f90}}"
    rules = ".k0{--k:var(--k0)}.bed{--k:var(--bed)}"
    assert stylesheet(class_colours(["sitting"])) == f":root{{--k0:#0072b2;--bed:#8d93bd}}{dark}{rules}"
