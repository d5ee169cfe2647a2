"""Whether this machine can start Spark: its Java and its Python package, one sentence where it cannot."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

#: The oldest Java that Spark 4 starts on.
OLDEST = 17
_REMEDY = f"install one (Debian: apt-get install openjdk-{OLDEST}-jre-headless) and set JAVA_HOME or PATH to it."


def require_spark() -> None:
    """Refuse to go on where pyspark or Java is missing or too old."""
    found = java_version()
    if found < OLDEST:
        raise ValueError(f"Spark needs Java {OLDEST} or newer, got Java {found} from {_java()}; {_REMEDY}")
    if importlib.util.find_spec("pyspark") is None:
        raise ModuleNotFoundError(
            "Spark is not installed in this environment; it lives in one of its own, because it wants an older pandas: "
            "run `make fleet-env`, then .venv-spark/bin/sight fleet instead of sight fleet."
        )


def java_version() -> int:
    """Return the major version of the Java that Spark would start."""
    program = _java()
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(
            f"Spark needs Java {OLDEST} or newer, but {program} does not run ({error}); {_REMEDY}"
        ) from None
    return major(told)


def major(text: str) -> int:
    """Read the major version out of what ``java -version`` says.

    Examples
    --------
    >>> major('openjdk version "17.0.15" 2025-04-15'), major('java version "1.8.0_392"'), major('openjdk version "21"')
    (17, 8, 21)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        raise ValueError(f"Expected java -version to name a version, got {text.strip()[:80]!r}; {_REMEDY}")
    return int(found[1])


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if program is None:
        where = f"in JAVA_HOME ({home})" if home else "in PATH, and JAVA_HOME is not set"
        raise ValueError(f"Spark needs Java {OLDEST} or newer, and there is none {where}; {_REMEDY}")
    return program
