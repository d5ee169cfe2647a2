"""The two pages as their visitors meet them: a browser, the real service, a desk and a phone, and a kill in between."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic
from sight.serve.assets import STATIC, colours, unpack
from sight.signal.ring import Windower
from sight.sources.fused import FusedSession

MODEL = STATIC / "model.onnx"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


class Service:
    """A `sight serve` of our own, on one port and one folder through all its lives."""

    def __init__(self, folder: Path, *models: Path) -> None:
        self.folder, self.models = folder, models
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.token: str | None = None

    def start(self, *options: str) -> Service:
        named = [text for path in self.models for text in ("-m", str(path))]
        command = [sys.executable, "-m", "sight", "serve", "--data", str(self.folder), "--port", str(self.port)]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen([*command, *named, *options], stdout=log, stderr=log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=2).close()
                return self
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        raise RuntimeError(f"the service did not start: {(self.folder / 'log').read_text()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, path: str, content=None, method: str | None = None):
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")


class Life:
    """Somebody's day, sent to the service second by second."""

    def __init__(self, service: Service, wearer: str, person: str) -> None:
        self.service, self.wearer, self.at = service, wearer, 0
        self.values = next(Synthetic(hours=0.5, gaps_per_hour=0).recordings(person)).values
        service.ask(f"/v1/wearers/{wearer}", {"method": "sight"}, "PUT")

    def live(self, seconds: int) -> list[dict]:
        """Send so many seconds; return the answers."""
        events = []
        for _ in range(0, seconds, 100):
            step = min(100, seconds) * 50
            rows = self.values[self.at : self.at + step].astype(float).round(4).tolist()
            self.at += step
            events += self.service.ask(f"/v1/wearers/{self.wearer}/samples", {"values": rows})["events"]
        return events


@pytest.fixture(scope="module")
def trained():
    """A small classifier of synthetic people."""
    from sight.train import train

    people = Synthetic(hours=0.1)
    facts = {"channels": people.channels, "units": people.units, "encoder_args": {"width": 16, "depth": 1}}
    windows = [windows_of(people, person) for person in ("W01", "W02")]
    return train(windows, people.classes, encoder="transformer", epochs=3, **facts)


@pytest.fixture(scope="module")
def plain(trained, tmp_path_factory):
    """The classifier as the service takes it."""
    from sight.sources.export import export_onnx

    return export_onnx(trained, tmp_path_factory.mktemp("model") / "small.onnx")


@pytest.fixture(scope="module")
def service(plain, tmp_path_factory):
    started = Service(tmp_path_factory.mktemp("service"), plain).start()
    yield started
    started.kill()


@pytest.fixture(scope="module")
def anna(service):
    life = Life(service, "anna", "W04")
    life.live(40)
    return life


@pytest.fixture(scope="module")
def bela(service):
    life = Life(service, "bela", "W05")
    life.live(20)
    return life


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        message = "no browser to open the pages with; run: apt-get install chromium"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=[*QUIET, "--disable-sync", "--no-first-run"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, service):
    """Open a page of the service; complaints are kept in `page.heard`, addresses in `page.asked`."""
    contexts = []

    def visit(path, width=1200, scheme="light", of=service, context=None, **more):
        settings = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, **more}
        context = context or browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.heard, page.asked = [], []
        page.on("console", lambda message: page.heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.heard.append(f"error: {error}"))
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("websocket", lambda line: page.asked.append(line.url))
        page.goto(of.url + path)
        return page

    yield visit
    for context in set(contexts):
        context.close()


def expect(locator):
    from playwright.sync_api import expect as really

    return really(locator)


def device(opened, **how):
    page = opened("/device", **how)
    expect(page.locator("html[data-ready]")).to_have_count(1, timeout=30_000)
    return page


def play(page) -> None:
    """Let the whole recording pass."""
    page.get_by_label("Speed of the recording").select_option("0")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("The recording is over", timeout=60_000)


def windows_shown(page) -> int:
    found = re.search(r"(\d+) windows", page.locator("#timeline").get_attribute("aria-label"))
    return int(found.group(1)) if found else 0


def until(ask, wanted, seconds: float = 15):
    """Wait until `ask` answers as wanted; return what it said last."""
    end = time.monotonic() + seconds
    while (said := ask()) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return said


# What is served


def test_colours_are_those_of_the_report():
    assert (STATIC / "palette.css").read_text() == colours()


