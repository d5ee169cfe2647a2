"""The live page in a browser, on a desktop and a phone, across a kill of the service; and rules for both pages."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from tests.apps.serve.pages.page_helpers import PageService, SyntheticWearer, expect, wait_for, windows_shown


def assert_all_shown(page, wearer: SyntheticWearer) -> None:
    assert wait_for(lambda: windows_shown(page), wearer.windows) == wearer.windows


def test_predictions_appear_as_they_are_made(opened, anna):
    page = opened("/#anna")
    expect(page.locator("#connection")).to_have_text("connected")
    assert_all_shown(page, anna)
    last = anna.send(20)[-1]
    assert_all_shown(page, anna)
    expect(page.locator("#latest .refined")).to_contain_text(last["label"])
    expect(page.locator("#latest .raw")).to_contain_text(last["raw"])
    page.locator("#table summary").click()
    row = page.locator("#rows tr").first.locator("td").all_inner_texts()
    assert row[1] == f"{last['label']} {round(100 * max(last['q']))} %"
    assert row[3] == f"{last['surprise']:.2f}"
    assert page.locator("#latency").inner_text().endswith("ms")
    assert page.messages == []


def test_the_adaptation_is_that_of_the_service(opened, service, anna):
    page = opened("/#anna")
    expect(page.locator("#frequencies li")).to_have_count(7)
    adaptation = service.request("/v1/wearers/anna")["adaptation"]
    frequencies = page.locator("#frequencies .number").all_inner_texts()
    assert frequencies == [f"{int(100 * share + 0.5)} %" for share in adaptation["class_frequencies"]]
    cells = page.locator("#similarity tbody tr").nth(2).locator("td").all_inner_texts()
    shown = [float(text.replace("-.", "-0.") if text.startswith("-") else text) for text in cells]
    assert shown == pytest.approx(adaptation["similarity"][2], abs=0.0051)
    assert page.locator("#count").inner_text() == str(adaptation["count"])
    share = "bars => bars.map((bar) => +bar.style.getPropertyValue('--share'))"
    assert page.locator("#frequencies .bar").evaluate_all(share) == pytest.approx(adaptation["class_frequencies"])
    expect(page.locator("#similarity-note")).to_contain_text("this wearer")


def test_arrows_and_search_select_a_wearer(opened, anna, bela):
    page = opened("/#anna")
    options = page.get_by_role("listbox", name="Wearers").get_by_role("option")
    expect(options).to_have_count(2)
    expect(page.locator("#connection")).to_have_text("connected")
    options.filter(has_text="anna").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#name")).to_have_text("bela")
    assert_all_shown(page, bela)
    assert page.url.endswith("#bela")
    expect(page.locator("#wearers [aria-selected=true]")).to_have_count(1)
    search = page.get_by_role("searchbox", name="Find a wearer")
    for text, key, wearer in (("ann", "ArrowDown", "anna"), ("bel", "Enter", "bela"), ("ann", "Enter", "anna")):
        search.fill(text)
        expect(options).to_have_count(1)
        page.keyboard.press(key)
        expect(page.locator("#name")).to_have_text(wearer)
    anna.send(20)
    assert_all_shown(page, anna)
    assert page.messages == []


def test_the_list_shows_the_latest_prediction_of_each_wearer(opened, service, anna, bela):
    """Also of wearers that are not watched, and of one that has sent nothing."""
    service.request("/v1/wearers/cleo", {}, "PUT")
    try:
        page = opened("/#anna")
        options = page.get_by_role("listbox", name="Wearers").get_by_role("option")
        expect(options.filter(has_text="cleo")).to_have_attribute("aria-label", "cleo: no predictions yet")
        label = bela.send(20)[-1]["label"]
        expect(options.filter(has_text="bela")).to_have_attribute("aria-label", f"bela: live, {label}")
        assert page.messages == []
    finally:
        service.request("/v1/wearers/cleo", method="DELETE")


def test_pause_stops_the_view_and_resume_catches_up(opened, bela):
    page = opened("/#bela")
    assert_all_shown(page, bela)
    page.get_by_role("button", name="Pause").click()
    before = windows_shown(page)
    bela.send(20)
    page.wait_for_timeout(500)
    assert windows_shown(page) == before
    page.get_by_role("button", name="Resume").click()
    assert_all_shown(page, bela)


def test_a_longer_span_requests_the_missing_events(opened, service):
    cleo = SyntheticWearer(service, "cleo", "W06")
    cleo.send(700)
    page = opened("/#cleo")
    assert wait_for(lambda: windows_shown(page) in range(295, 305), True)
    page.get_by_role("button", name="30 minutes").click()
    assert_all_shown(page, cleo)
    page.get_by_role("button", name="1 minute").click()
    assert wait_for(lambda: windows_shown(page) in range(57, 64), True)
    service.request("/v1/wearers/cleo", method="DELETE")


@pytest.mark.long
def test_the_page_reconnects_after_a_kill_and_misses_nothing(opened, exported, tmp_path):
    service = PageService(tmp_path, exported).start()
    try:
        dora = SyntheticWearer(service, "dora", "W07")
        dora.send(20)
        page = opened("/", of=service)
        assert_all_shown(page, dora)
        assert page.messages == []
        service.kill()
        expect(page.locator("#connection")).to_contain_text("no connection")
        service.start()
        dora.send(40)  # partly before the page is connected again
        expect(page.locator("#connection")).to_have_text("connected", timeout=20_000)
        assert_all_shown(page, dora)
        dora.send(20)
        assert_all_shown(page, dora)
        page.locator("#table summary").click()
        times = [row.locator("td").first.inner_text() for row in page.locator("#rows tr").all()]
        seconds = [int(text[-2:]) + 60 * int(text[-5:-3]) for text in times]
        assert all(later - earlier == 1 for later, earlier in pairwise(seconds))
        allowed = ("WebSocket connection", "Failed to load resource")
        assert all(any(text in message for text in allowed) for message in page.messages)
    finally:
        service.kill()


@pytest.mark.long
def test_a_service_with_tokens_asks_for_one(opened, exported, tmp_path):
    service = PageService(tmp_path, exported)
    command = [sys.executable, "-m", "sight", "serve", "token", "add", "--data", str(tmp_path)]
    output = subprocess.run([*command, "--scopes", "ingest,read,admin"], capture_output=True, text=True, check=True)
    service.token = output.stdout.strip()
    service.start()
    try:
        emma = SyntheticWearer(service, "emma", "W08")
        emma.send(20)
        page = opened("/", of=service)
        field = page.get_by_role("textbox", name="Token")
        field.fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("#gate-note")).to_contain_text("does not accept this token")
        weak = subprocess.run([*command, "--scopes", "ingest"], capture_output=True, text=True, check=True)
        page.wait_for_timeout(1100)  # until the service checks its token file again
        field.fill(weak.stdout.strip())
        page.keyboard.press("Enter")
        expect(page.locator("#gate-note")).to_contain_text("scope read")
        assert "emma" not in page.inner_text("body")
        field.fill(service.token)
        page.keyboard.press("Enter")
        expect(page.locator("#name")).to_have_text("emma")
        assert_all_shown(page, emma)
        expect(field).to_be_hidden()
    finally:
        service.kill()


@pytest.mark.long
def test_a_service_without_wearers_offers_to_add_one(opened, exported, tmp_path):
    service = PageService(tmp_path, exported).start()
    try:
        page = opened("/", of=service)
        expect(page.locator("#empty")).to_be_visible()
        expect(page.locator("#view")).to_be_hidden()
        page.locator("#add-first").click()
        page.get_by_label("Name of the wearer").fill("me")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.locator("#send-command")).to_contain_text(f"--to {service.url}")
        row = json.loads(re.search(r"-d '(.*)'", page.locator("#curl").inner_text())[1])["values"][0]
        assert len(row) == 6
        page.get_by_role("button", name="Close").click()
        me = SyntheticWearer(service, "me", "W09", method="keel")
        me.send(20)
        assert_all_shown(page, me)
        assert page.messages == []
    finally:
        service.kill()


def test_a_wearer_is_added_downloaded_reset_and_deleted(opened, service, anna):
    page = opened("/#anna")
    page.get_by_role("button", name="Add a wearer").first.click()
    name = page.get_by_label("Name of the wearer")
    name.fill("not a name")
    page.get_by_role("button", name="Add", exact=True).click()
    assert name.evaluate("field => field.validity.patternMismatch")
    name.fill("dora")
    page.keyboard.press("Enter")
    expect(page.locator("#curl")).to_contain_text(f"{service.url}/v1/wearers/dora/samples")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#name")).to_have_text("dora")
    dora = SyntheticWearer(service, "dora", "W06", method="keel")
    events = dora.send(30)
    assert_all_shown(page, dora)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download predictions").click()
    with Path(saving.value.path()).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["window"]), row["refined"], row["raw"]) for row in rows] == [
        (event["window"], event["label"], event["raw"]) for event in events
    ]
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download all data").click()
    assert "state.safetensors" in zipfile.ZipFile(saving.value.path()).namelist()
    page.locator("#reset").click()
    page.get_by_role("button", name="Cancel").click()
    assert service.request("/v1/wearers/dora")["count"] == len(events)
    page.locator("#reset").click()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator("#latest")).to_have_text("No predictions yet.")
    assert service.request("/v1/wearers/dora")["count"] == 0
    page.locator("#delete").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#name")).to_have_text("anna")
    assert [row["wearer"] for row in service.request("/v1/wearers")["wearers"]].count("dora") == 0
    assert page.messages == []


@pytest.mark.long
def test_the_demo_shows_three_live_wearers_and_the_gain_of_adaptation(opened, tmp_path):
    service = PageService(tmp_path).start("--demo")
    try:
        page = opened("/", of=service)
        options = page.get_by_role("listbox", name="Wearers").get_by_role("option")
        expect(options).to_have_count(3, timeout=30_000)
        expect(options.first).to_have_attribute("aria-label", re.compile("live"))
        assert wait_for(lambda: windows_shown(page) > 120, True, 60)
        shares = [int(page.locator(f"#score-{name}").inner_text().removesuffix(" %")) for name in ("raw", "refined")]
        assert shares[1] > shares[0] + 10
        assert page.messages == []
    finally:
        service.kill()


# Both pages


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
@pytest.mark.parametrize("path", ["/#anna", "/device"])
def test_both_pages_fit_a_desktop_and_a_phone(opened, service, anna, path, width, scheme):
    page = opened(path, width, scheme, reduced_motion="reduce")
    expect(page.locator("#timeline canvas")).to_have_count(3, timeout=30_000)
    page.wait_for_load_state("networkidle") if path == "/device" else None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 251, 248)"
    assert light == (scheme == "light")
    own = (service.url, service.url.replace("http", "ws"), "data:")
    assert all(url.startswith(own) for url in page.urls)
    check_names(page)
    assert page.messages == []


def check_names(page):
    """Every control and chart has a name for screen readers, and ids are unique."""
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("h1").count() == 1
    name = "(node) => node.getAttribute('aria-label') || node.labels?.[0]?.innerText || node.textContent"
    controls = "button, input, select, [role=option], [role=img], summary, a"
    names = page.locator(controls).evaluate_all(f"nodes => nodes.map({name})")
    assert len(names) > 8
    assert all(text.strip() for text in names)
    labels = page.locator("[role=img]").evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-label'))")
    assert all(labels)
    ids = page.locator("[id]").evaluate_all("nodes => nodes.map((node) => node.id)")
    assert len(ids) == len(set(ids))
