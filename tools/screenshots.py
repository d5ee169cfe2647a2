"""Writes the screenshots of the docs: report, cohort overview and the pages of the service.

``python -m tools.screenshots [NAME ...]`` rewrites those in ``docs/images``; it needs Chromium, trains a small model in
``build/screenshots`` the first time, and takes some minutes.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGES, WORK = ROOT / "docs" / "images", ROOT / "build" / "screenshots"
SIGHT = [sys.executable, "-m", "sight"]
#: Width, height and pixels per CSS pixel. Report and overview are taken in full length, pages of the service are not.
DESK, PHONE = (1200, 860, 1), (390, 844, 2)
#: Seconds after which the live page has something to show.
LIVE_S = 60


def sight(*words: str) -> None:
    """Run a command in the work folder."""
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run([*SIGHT, *words], cwd=WORK, check=True, stdout=subprocess.DEVNULL)


def model() -> str:
    """Return a model in the work folder, trained on synthetic wearers the first time."""
    if not (WORK / "model.onnx").exists():
        subjects = ["--subjects", "W01,W02,W03", "--option", "hours=0.5"]
        sight("train", "--data", "synthetic", *subjects, "--epochs", "5", "-o", "model.safetensors")
        sight("export", "model.safetensors", "-o", "model.onnx")
    return "model.onnx"


def report() -> str:
    """Write a report of one wearer and return its address."""
    sight("adapt", "synthetic:W12", "-m", model(), "-o", "report")
    return (WORK / "report" / "report.html").as_uri()


def cohort() -> str:
    """Write the overview page of a cohort and return its address."""
    options = ["--option", "hours=0.5", "--option", "wearers=8"]
    sight("cohort", "run", "synthetic", "-m", model(), "-o", "cohort", *options)
    (page,) = (WORK / "cohort").glob("*.html")
    return page.as_uri()


@contextmanager
def demo() -> Iterator[str]:
    """Run the demo of the service and yield its address."""
    data = WORK / "serve"
    shutil.rmtree(data, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    command = [*SIGHT, "serve", "--demo", "--port", "0", "--data", str(data)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as done:
        try:
            for line in done.stdout or ():
                if found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", line):
                    yield found[0]
                    return
            raise RuntimeError("the demo ended without printing its address")
        finally:
            done.terminate()


def save(
    browser: Any,
    address: str,
    name: str,
    size: tuple[int, int, int],
    prepare: Callable[[Any], None],
    *,
    full_page: bool = False,
) -> None:
    """Write a screenshot of a page with 256 colours."""
    from PIL import Image

    width, height, scale = size
    viewport = {"width": width, "height": height}
    page = browser.new_page(viewport=viewport, device_scale_factor=scale, reduced_motion="reduce")
    page.goto(address)
    prepare(page)
    picture = Image.open(io.BytesIO(page.screenshot(full_page=full_page)))
    IMAGES.mkdir(exist_ok=True)
    picture.convert("RGB").quantize(256).save(IMAGES / f"{name}.png", optimize=True)
    page.close()
    print(f"wrote docs/images/{name}.png")


def settle(page: Any) -> None:
    """Wait until a page is drawn, and remove the work folder from paths that it shows."""
    page.wait_for_timeout(500)
    page.evaluate(
        "([path]) => document.querySelectorAll('code').forEach(e => e.textContent = "
        "e.textContent.replaceAll(path, ''))",
        [f"{WORK}/"],
    )


def start_device(page: Any) -> None:
    """Start the recording of the device page and wait until it shows something."""
    page.wait_for_selector("button:not([disabled])")
    page.locator("button:not([disabled])").first.click()
    page.wait_for_timeout(1000 * LIVE_S)


def main(names: list[str]) -> None:
    """Write the screenshots with these names, or all."""
    from playwright.sync_api import sync_playwright

    wanted = set(names or ("report", "cohort", "live", "device"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name, make in (("report", report), ("cohort", cohort)):
            if name in wanted:
                save(browser, make(), name, DESK, settle, full_page=True)
        if wanted & {"live", "device"}:
            with demo() as address:
                for kind, size in (("desk", DESK), ("phone", PHONE)):
                    if "live" in wanted:
                        save(browser, address, f"live-{kind}", size, lambda page: page.wait_for_timeout(1000 * LIVE_S))
                    if "device" in wanted:
                        save(browser, f"{address}/device", f"device-{kind}", size, start_device)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
