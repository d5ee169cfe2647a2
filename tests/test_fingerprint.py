"""The hash of code changes with every file it stands on and with no other; names of models change with it."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

from sight import fingerprint
from sight.bench.source_models import Recipe
from sight.registry import TABLES, get

RECIPE = Recipe(classes=("a", "b"), encoder="cnn", epochs=1, batch=8, seed=0, device="cpu")


@pytest.mark.parametrize(
    ("method", "file"),
    [
        ("ema", "methods/ema.py"),
        ("ema", "base.py"),
        ("ema", "ops.py"),
        ("keel", "kernels/keel_compiled.py"),
        ("sight", "kernels/compiled.py"),
        ("t3a", "methods/_memory.py"),
        ("oftta", "methods/t3a.py"),
        ("oftta", "methods/_memory.py"),
        ("tent", "methods/_torch.py"),
        ("tent", "methods/_norms.py"),
        ("tent", "methods/_memory.py"),
        ("tent", "methods/_replay.py"),
        ("coa-har", "methods/_augment.py"),
    ],
)
def test_a_method_stands_on_what_it_imports_however_far(edit, method, file):
    before = fingerprint.class_fingerprint(get("methods", method))
    edit(file)
    assert fingerprint.class_fingerprint(get("methods", method)) != before


@pytest.mark.parametrize("file", ["__init__.py", "kernels/compiled.py", "methods/_torch.py", "registry.py", "train.py"])
def test_a_method_stands_on_nothing_else(edit, file):
    before = fingerprint.class_fingerprint(get("methods", "ema"))
    edit(file)
    assert fingerprint.class_fingerprint(get("methods", "ema")) == before


@pytest.mark.parametrize("name", TABLES["methods"])
def test_no_method_stands_on_a_room_above_its_own(name):
    files = fingerprint.imported_files(Path(inspect.getsourcefile(get("methods", name))))
    rooms = {file.relative_to(fingerprint.HOME).parts[0] for file in files}
    assert rooms <= {"base.py", "kernels", "methods", "ops.py", "types.py"}


def test_a_method_of_others_stands_on_its_file_and_on_ours(edit, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from sight.base import OutputAdapter\n\n\n"
        "class Mine(OutputAdapter):\n"
        "    def _reset(self):\n"
        "        import sight.segments\n"
        "        from sight import metrics\n"
    )
    spec = importlib.util.spec_from_file_location("mine_of_others", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(importlib.sys.modules, "mine_of_others", module)
        spec.loader.exec_module(module)
        seen = {fingerprint.class_fingerprint(module.Mine)}
        for file in ("base.py", "segments.py", "metrics.py", path):
            edit(file)
            seen.add(fingerprint.class_fingerprint(module.Mine))
    assert len(seen) == 5


def test_code_is_read_once_in_a_process(edit, monkeypatch):
    before = fingerprint.class_fingerprint(get("methods", "tent"))
    monkeypatch.setattr(fingerprint, "imported_files", None)
    assert fingerprint.class_fingerprint(get("methods", "tent")) == before


def test_what_moves_from_the_end_of_a_file_to_the_next_counts(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\ny = 2\n"), second.write_text("z = 3\n")
    before = fingerprint.hash_files([first, second])
    first.write_text("x = 1\n"), second.write_text("y = 2\nz = 3\n")
    assert fingerprint.hash_files([first, second]) != before


@pytest.mark.parametrize("file", ["train.py", "sources/source_stats.py", "encoders/_base.py", "encoders/cnn.py"])
def test_a_model_is_named_after_the_code_of_training_and_of_its_network(edit, file):
    before = RECIPE.model_name("data")
    edit("encoders/resnet.py")
    assert RECIPE.model_name("data") == before
    edit(file)
    assert RECIPE.model_name("data") != before
