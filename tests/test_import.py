"""Importing sight is fast and imports nothing optional."""

from __future__ import annotations

import subprocess
import sys


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
