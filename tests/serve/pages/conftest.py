"""A service, a small model and a browser for the tests of the pages."""

from __future__ import annotations

import pytest

from sight.datasets import windows_of
from sight.datasets.synthetic import Synthetic
from tests.helpers.services import shared_file
from tests.serve.pages.page_helpers import PageService, SyntheticWearer


def train_small():
    """Return a small classifier trained on synthetic wearers."""
    from sight.train import train

    dataset = Synthetic(hours=0.1)
    card = {"channels": dataset.channels, "units": dataset.units, "encoder_args": {"width": 16, "depth": 1}}
    windows = [windows_of(dataset, subject) for subject in ("W01", "W02")]
    return train(windows, dataset.classes, encoder="transformer", epochs=1, **card)


@pytest.fixture(scope="package")
def exported(tmp_path_factory):
    """Path of the small classifier as ONNX."""
    from sight.sources.onnx_export import export_onnx

    return shared_file(tmp_path_factory, "pages.onnx", lambda path: export_onnx(train_small(), path))


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
