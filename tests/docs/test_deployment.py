"""The container, units and alerts of the deployment page, and the page of licences."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sight.apps.cli import app
from tests.conftest import ROOT
from tests.docs.test_code_blocks import COMMAND, parse
from tests.helpers.requirements import program
from tests.helpers.services import running
from tools import licences

CONTAINER = (ROOT / "Containerfile").read_text("utf-8")
PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
UNITS = dict(re.findall(r"`/etc/systemd/system/([\w.-]+)`:\n\n```ini\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
(ALERTS,) = re.findall(r"^```yaml\n(groups:.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile in order."""
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINER, flags=re.MULTILINE)).splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line.strip()]


def values(name: str) -> list[str]:
    return [value for key, value in instructions() if key == name]


def test_the_container_has_no_privileges_and_is_checked():
    names = [name for name, _ in instructions()]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert set(names) <= known | {"ARG"}  # no ADD
    (base,) = values("ARG")  # none with secrets
    assert re.fullmatch(r"BASE=\S+:\d\S+", base), "the base image has a version"
    assert {image.split()[0] for image in values("FROM")} == {"${BASE}"}
    after_user = names[names.index("USER") :]
    assert "RUN" not in after_user
    assert "FROM" not in after_user
    assert values("USER") == ["10001"]
    assert values("VOLUME") == ["/data"]
    assert values("HEALTHCHECK")[0].endswith('CMD ["sight", "serve", "check", "--data", "/data"]')


def test_the_container_installs_pinned_packages_that_exist():
    for line in values("RUN"):
        assert "pip" not in line or "--no-cache-dir" in line
    install = next(line for line in values("RUN") if "pip install" in line)
    assert "--constraint" in install
    extras = re.search(r"\[([\w,]+)\]", install)[1].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    for line in values("COPY"):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources if not source.startswith(("--from", "/")))


def test_the_container_starts_a_command_that_exists():
    (entry,), (command,) = values("ENTRYPOINT"), values("CMD")
    assert json.loads(entry) == ["sight"]
    words = json.loads(command)
    assert words[0] == "serve"
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).output
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[\w-]+", shown))


def test_units_start_commands_that_exist_without_privileges():
    assert set(UNITS) == {"sight.service", "sight-backup.service", "sight-backup.timer"}
    commands = []
    for name, text in UNITS.items():
        unit = configparser.ConfigParser(strict=True, interpolation=None)
        unit.optionxform = str
        unit.read_string(text)
        if name.endswith(".service"):
            service = dict(unit["Service"])
            assert (service["User"], service["CapabilityBoundingSet"]) == ("sight", "")
            assert service["ProtectSystem"] == "strict"
            commands += [value for key, value in service.items() if key.startswith("Exec")]
    assert len(commands) == 3
    for command in commands:
        place, *words = shlex.split(command)
        assert place == "/opt/sight/bin/sight"
        parse(COMMAND, words)


def test_alerts_and_the_list_of_metrics_name_metrics_that_exist(tmp_path):
    with running(tmp_path) as client:
        text = client.get("/metrics").text
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    existing = {*kinds, "up", *(f"{name}_bucket" for name, kind in kinds.items() if kind == "histogram")}
    rules = yaml.safe_load(ALERTS)["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"\b(?:sight|process)_\w+|\bup\b", rule["expr"])}
    assert len(rules) > 5
    assert named <= existing
    listed = (ROOT / "docs" / "serve.md").read_text("utf-8").partition("## Metrics")[2].partition("\n## ")[0]
    expected = {name for name in kinds if name.startswith("sight_") and not name.endswith("_created")}
    assert set(re.findall(r"`(sight_\w+)", listed)) == expected


@pytest.mark.long
def test_systemd_accepts_the_units(tmp_path):
    for name, text in UNITS.items():
        (tmp_path / name).write_text(text.replace("/opt/sight/bin", str(Path(sys.executable).parent)))
    command = [program("systemd-analyze", package="systemd"), "verify", "--man=no", *sorted(tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


#: Input of each alert, a series for 60 minutes in the notation of Prometheus.
FIRING = {
    "SightDown": {'up{job="sight"}': "0x60"},
    "SightNotReady": {"sight_ready": "0x60"},
    "SightRestarts": {'process_start_time_seconds{job="sight"}': "0+60x60"},
    "SightDiskFull": {'sight_store_bytes{kind="free"}': "5e8x60"},
    "SightSlow": {
        'sight_latency_seconds_bucket{le="0.5"}': "0+1x60",
        'sight_latency_seconds_bucket{le="1.0"}': "0+9x60",
        'sight_latency_seconds_bucket{le="+Inf"}': "0+9x60",
    },
    "SightBusy": {"sight_queue_chunks": "6000x60"},
    "SightRefuses": {'sight_refused_total{reason="busy"}': "0+120x60"},
    "SightNoSamples": {'sight_chunks_total{duplicate="false"}': "7x60", "sight_wearers": "3x60"},
    "SightFewFiles": {'process_open_fds{job="sight"}': "900x60", 'process_max_fds{job="sight"}': "1024x60"},
}
HEALTHY = {
    'up{job="sight"}': "1x60",
    "sight_ready": "1x60",
    'process_start_time_seconds{job="sight"}': "5x60",
    'sight_store_bytes{kind="free"}': "5e10x60",
    'sight_latency_seconds_bucket{le="0.5"}': "0+9x60",
    'sight_latency_seconds_bucket{le="+Inf"}': "0+9x60",
    "sight_queue_chunks": "9x60",
    'sight_refused_total{reason="busy"}': "0+1x60",
    'sight_chunks_total{duplicate="false"}': "0+60x60",
    "sight_wearers": "3x60",
    'process_open_fds{job="sight"}': "90x60",
    'process_max_fds{job="sight"}': "1024x60",
}


@pytest.mark.long
def test_each_alert_is_raised_by_its_cause_alone(tmp_path):
    (tmp_path / "alerts.yml").write_text(ALERTS)
    rules = {rule["alert"]: rule for rule in yaml.safe_load(ALERTS)["groups"][0]["rules"]}
    assert set(rules) == set(FIRING)
    query = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "59m"}
    tests = []
    for name, series in {"": {}, **FIRING}.items():
        raised = [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else []
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": value} for key, value in (HEALTHY | series).items()],
                "promql_expr_test": [{**query, "exp_samples": raised}],
            }
        )
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": tests}))
    command = [program("promtool", package="prometheus"), "test", "rules", "tests.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_of_licences_lists_every_direct_dependency():
    rows = dict(re.findall(r"^\| ([\w.-]+) \| \S+ \| (.+) \|$", licences.PAGE.read_text("utf-8"), re.MULTILINE))
    listed = {re.sub(r"[-_.]+", "-", name).lower() for name in rows}
    extras = [extra for extra in PROJECT["optional-dependencies"] if extra not in ("all", "docs", "dev", "spark")]
    wanted = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    names = {re.match(r"[\w.-]+", text)[0].replace("_", "-").lower() for text in wanted} - {licences.NAME}
    assert names <= listed
    assert "see its files" not in rows.values()


def test_the_bill_of_materials_has_versions_and_licences():
    bill = licences.bill_of_materials(licences.packages(["serve"]))
    names = {entry["name"].lower() for entry in bill["components"]}
    assert {"numpy", "fastapi", "redis"} <= names
    assert "torch" not in names
    assert all(entry["version"] and entry["licenses"] for entry in bill["components"])
