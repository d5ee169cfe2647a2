"""The toy model of these tests, and the events of its session without a service."""

from __future__ import annotations

from tests.helpers.sessions import toy_model, uninterrupted

TOY = toy_model("toy", "1")


def expected(values, time_s=None, name="keel"):
    return uninterrupted(TOY, values, name, time_s)
