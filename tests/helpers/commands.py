"""Commands called as a user calls them."""

from __future__ import annotations

from typer.testing import CliRunner

from sight.cli import app

TINY = ["--option", "hours=0.1", "--option", "gaps_per_hour=0"]
COLUMNS = "time=t," + ",".join(f"{name}={name}" for name in ("acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z"))


def sight(*words, ok=True):
    shown = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if ok:
        assert shown.exit_code == 0, shown.output
    return shown
