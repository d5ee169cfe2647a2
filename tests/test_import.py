"""Importing sight is fast and imports nothing optional."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sight.registry import get


def test_importing_sight_imports_no_optional_package():
    code = (
        "import sight, sys; sight.refine; sight.method; "
        "assert not {'torch', 'numba', 'pandas', 'scipy', 'onnxruntime', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_can_be_imported():
    import sight

    assert all(getattr(sight, name) is not None for name in sight.__all__)
    assert set(sight._MODULES) | {"__version__"} == set(sight.__all__)


def test_methods_that_a_service_runs_are_imported_without_torch():
    pytest.importorskip("torch")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from sight.registry import get, names\n"
        "for name in names('methods'):\n"
        "    try: get('methods', name)\n"
        "    except ModuleNotFoundError: print(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    refused = done.stdout.split()
    assert "tent" in refused
    assert [name for name in refused if get("methods", name).served] == []


def test_bases_of_methods_are_public():
    from sight.methods.compiled import CompiledAdapter, StateLayout

    assert issubclass(get("methods", "keel"), CompiledAdapter)
    assert isinstance(get("methods", "keel").layout, StateLayout)
    pytest.importorskip("torch")
    from sight.methods.compiled import FusedStep
    from sight.methods.gradient import GradientAdapter

    assert issubclass(get("methods", "tent"), GradientAdapter)
    assert FusedStep.encode
