"""A service, a small model and a browser for the tests of the pages."""

from __future__ import annotations

import pytest

from sight.datasets.synthetic import Synthetic
from tests.apps.serve.pages.page_helpers import PageService, SyntheticWearer
from tests.helpers.services import write_onnx


@pytest.fixture(scope="package")
def exported(tmp_path_factory):
    """Path of a small network for synthetic wearers."""
    dataset = Synthetic()
    channels = {"channels": dataset.channels, "units": dataset.units, "rate_hz": dataset.rate_hz}
    return write_onnx(tmp_path_factory.mktemp("model") / "small.onnx", **channels, classes=len(dataset.classes))


@pytest.fixture(scope="package")
def service(exported, tmp_path_factory):
    started = PageService(tmp_path_factory.mktemp("service"), exported).start()
    yield started
    started.kill()


@pytest.fixture(scope="module")
def anna(service):
    wearer = SyntheticWearer(service, "anna", "W04")
    wearer.send(40)
    yield wearer
    service.request("/v1/wearers/anna", method="DELETE")


@pytest.fixture(scope="module")
def bela(service):
    wearer = SyntheticWearer(service, "bela", "W05")
    wearer.send(20)
    yield wearer
    service.request("/v1/wearers/bela", method="DELETE")


@pytest.fixture
def opened(browser, service):
    """Open a page of the service; `page.messages` collects console messages and errors, `page.urls` all requests."""
    contexts = []

    def visit(path, width=1200, scheme="light", of=service, context=None, **more):
        options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, **more}
        context = context or browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.messages, page.urls = [], []
        page.on("console", lambda message: page.messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.messages.append(f"error: {error}"))
        page.on("request", lambda request: page.urls.append(request.url))
        page.on("websocket", lambda socket: page.urls.append(socket.url))
        page.goto(of.url + path)
        return page

    yield visit
    for context in set(contexts):
        context.close()
