"""The hash of code changes with every file that the code imports, and with no other."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

from sight._util import code_hash
from sight.apps.bench.source_models import Recipe
from sight.registry import TABLES, get

RECIPE = Recipe(classes=("a", "b"), encoder="cnn", epochs=1, batch=8, seed=0, device="cpu")


@pytest.mark.parametrize(
    ("method", "file"),
    [
        ("ema", "methods/ema.py"),
        ("ema", "base.py"),
        ("ema", "methods/ops.py"),
        ("ema", "params.py"),
        ("ema", "_util/object_state.py"),
        *(("keel", f"methods/keel/{file}.py") for file in ("method", "reference", "compiled", "fused", "state")),
        ("sight", "methods/sight/compiled.py"),
        ("keel", "methods/compiled/numba.py"),
        ("t3a", "methods/feature_memory.py"),
        ("oftta", "methods/t3a.py"),
        ("oftta", "methods/feature_memory.py"),
        ("tent", "methods/gradient/adapter.py"),
        ("tent", "methods/gradient/norms.py"),
        ("tent", "methods/feature_memory.py"),
        ("tent", "methods/gradient/window_memory.py"),
        ("coa-har", "methods/gradient/augmentation.py"),
    ],
)
def test_the_hash_of_a_method_covers_its_imports(edit, method, file):
    before = code_hash.class_fingerprint(get("methods", method))
    edit(file)
    assert code_hash.class_fingerprint(get("methods", method)) != before


OTHERS = ("__init__.py", "methods/keel/compiled.py", "methods/gradient/adapter.py", "registry.py", "models/train.py")


@pytest.mark.parametrize("file", OTHERS)
def test_the_hash_of_a_method_covers_nothing_else(edit, file):
    before = code_hash.class_fingerprint(get("methods", "ema"))
    edit(file)
    assert code_hash.class_fingerprint(get("methods", "ema")) == before


@pytest.mark.parametrize("name", TABLES["methods"])
def test_methods_import_only_lower_layers(name):
    files = code_hash.imported_files(Path(inspect.getsourcefile(get("methods", name))))
    layers = {file.relative_to(code_hash.HOME).parts[0] for file in files}
    assert layers <= {"_util", "base.py", "methods", "params.py", "types.py"}


def test_the_hash_of_an_external_method_covers_its_file_and_ours(edit, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from sight.base import OutputAdapter\n\n\n"
        "class Mine(OutputAdapter):\n"
        "    def _reset(self):\n"
        "        import sight.results.segments\n"
        "        from sight.results import metrics\n"
    )
    spec = importlib.util.spec_from_file_location("external_method", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(importlib.sys.modules, "external_method", module)
        spec.loader.exec_module(module)
        hashes = {code_hash.class_fingerprint(module.Mine)}
        for file in ("base.py", "results/segments.py", "results/metrics.py", path):
            edit(file)
            hashes.add(code_hash.class_fingerprint(module.Mine))
    assert len(hashes) == 5


def test_code_is_read_once_in_a_process(edit, monkeypatch):
    before = code_hash.class_fingerprint(get("methods", "tent"))
    monkeypatch.setattr(code_hash, "imported_files", None)
    assert code_hash.class_fingerprint(get("methods", "tent")) == before


def test_the_hash_depends_on_file_boundaries(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("x = 1\ny = 2\n"), second.write_text("z = 3\n")
    before = code_hash.hash_files([first, second])
    first.write_text("x = 1\n"), second.write_text("y = 2\nz = 3\n")
    assert code_hash.hash_files([first, second]) != before


@pytest.mark.parametrize(
    "file", ["models/train.py", "models/source_statistics.py", "models/encoders/base.py", "models/encoders/cnn.py"]
)
def test_the_name_of_a_model_depends_on_training_and_encoder_code(edit, file):
    before = RECIPE.model_key("data")
    for other in ("models/encoders/resnet.py", "registry.py"):
        edit(other)
        assert RECIPE.model_key("data") == before
    edit(file)
    assert RECIPE.model_key("data") != before