def test_packages_are_the_ones_that_were_read():
    text = (STATIC / "vendor" / "VENDOR.md").read_text()
    said = dict(re.findall(r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", text))
    files = {path.name: path for path in (STATIC / "vendor").iterdir() if path.name != "VENDOR.md"}
    assert set(said) == set(files)
    for name, path in files.items():
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert hashlib.sha256(content).hexdigest() == said[name], name


def test_the_bundled_model_names_no_machine_and_stays_small():
    assert MODEL.stat().st_size < 300_000
    assert b"site-packages" not in MODEL.read_bytes()
    assert b"/home/" not in MODEL.read_bytes()


# In the browser


def answers_of_python(model: Path):
    """The bundled recording through the Python runner: time, gap, q, p, surprise of each window."""
    facts = json.loads((STATIC / "recording.json").read_text())
    values, time_s = unpack((STATIC / "recording.bin").read_bytes(), facts)
    live = Windower(rate_in_hz=50, rate_hz=50, channels=6, window_s=2, stride_s=1)
    windows, session = live.push(values, time_s), FusedSession(model)
    assert (windows.gap_before_s > 0).sum() == 1
    rows = []
    for x, start_s, gap_s in zip(windows.x, windows.time_s, windows.gap_before_s, strict=True):
        if gap_s:
            session.gap(gap_s)
        rows.append((start_s, gap_s, *session.step(x)))
    return session.classes, rows


@pytest.fixture(scope="module")
def reference():
    return answers_of_python(MODEL)


def saved_answers(page) -> list[dict[str, str]]:
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save answers").click()
    with Path(saving.value.path()).open(newline="") as file:
        return list(csv.DictReader(file))


def compare(found, reference) -> None:
    classes, rows = reference
    for line, (start_s, gap_s, q, p, surprise) in zip(found, rows, strict=True):
        assert (float(line["time_s"]), float(line["gap_s"])) == pytest.approx((start_s, gap_s), abs=1e-6)
        assert (line["refined"], line["raw"]) == (classes[q.argmax()], classes[p.argmax()])
        shares = [[float(line[f"{kind}_{name}"]) for name in classes] for kind in "qp"]
        assert np.abs(np.array(shares) - [q, p]).max() < 1e-4
        assert float(line["surprise"]) == pytest.approx(surprise, abs=1e-4)


def test_in_the_browser_answers_are_those_of_python(opened, reference):
    page = device(opened)
    play(page)
    found = saved_answers(page)
    assert len(found) == len(reference[1]) == int(page.locator("#count").inner_text())
    compare(found, reference)
    assert page.heard == []


def test_nothing_leaves_the_device(opened, service):
    page = device(opened)
    before = list(page.asked)
    play(page)
    saved_answers(page)
    assert [url for url in page.asked if url.startswith("http")] == [url for url in before if url.startswith("http")]
    assert all(url.startswith(service.url) for url in before)
    assert page.evaluate("fetch('/healthz').then(() => 'sent', () => 'refused')") == "refused"
    page.evaluate("navigator.sendBeacon('/healthz', 'x')")
    page.wait_for_timeout(200)
    assert not any("healthz" in url for url in page.asked if url not in before)


def test_closing_and_opening_goes_on_and_forget_forgets(opened, reference):
    page = device(opened)
    page.get_by_label("Speed of the recording").select_option("60")
    page.get_by_role("button", name="Start").click()
    until(lambda: int(page.locator("#count").inner_text()) > 60, True)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    page.wait_for_timeout(200)
    seen = int(page.locator("#count").inner_text())
    page.close()
    again = device(opened, context=page.context)
    assert int(again.locator("#count").inner_text()) == seen
    assert f"{seen} windows remembered" in again.get_by_role("status").inner_text()
    play(again)
    later = saved_answers(again)
    assert [int(line["window"]) for line in later] == list(range(seen, len(reference[1])))
    compare(later, (reference[0], reference[1][seen:]))
    again.get_by_role("button", name="Forget").click()
    expect(again.get_by_role("status")).to_contain_text("Forgotten")
    assert again.locator("#count").inner_text() == "0"
    again.close()
    assert device(opened, context=page.context).locator("#count").inner_text() == "0"


def test_a_phone_that_moves_is_heard(opened):
    """Real devicemotion events at some 60 Hz, the phone upright in a pocket, take the same way as the recording."""
    page = device(opened, width=390)
    page.locator("#from-sensor").check()
    page.get_by_label("The phone is worn").select_option("pocket")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("Listening")
    page.evaluate(
        """() => new Promise((done) => {
            let sent = 0;
            const timer = setInterval(() => {
                const felt = { x: 0, y: 9.81, z: 0 }, spin = { alpha: 0, beta: 0, gamma: 0 };
                const told = { accelerationIncludingGravity: felt, rotationRate: spin, interval: 16 };
                dispatchEvent(new DeviceMotionEvent("devicemotion", told));
                if ((sent += 1) > 260) { clearInterval(timer); done(); }
            }, 16);
        })"""
    )
    expect(page.locator("#now")).to_contain_text("standing")
    assert int(page.locator("#count").inner_text()) >= 2
    page.get_by_role("button", name="Stop").click()
    assert page.heard == []


def test_windows_in_the_browser_are_those_of_python(opened):
    """Random clocks with repeats, steps back, NaN, lost samples and gaps, at the model's own rate."""
    rng = np.random.default_rng(3)
    tick = np.cumsum(rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 2, 120], size=3000, p=[0.1246] * 8 + [0.0026, 0.0006]))
    time_s, values = tick / 50, rng.normal(size=(3000, 2)).astype(np.float32)
    time_s[500], time_s[900], values[1200, 1] = time_s[499], time_s[890], np.nan
    live = Windower(rate_in_hz=50, rate_hz=50, channels=2, window_s=1.0, stride_s=0.5)
    expected = live.push(values, time_s)
    given = [
        [time, [None if np.isnan(v) else v for v in row]]
        for time, row in zip(time_s.tolist(), values.tolist(), strict=True)
    ]
    page = device(opened)
    found = page.evaluate(
        """async (given) => {
            const { Windower } = await import("/static/js/windower.js");
            const live = new Windower({ rateHz: 50, length: 50, stride: 25, channels: 2 });
            return given.flatMap(([time, row]) => live.push(row.map((v) => v ?? NaN), time))
                .map(({ x, timeS, gapS }) => ({ x: [...x], timeS, gapS }));
        }""",
        given,
    )
    count = len(found)
    assert len(expected) - 1 <= count <= len(expected) > 50  # Python also ends a stretch whose last sample waits
    assert [one["timeS"] for one in found] == pytest.approx(expected.time_s[:count].tolist(), abs=1e-6)
    assert [one["gapS"] for one in found] == pytest.approx(expected.gap_before_s[:count].tolist(), abs=1e-6)
    x = np.array([one["x"] for one in found], np.float32).reshape(count, 2, 50)
    assert np.abs(x - expected.x[:count]).max() < 1e-6


