"""Readiness follows the store."""

from __future__ import annotations

import shutil
import time
from collections import namedtuple

import pytest

from sight.apps.serve import service
from tests.helpers.services import put_wearers, running
from tests.helpers.sessions import make_stream

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "CHECK_VALID_S", 0.0)
    with running(tmp_path) as client:
        yield client


def test_a_full_disk_is_not_ready_and_recovers(client, monkeypatch):
    assert client.get("/readyz").status_code == 200
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100, 100, 0))
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "/" not in response.json()["error"]
    assert "sight_ready 0.0" in client.get("/metrics").text
    assert client.get("/healthz").status_code == 200
    monkeypatch.undo()
    monkeypatch.setattr(service, "CHECK_VALID_S", 0.0)
    assert client.get("/readyz").status_code == 200


def test_a_removed_database_is_not_ready_and_acknowledges_nothing(client, tmp_path):
    put_wearers(client, "anna")
    (tmp_path / "store.sqlite").unlink()
    assert client.get("/readyz").status_code == 503
    chunk = {"seq": 1, "values": make_stream(0, 5).tolist()}
    assert client.post("/v1/wearers/anna/samples", json=chunk).status_code == 503


def test_a_removed_folder_is_not_ready_and_metrics_report_it(client, monkeypatch):
    def fail(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(shutil, "disk_usage", fail)
    assert client.get("/readyz").status_code == 503
    assert "sight_ready 0.0" in client.get("/metrics").text


def test_the_store_is_checked_without_requests(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "CHECK_S", 0.001)
    monkeypatch.setattr(service, "CHECK_VALID_S", 0.0)
    with running(tmp_path) as client:
        checks = []
        monkeypatch.setattr(client.service.manager.store, "check", lambda: checks.append(1))
        end = time.monotonic() + 10
        while len(checks) < 3 and time.monotonic() < end:
            client.get("/healthz")
    assert len(checks) >= 3
