"""The latency benchmark: the stages add up to the total, and the table of the page has a verdict."""

from __future__ import annotations

import json

import pytest
from benchmarks.live.latency import STAGES, stages

from tools import load_figures


def test_the_stages_add_up_to_the_total():
    inner = {
        "put": [(0.5, 0.6)],
        "ingest": [(0.7, 1.7)],
        "encode": [(0.8, 1.0)],
        "step": [(1.0, 1.1)],
        "commit": [(1.2, 1.6)],
    }
    found = stages(inner, [(0.1, 2.0)])
    expected = {"arrival": 0.5, "queue": 0.1, "windows": 0.3, "encode": 0.2, "step": 0.1, "commit": 0.4, "reply": 0.3}
    assert {name: found[name][0] for name in STAGES} == pytest.approx({k: 1e3 * v for k, v in expected.items()})
    assert found["total"][0] == pytest.approx(sum(found[name][0] for name in STAGES))


@pytest.mark.parametrize(("total", "verdict"), [(2.9, "met"), (3.1, "**missed**")])
def test_the_table_of_the_page(tmp_path, total, verdict):
    assert "not measured" in load_figures.latency_table(tmp_path)
    medians = {"before": {"queue": 4.0, "total": 7.0}, "now": {"queue": 0.25, "total": total}}
    content = {
        "machine": "x86_64",
        "cores": 2,
        "sight": "9",
        "computed_at": "2030-01-01",
        "stages": {"queue": "waiting"},
    }
    (tmp_path / "latency.json").write_text(json.dumps(content | {"median_ms": medians, "p95_ms": medians}))
    table = load_figures.latency_table(tmp_path)
    assert "| queue | 4.00 | 0.25 | waiting |" in table
    assert f"| total | 7.00 | {total:.2f} | target: at most 3 ms, {verdict} |" in table
