"""No command but `sight data fetch` opens a connection beyond this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.helpers.commands import COLUMNS, TINY

RUN = """
import json, sys
from typer.testing import CliRunner
from sight.apps.cli import app

def watch(event, args):
    if event in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
        host = str(args[1][0] if isinstance(args[1], tuple) else args[0] if event.endswith("info") else args[1])
        if host not in ("127.0.0.1", "::1", "localhost") and not host.startswith("/"):
            print("connection:", event, host)

sys.addaudithook(watch)
for command in json.load(open(sys.argv[1])):
    result = CliRunner().invoke(app, command)
    print("exit", result.exit_code, result.output if result.exit_code else "")
"""


def run_isolated(commands, folder):
    """Run commands in one process without network; return its output, and the connections that strace has seen."""
    (folder / "home").mkdir()
    (folder / "run.py").write_text(RUN)
    (folder / "commands.json").write_text(json.dumps([[str(word) for word in command] for command in commands]))
    log = folder / "strace.log"
    tracer = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect,sendto,sendmsg", "-o", log]
    line = [*(tracer if shutil.which("strace") else []), sys.executable, folder / "run.py", folder / "commands.json"]
    if (
        shutil.which("unshare")
        and subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0
    ):
        line = ["unshare", "-rn", *line]
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home" / ".cache")}
    printed = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=240).stdout
    return printed, log.read_text(errors="replace") if log.exists() else ""


def check_no_connection(commands, folder):
    printed, trace = run_isolated(commands, folder)
    assert printed.count("exit 0") == len(commands), printed
    assert "connection:" not in printed
    addresses = re.findall(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', trace)
    assert {address for pair in addresses for address in pair if address} <= {"127.0.0.1", "::1"}
    assert not list((folder / "home").rglob("Microsoft"))


def test_commands_with_an_exported_model_stay_on_this_machine(onnx, table, tmp_path):
    (tmp_path / "recordings").mkdir()
    day, read = shutil.copy(table / "day.csv", tmp_path / "recordings"), ["--columns", COLUMNS]
    check_no_connection(
        [
            ["inspect", onnx],
            ["adapt", day, "-m", onnx, "-o", tmp_path / "a", *read],
            ["evaluate", day, "-m", onnx, "--labels", table / "diary.csv", "-o", tmp_path / "e", *read],
            ["stream", "-m", onnx, "--replay", day, "--speed", 0, *read],
            ["cohort", "run", tmp_path / "recordings", "-m", onnx, "-o", tmp_path / "c", "--engine", "serial", *read],
            ["methods"],
        ],
        tmp_path,
    )


@pytest.mark.long
def test_training_and_export_stay_on_this_machine(tmp_path):
    model = tmp_path / "model.safetensors"
    check_no_connection(
        [
            ["train", "--data", "synthetic", "--subjects", "W01", *TINY, "--epochs", 1, "-o", model],
            ["export", model, "-o", tmp_path / "model.onnx"],
            ["adapt", "synthetic:W03", "-m", model, *TINY, "-o", tmp_path / "out"],
        ],
        tmp_path,
    )
