"""The hash of a method's code changes with its file, and with the kernels where it uses them."""

from __future__ import annotations

import shutil

from sight import code
from sight.methods.ema import EMA
from sight.methods.keel import Keel


def test_kernels_count_for_those_who_use_them(tmp_path, monkeypatch):
    before = code.code_of(Keel), code.code_of(EMA)
    shutil.copytree(code.HOME / "kernels", tmp_path / "kernels")
    monkeypatch.setattr(code, "HOME", tmp_path)
    assert (code.code_of(Keel), code.code_of(EMA)) == before
    with (tmp_path / "kernels" / "compiled.py").open("a") as file:
        file.write("\n# another remark\n")
    assert code.code_of(Keel) != before[0]
    assert code.code_of(EMA) == before[1]