def test_a_model_of_ones_own_is_read_and_another_file_refused(opened, plain, tmp_path):
    page = device(opened)
    page.locator("#file").set_input_files(plain)
    expect(page.get_by_role("status")).to_contain_text("holds no adaptation")
    (tmp_path / "no.onnx").write_bytes(b"nothing of the kind")
    page.locator("#file").set_input_files(tmp_path / "no.onnx")
    expect(page.get_by_role("status")).to_contain_text("Expected an .onnx file")
    shutil.copy(MODEL, tmp_path / "mine.onnx")
    page.locator("#file").set_input_files(tmp_path / "mine.onnx")
    page.wait_for_url("**/device?model=own")
    expect(page.locator("#model-name")).to_have_text("mine.onnx, sight")
    page.reload()
    expect(page.locator("#model-name")).to_have_text("mine.onnx, sight")
    assert page.heard == []


@pytest.mark.long
def test_keel_runs_in_the_browser_too(opened, trained, tmp_path):
    from sight.export import export_fused
    from sight.registry import method

    path = export_fused(trained, tmp_path / "keel.onnx", method("keel"))
    page = device(opened)
    page.locator("#file").set_input_files(path)
    expect(page.locator("#model-name")).to_have_text("keel.onnx, keel")
    play(page)
    compare(saved_answers(page), answers_of_python(path))
    assert page.heard == []


# Live


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
    page.get_by_role("searchbox", name="Find a wearer").fill("ann")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(page.locator("#name")).to_have_text("anna")
    anna.live(20)
    assert until(lambda: windows_shown(page), anna.at // 50 - 1) == anna.at // 50 - 1
    assert page.heard == []


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
    own.token = max(said.stdout.split(), key=len)
    own.start()
    try:
        Life(own, "emma", "W08").live(20)
        page = opened("/", of=own)
        field = page.get_by_role("textbox", name="Token")
        field.fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("#gate-note")).not_to_be_empty()
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
        assert page.heard == []
    finally:
        own.kill()


# Both


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
