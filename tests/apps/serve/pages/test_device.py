"""The page that adapts on the device: predictions of the browser equal those of Python, and no data leave it."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tools.page_assets import STATIC, colours, unpack

from sight.models.fused_model import FusedSession
from sight.recordings.signal.live_windows import Windower
from tests.apps.serve.pages.page_helpers import expect, wait_for

MODEL = STATIC / "model.onnx"


def open_device(opened, **options):
    page = opened("/device", **options)
    expect(page.locator("html[data-ready]")).to_have_count(1, timeout=30_000)
    return page


def play(page) -> None:
    """Play the whole recording."""
    page.get_by_label("Speed of the recording").select_option("0")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("End of the recording", timeout=60_000)


# Files


def test_colours_are_those_of_the_report():
    for name, text in colours().items():
        assert (STATIC / name).read_text() == text


def test_vendored_files_match_their_listed_hashes():
    text = (STATIC / "vendor" / "VENDOR.md").read_text()
    listed = dict(re.findall(r"\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|", text))
    files = {path.name: path for path in (STATIC / "vendor").iterdir() if path.name != "VENDOR.md"}
    assert set(listed) == set(files)
    for name, path in files.items():
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert hashlib.sha256(content).hexdigest() == listed[name], name


def test_the_bundled_model_is_small_and_contains_no_paths():
    assert MODEL.stat().st_size < 300_000
    assert b"site-packages" not in MODEL.read_bytes()
    assert b"/home/" not in MODEL.read_bytes()


# In the browser


def test_start_is_remembered_while_the_page_loads_and_a_reset_can_be_undone(opened):
    page = opened("/device")
    page.get_by_label("Speed of the recording").select_option("0")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("End of the recording", timeout=60_000)
    count, undo = page.locator("#count").inner_text(), page.get_by_role("button", name="Undo the reset")
    expect(undo).to_be_hidden()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator("#count")).to_have_text("0")
    assert stored_keys(page) == []
    undo.click()
    expect(page.locator("#count")).to_have_text(count)
    expect(undo).to_be_hidden()
    assert len(stored_keys(page)) == 1
    assert len(saved_predictions(page)) == int(count)
    assert page.messages == []


def predictions_of_python(model: Path):
    """Return the classes, and time, gap, q, p and surprise of each window of the bundled recording."""
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
    return predictions_of_python(MODEL)


def saved_predictions(page) -> list[dict[str, str]]:
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save predictions").click()
    with Path(saving.value.path()).open(newline="") as file:
        return list(csv.DictReader(file))


def compare(saved, reference) -> None:
    classes, rows = reference
    for line, (start_s, gap_s, q, p, surprise) in zip(saved, rows, strict=True):
        assert (float(line["time_s"]), float(line["gap_s"])) == pytest.approx((start_s, gap_s), abs=1e-6)
        assert (line["refined"], line["raw"]) == (classes[q.argmax()], classes[p.argmax()])
        shares = [[float(line[f"{kind}_{name}"]) for name in classes] for kind in "qp"]
        assert np.abs(np.array(shares) - [q, p]).max() < 1e-4
        assert float(line["surprise"]) == pytest.approx(surprise, abs=1e-4)


def test_predictions_equal_those_of_python_and_no_data_leave_the_device(opened, service, reference):
    page = open_device(opened)
    before = list(page.urls)
    play(page)
    rows = saved_predictions(page)
    assert len(rows) == len(reference[1]) == int(page.locator("#count").inner_text())
    compare(rows, reference)
    assert page.messages == []
    assert [url for url in page.urls if url.startswith("http")] == [url for url in before if url.startswith("http")]
    assert all(url.startswith(service.url) for url in before)
    assert page.evaluate("fetch('/healthz').then(() => 'sent', () => 'refused')") == "refused"
    page.evaluate("navigator.sendBeacon('/healthz', 'x')")
    page.wait_for_timeout(200)
    assert not any("healthz" in url for url in page.urls if url not in before)


def stored_keys(page) -> list[str]:
    """Return the keys that the page has stored in the browser."""
    return page.evaluate(
        """() => new Promise((resolve) => {
            const opening = indexedDB.open("sight", 1);
            opening.onsuccess = () => {
                const request = opening.result.transaction("kept").objectStore("kept").getAllKeys();
                request.onsuccess = () => (opening.result.close(), resolve(request.result));
            };
        })"""
    )


def test_a_reopened_page_continues_and_reset_deletes_the_state(opened, reference):
    page = open_device(opened)
    page.get_by_label("Speed of the recording").select_option("60")
    page.get_by_role("button", name="Start").click()
    wait_for(lambda: int(page.locator("#count").inner_text()) > 60, True)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    page.wait_for_timeout(200)
    seen = int(page.locator("#count").inner_text())
    assert len(stored_keys(page)) == 1
    page.close()
    again = open_device(opened, context=page.context)
    assert int(again.locator("#count").inner_text()) == seen
    assert f"{seen} windows" in again.get_by_role("status").inner_text()
    play(again)
    later = saved_predictions(again)
    assert [int(line["window"]) for line in later] == list(range(seen, len(reference[1])))
    compare(later, (reference[0], reference[1][seen:]))
    again.get_by_role("button", name="Reset").click()
    expect(again.get_by_role("status")).to_contain_text("Reset")
    assert again.locator("#count").inner_text() == "0"
    assert stored_keys(again) == []


def test_the_motion_sensor_of_a_phone_is_read(opened):
    """Events of about 60 Hz from a phone upright in a pocket are processed like the recording."""
    page = open_device(opened, width=390)
    page.locator("#from-sensor").check()
    page.get_by_label("Position of the phone").select_option("pocket")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("motion sensor")
    page.evaluate(
        """() => new Promise((done) => {
            let sent = 0;
            const timer = setInterval(() => {
                const acceleration = { x: 0, y: 9.81, z: 0 }, rotation = { alpha: 0, beta: 0, gamma: 0 };
                const motion = { accelerationIncludingGravity: acceleration, rotationRate: rotation, interval: 16 };
                dispatchEvent(new DeviceMotionEvent("devicemotion", motion));
                if ((sent += 1) > 260) { clearInterval(timer); done(); }
            }, 16);
        })"""
    )
    expect(page.locator("#latest")).to_contain_text("standing")
    assert int(page.locator("#count").inner_text()) >= 2
    page.get_by_role("button", name="Stop").click()
    assert page.messages == []


def test_windows_in_the_browser_equal_those_of_python(opened):
    """Irregular times with repeats, steps back, NaN, lost samples and gaps, at the model's rate."""
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
    page = open_device(opened)
    windows = page.evaluate(
        """async (given) => {
            const { Windower } = await import("/static/js/windower.js");
            const live = new Windower({ rateHz: 50, length: 50, stride: 25, channels: 2 });
            return given.flatMap(([time, row]) => live.push(row.map((v) => v ?? NaN), time))
                .map(({ x, timeS, gapS }) => ({ x: [...x], timeS, gapS }));
        }""",
        given,
    )
    count = len(windows)
    assert len(expected) - 1 <= count <= len(expected) > 50  # Python also completes a window at the end of a stretch
    assert [window["timeS"] for window in windows] == pytest.approx(expected.time_s[:count].tolist(), abs=1e-6)
    assert [window["gapS"] for window in windows] == pytest.approx(expected.gap_before_s[:count].tolist(), abs=1e-6)
    x = np.array([window["x"] for window in windows], np.float32).reshape(count, 2, 50)
    assert np.abs(x - expected.x[:count]).max() < 1e-6


