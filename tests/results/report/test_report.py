"""The report in a browser without network, at the widths of a desktop and of a phone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from sight.registry import method
from sight.results.prediction_loop import run
from sight.results.report import write_report
from sight.results.report.document import render
from sight.results.report.lanes import MAX_POINTS, MAX_RUNS
from sight.results.summary import ResultSummary
from sight.testing import ToySource, toy_stream
from sight.types import Result, Windows

NAMES = ("lying", "sitting", "standing", "walking", "<img src=x onerror=alert(1)> & \"quotes\" 'here'")


def morning(n: int = 900, names: tuple[str, ...] = NAMES, **changes) -> Windows:
    """Return windows of two seconds from 8:00 on, with two gaps and some non-wear time."""
    gap = np.zeros(n)
    gap[[n // 4, n // 2]] = 120, 600
    wear = np.ones(n, bool)
    wear[n // 3 : n // 3 + n // 20] = False
    plain = toy_stream(ToySource(classes=len(names)), n=n, noise=1.5)
    facts = {"time_s": np.arange(n) + np.cumsum(np.where(gap > 0, gap + 1, 0)), "gap_before_s": gap, "wear": wear}
    return replace(plain, **{**facts, "start": datetime(2025, 3, 3, 8, tzinfo=UTC), **changes})


def run_method(windows: Windows, name: str = "sight", names: tuple[str, ...] = NAMES) -> Result:
    source = ToySource(classes=len(names))
    source.classes = names
    return run(method(name).bind(source), windows)


@pytest.fixture(scope="module")
def result() -> Result:
    return run_method(morning())


@pytest.fixture(scope="module")
def report(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    info = {"subject": "S<08>", "input": {"file": "</script><script>alert(1)</script>.cwa"}}
    info["title"] = "Monday & <b>more</b>"
    others = [run_method(result.windows, "ema")]
    return write_report(path, ResultSummary(result, info=info), others=others)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (320, "light")])
def test_page_has_no_messages_and_does_not_scroll_sideways(opened, report, width, scheme):
    page = opened(report, width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.mouse.move(width / 2, 300)
    assert page.messages == [f"request: {report.as_uri()}"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_details_have_names_in_words(opened, report):
    names = opened(report).locator(".facts th")
    assert not [name for name in names.all_text_contents() if "_" in name]
    assert "stride (s)" in names.all_text_contents()
    assert "stride_s" in [name.get_attribute("title") for name in names.all()]


def test_light_and_dark_differ_and_print_is_light(opened, report):
    paint = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(report, scheme="light"), opened(report, scheme="dark")
    assert light.evaluate(paint) != dark.evaluate(paint)
    dark.emulate_media(media="print", color_scheme="dark")
    assert dark.evaluate(paint) == "rgb(255, 255, 255)"


def test_drawings_and_controls_have_labels(opened, report):
    page = opened(report)
    drawn = page.locator("svg").all()
    assert len(drawn) == 6  # truth, raw, ema, refined, low confidence, surprise
    assert all(svg.get_attribute("role") == "img" and svg.get_attribute("aria-label") for svg in drawn)
    for control in page.locator("button, [role=region]").all():
        assert control.get_attribute("aria-label")
    assert page.locator("h1").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"


def test_user_texts_are_escaped(opened, report):
    page = opened(report)
    assert page.locator("img, h1 b").count() == 0
    assert page.locator("h1").inner_text() == "Monday & <b>more</b>"
    assert NAMES[-1] in page.locator(".legend").inner_text()
    assert "S<08>" in page.locator(".byline").inner_text()
    assert "8:00" in page.locator(".byline").inner_text()


def test_tooltip_shows_the_classes_at_the_pointer(opened, report, result):
    page = opened(report)
    at = 200  # before the first gap, so the position on the axis is the number of the window
    span = float(page.locator(".timeline").get_attribute("data-span"))
    box = page.locator(".band .field").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * (at + 0.5) / span, box["y"] + 5)
    lines = page.locator("#tip .line").all_inner_texts()
    expected = (result.windows.label[at], result.p[at].argmax(), result.q[at].argmax())
    for name, k in zip(("Truth", "Raw", "Refined"), expected, strict=True):
        (line,) = [text for text in lines if text.startswith(name)]
        assert NAMES[k] in line
    assert "08:03:2" in page.locator("#tip strong").inner_text()


def test_dragging_zooms_and_the_button_resets(opened, report):
    page = opened(report)
    lane = page.locator(".band svg").first
    whole = lane.get_attribute("viewBox")
    box = lane.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5, steps=3)
    page.mouse.up()
    start, _, width, _ = map(float, lane.get_attribute("viewBox").split())
    span = float(whole.split()[2])
    assert (start / span, width / span) == pytest.approx((0.25, 0.25), abs=0.01)
    page.get_by_role("button", name="Show the whole recording").click()
    assert lane.get_attribute("viewBox") == whole


def test_definitions_open_with_the_keyboard(opened, report):
    page = opened(report)
    page.locator("abbr").first.focus()
    assert "label that came with the recording" in page.locator("#tip").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_confusions_agree_with_scikit_learn(opened, report, result):
    from sklearn.metrics import confusion_matrix

    page = opened(report)
    table = confusion_matrix(result.windows.label, result.q.argmax(axis=1), labels=range(len(NAMES)))
    share = 100 * table / table.sum(axis=1, keepdims=True)
    rows = page.get_by_role("region", name="Confusion matrix of refined predictions").locator("tbody tr").all()
    for row, expected, counts in zip(rows, share, table, strict=True):
        for cell, value, count in zip(row.locator("td").all_inner_texts(), expected, counts, strict=True):
            assert cell == ("" if not count else "<1" if value < 0.5 else f"{value:.0f}")


def test_time_use_adds_up_to_worn_time(opened, report, result):
    page = opened(report)
    worn = result.windows.wear
    w = result.windows
    last_of_stretch = np.append(w.gap_before_s[1:] > 0, True)
    seconds = np.where(last_of_stretch, w.window_s, w.stride_s)
    expected = [seconds[worn & (result.q.argmax(axis=1) == k)].sum() / 60 for k in range(len(NAMES))]
    minutes = [float(row.locator("td").nth(2).inner_text()) for row in page.locator(".timeuse tbody tr").all()]
    assert minutes == pytest.approx(expected, abs=0.051)


def test_best_of_each_column_is_bold(opened, report):
    table = opened(report).locator(".methods")
    assert table.locator("thead th").first.inner_text() == "Method"
    assert table.locator("tbody th").all_inner_texts() == ["raw", "ema", "sight"]
    for column, best in ((2, max), (4, min)):  # accuracy, calibration error
        cells = table.locator(f"tbody td:nth-child({column + 1})")
        bold = cells.locator("strong").all_inner_texts()
        assert bold
        assert set(map(float, bold)) == {best(map(float, cells.all_inner_texts()))}


def test_the_title_names_the_wearer(result):
    assert "<h1>Activities of P01</h1>" in render(ResultSummary(result, info={"subject": "P01"}), [])
    assert "<h1>Activities of one wearer</h1>" in render(ResultSummary(result), [])


def test_unlabelled_stream_without_start_time(opened, tmp_path):
    windows = morning(label=np.full(900, -1), start=None)
    page = opened(write_report(tmp_path / "r.html", ResultSummary(run_method(windows, "none"))), 390)
    assert page.messages == [f"request: {(tmp_path / 'r.html').as_uri()}"]
    assert page.locator(".methods, .matrix").count() == 0
    assert page.locator(".ticks span").first.inner_text() == "0:00"


def alternating(n: int, k: int = 12) -> Result:
    """Return the largest page for n windows: nearly every window differs from the one before, in every lane."""
    rng = np.random.default_rng(0)
    names = tuple(f"activity {i}" for i in range(k))
    p, q = (rng.dirichlet(np.full(k, 0.3), size=n) for _ in range(2))
    windows = Windows(
        x=np.zeros((n, 1, 1), np.float32),
        time_s=np.arange(n, dtype=float),
        label=rng.integers(k, size=n),
        gap_before_s=np.zeros(n),
        window_s=1.0,
        stride_s=1.0,
    )
    trace = {"surprise": rng.random(n)}
    return Result(method="none", params={}, classes=names, p=p, q=q, windows=windows, trace=trace)


@pytest.mark.parametrize("n", [1, 2, 100_000])
def test_page_stays_small_for_any_length(opened, tmp_path, n):
    path = write_report(tmp_path / "r.html", ResultSummary(alternating(n)))
    assert path.stat().st_size < 2_000_000
    text = path.read_text("utf-8")
    lanes = re.findall(r"<svg.*?</svg>", text)
    assert max(len(re.findall(r"h\d+", lane)) for lane in lanes) <= MAX_RUNS + 1  # and the cover below them
    area, mean = (re.search(rf'<path d="([^"]*)" class="{kind}"', text).group(1) for kind in ("area", "mean"))
    assert 1 <= len(re.findall("[ML]", area + mean)) <= MAX_POINTS
    assert opened(path).messages == [f"request: {path.as_uri()}"]


def test_results_of_other_streams_raise(result, tmp_path):
    other = run_method(morning(n=500))
    with pytest.raises(ValueError, match="one stream"):
        write_report(tmp_path / "r.html", ResultSummary(result), others=[other])
    assert list(tmp_path.iterdir()) == []


def test_predictions_of_wrong_shape_raise(result, tmp_path):
    with pytest.raises(ValueError, match=r"Expected q of shape \(900, 5\)"):
        ResultSummary(replace(result, q=result.q[:10]))
