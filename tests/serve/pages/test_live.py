"""The live page as its visitors meet it: a desk and a phone, a kill in between; and what both pages owe everybody."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.serve.pages.visits import Life, Service, expect, until, windows_shown


def test_it_connects_streams_and_tells(opened, anna, bela):
    page = opened("/#anna")
    expect(page.locator("#connection")).to_have_text("connected")
    before = until(lambda: windows_shown(page) > 0, True) and windows_shown(page)
    events = anna.live(20)
    assert until(lambda: windows_shown(page), before + len(events)) == before + len(events) == anna.at // 50 - 1
    last = events[-1]
    expect(page.locator("#now .answer")).to_contain_text(last["label"])
    expect(page.locator("#now .raw")).to_contain_text(last["raw"])
    page.get_by_text("The last windows in words").click()
    row = page.locator("#rows tr").first.locator("td").all_inner_texts()
    assert row[1] == f"{last['label']} {round(100 * max(last['q']))} %"
    assert row[3] == f"{last['surprise']:.2f}"
    assert page.locator("#latency").inner_text().endswith("ms")
    assert page.heard == []


def test_the_picture_is_what_the_service_says(opened, service, anna):
    page = opened("/#anna")
    expect(page.locator("#habit li")).to_have_count(7)
    facts = service.ask("/v1/wearers/anna")
    habit = page.locator("#habit .number").all_inner_texts()
    assert habit == [f"{int(100 * share + 0.5)} %" for share in facts["picture"]["habit"]]
    cells = page.locator("#similarity tbody tr").nth(2).locator("td").all_inner_texts()
    shown = [float(text.replace("-.", "-0.") if text.startswith("-") else text) for text in cells]
    assert shown == pytest.approx(facts["picture"]["similarity"][2], abs=0.0051)
    assert page.locator("#count").inner_text() == str(facts["picture"]["count"])
    bars = page.locator("#habit .bar").evaluate_all("all => all.map((bar) => +bar.style.getPropertyValue('--share'))")
    assert bars == pytest.approx(facts["picture"]["habit"], abs=1e-6)  # a full bar is everything
    expect(page.locator("#habit-note")).to_contain_text("short memory")
    expect(page.locator("#likeness-note")).to_contain_text("as this wearer has shaped them")


def test_arrows_switch_the_wearer_and_search_finds_one(opened, anna, bela):
    page = opened("/#anna")
    options = page.get_by_role("listbox", name="Wearers").get_by_role("option")
    expect(options).to_have_count(2)
    expect(page.locator("#connection")).to_have_text("connected")
    options.filter(has_text="anna").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#name")).to_have_text("bela")
    assert until(lambda: windows_shown(page), bela.at // 50 - 1) == bela.at // 50 - 1
    assert page.url.endswith("#bela")
    expect(page.locator("#wearers [aria-selected=true]")).to_have_count(1)
    search = page.get_by_role("searchbox", name="Find a wearer")
    for part, key, found in (("ann", "ArrowDown", "anna"), ("bel", "Enter", "bela"), ("ann", "Enter", "anna")):
        search.fill(part)
        expect(options).to_have_count(1)
        page.keyboard.press(key)
        expect(page.locator("#name")).to_have_text(found)
    anna.live(20)
    assert until(lambda: windows_shown(page), anna.at // 50 - 1) == anna.at // 50 - 1
    assert page.heard == []


def test_the_list_tells_what_everybody_did_last(opened, service, anna, bela):
    """Of those who are not watched too, and of one who has sent nothing."""
    service.ask("/v1/wearers/cleo", {}, "PUT")
    try:
        page = opened("/#anna")
        options = page.get_by_role("listbox", name="Wearers").get_by_role("option")
        expect(options.filter(has_text="cleo")).to_have_attribute("aria-label", "cleo: nothing yet")
        label = bela.live(20)[-1]["label"]
        expect(options.filter(has_text="bela")).to_have_attribute("aria-label", f"bela: live, {label}")
        assert page.heard == []
    finally:
        service.ask("/v1/wearers/cleo", method="DELETE")


def test_pause_holds_the_picture_and_resume_catches_up(opened, bela):
    page = opened("/#bela")
    until(lambda: windows_shown(page) > 0, True)
    page.get_by_role("button", name="Pause").click()
    held = windows_shown(page)
    bela.live(20)
    page.wait_for_timeout(500)
    assert windows_shown(page) == held
    page.get_by_role("button", name="Resume").click()
    assert until(lambda: windows_shown(page), bela.at // 50 - 1) == bela.at // 50 - 1


def test_long_spans_ask_for_what_the_greeting_left_out(opened, service):
    cleo = Life(service, "cleo", "W06")
    cleo.live(1000)
    page = opened("/#cleo")
    assert until(lambda: windows_shown(page) in range(295, 305), True)
    page.get_by_role("button", name="30 minutes").click()
    assert until(lambda: windows_shown(page), 999) == 999
    page.get_by_role("button", name="1 minute").click()
    assert until(lambda: windows_shown(page) in range(57, 64), True)
    service.ask("/v1/wearers/cleo", method="DELETE")


def test_it_comes_back_after_a_kill_and_misses_nothing(opened, plain, tmp_path):
    own = Service(tmp_path, plain).start()
    try:
        dora = Life(own, "dora", "W07")
        dora.live(20)
        page = opened("/", of=own)
        assert until(lambda: windows_shown(page), 19) == 19
        assert page.heard == []
        own.kill()
        expect(page.locator("#connection")).to_contain_text("no connection")
        own.start()
        dora.live(40)  # part of it before the page has found its way back
        expect(page.locator("#connection")).to_have_text("connected", timeout=20_000)
        assert until(lambda: windows_shown(page), 59) == 59
        dora.live(20)
        assert until(lambda: windows_shown(page), 79) == 79
        page.get_by_text("The last windows in words").click()
        times = [row.locator("td").first.inner_text() for row in page.locator("#rows tr").all()]
        seconds = [int(text[-2:]) + 60 * int(text[-5:-3]) for text in times]
        assert all(later - earlier == 1 for later, earlier in pairwise(seconds))
        allowed = ("WebSocket connection", "Failed to load resource")
        assert all(any(words in line for words in allowed) for line in page.heard)
    finally:
        own.kill()


@pytest.mark.long
def test_a_service_with_tokens_asks_for_one(opened, plain, tmp_path):
    own = Service(tmp_path, plain)
    command = [sys.executable, "-m", "sight", "serve", "token", "add", "--data", str(tmp_path)]
    said = subprocess.run([*command, "--scopes", "ingest,read,admin"], capture_output=True, text=True, check=True)
    own.token = said.stdout.strip()
    own.start()
    try:
        Life(own, "emma", "W08").live(20)
        page = opened("/", of=own)
        field = page.get_by_role("textbox", name="Token")
        field.fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("#gate-note")).to_contain_text("does not know this token")
        weak = subprocess.run([*command, "--scopes", "ingest"], capture_output=True, text=True, check=True)
        page.wait_for_timeout(1100)  # until the service looks at its tokens again
        field.fill(weak.stdout.strip())
        page.keyboard.press("Enter")
        expect(page.locator("#gate-note")).to_contain_text("ask for one with the scope read")
        assert "emma" not in page.inner_text("body")
        field.fill(own.token)
        page.keyboard.press("Enter")
        expect(page.locator("#name")).to_have_text("emma")
        assert until(lambda: windows_shown(page), 19) == 19
        expect(field).to_be_hidden()
    finally:
        own.kill()


@pytest.mark.long
def test_nobody_there_yet_is_told_what_to_do(opened, plain, tmp_path):
    own = Service(tmp_path, plain).start()
    try:
        page = opened("/", of=own)
        expect(page.locator("#curl")).to_contain_text(f"curl -X PUT {own.url}/v1/wearers/me")
        expect(page.locator("#view")).to_be_hidden()
        row = json.loads(re.search(r"-d '(.*)'", page.locator("#curl").inner_text())[1])["values"][0]
        assert own.ask("/v1/models")["models"][0]["channels"] == [f"{p}_{a}" for p in ("acc", "gyr") for a in "xyz"]
        assert len(row) == 6
        Life(own, "me", "W09").live(20)
        assert until(lambda: windows_shown(page), 19) == 19
        assert page.heard == []
    finally:
        own.kill()


@pytest.mark.long
def test_the_demo_moves_by_itself(opened, tmp_path):
    own = Service(tmp_path).start("--demo")
    try:
        page = opened("/", of=own)
        options = page.get_by_role("listbox", name="Wearers").get_by_role("option")
        expect(options).to_have_count(3, timeout=30_000)
        assert until(lambda: windows_shown(page) > 20, True, 30)
        expect(options.first).to_have_attribute("aria-label", re.compile("live"))
        expect(page.locator("#score")).to_have_text(re.compile(r"\d+ % raw, \d+ % refined"))
        assert page.heard == []
    finally:
        own.kill()


# Both pages


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("path", ["/#anna", "/device"])
def test_both_pages_fit_a_desk_and_a_phone(opened, service, anna, path, width, scheme):
    page = opened(path, width, scheme, reduced_motion="reduce")
    expect(page.locator("#timeline canvas")).to_have_count(3, timeout=30_000)
    page.wait_for_load_state("networkidle") if path == "/device" else None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 251, 248)"
    assert light == (scheme == "light")
    here = (service.url, service.url.replace("http", "ws"), "data:")
    assert all(url.startswith(here) for url in page.asked)
    assert page.heard == []


@pytest.mark.parametrize("path", ["/#anna", "/device"])
def test_everything_has_a_name(opened, anna, path):
    page = opened(path)
    expect(page.locator("#timeline canvas")).to_have_count(3, timeout=30_000)
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("h1").count() == 1
    controls = page.locator("button, input, select, [role=option], [role=img], summary, a").all()
    assert len(controls) > 8
    for control in controls:
        name = control.evaluate(
            "(node) => node.getAttribute('aria-label') || node.labels?.[0]?.innerText || node.textContent"
        )
        assert name.strip(), control
    for chart in page.get_by_role("img").all():
        assert chart.get_attribute("aria-label")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
