"""Run commands of `sight` in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from sight.apps.cli import app

TINY = ["--option", "hours=0.1", "--option", "gaps_per_hour=0"]
COLUMNS = "time=t," + ",".join(f"{name}={name}" for name in ("acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z"))


def run_sight(*arguments, code=0, text=None):
    """Run a command, check its exit code, and return the result; `text` is standard input."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=text, env={"COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


def output_of(*arguments, code=0):
    """Run a command and return its output as one line."""
    return " ".join(run_sight(*arguments, code=code).output.split())
