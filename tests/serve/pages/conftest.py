"""One service, one small model and one browser for the pages of a module."""

from __future__ import annotations

import pytest

from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic
from tests.serve.pages.visits import Life, Service


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
    from sight.sources.onnx_export import export_onnx

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