def test_an_own_model_is_stored_and_deleted_and_other_files_are_refused(opened, exported, tmp_path):
    page = open_device(opened)
    page.locator("#file").set_input_files(exported)
    expect(page.get_by_role("status")).to_contain_text("no adaptation")
    (tmp_path / "no.onnx").write_bytes(b"nothing of the kind")
    page.locator("#file").set_input_files(tmp_path / "no.onnx")
    expect(page.get_by_role("status")).to_contain_text("Expected an .onnx file")
    shutil.copy(MODEL, tmp_path / "mine.onnx")
    page.locator("#file").set_input_files(tmp_path / "mine.onnx")
    page.wait_for_url("**/device?model=own")
    expect(page.locator("#model-name")).to_have_text("mine.onnx, sight")
    page.reload()
    expect(page.locator("#model-name")).to_have_text("mine.onnx, sight")
    expect(page.get_by_role("status")).to_contain_text("New wearer")
    assert stored_keys(page) == ["own model"]
    page.get_by_role("button", name="Delete data").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Deleted")
    assert "mine" not in page.locator("#model-name").inner_text()
    assert stored_keys(page) == []
    assert page.messages == []


@pytest.mark.long
def test_keel_runs_in_the_browser(opened, tmp_path):
    from sight.datasets import windows_of
    from sight.datasets.synthetic import Synthetic
    from sight.models.export.fused import export_fused
    from sight.models.train import train
    from sight.registry import method

    dataset = Synthetic(hours=0.1)
    card = {"channels": dataset.channels, "units": dataset.units, "encoder_args": {"width": 16, "depth": 1}}
    source = train([windows_of(dataset, "W01")], dataset.classes, encoder="transformer", epochs=1, **card)
    path = export_fused(source, tmp_path / "keel.onnx", method("keel"))
    page = open_device(opened)
    page.locator("#file").set_input_files(path)
    expect(page.locator("#model-name")).to_have_text("keel.onnx, keel")
    play(page)
    compare(saved_predictions(page), predictions_of_python(path))
    assert page.messages == []
