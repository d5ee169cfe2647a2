"""Check that this machine can start Spark: Java and the Python package."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

#: Oldest Java version that Spark 4 runs on.
MIN_JAVA = 17
_REMEDY = f"install one (Debian: apt-get install openjdk-{MIN_JAVA}-jre-headless) and set JAVA_HOME or PATH to it."


def require_spark() -> None:
    program, version = _find_java()
    if version < MIN_JAVA:
        raise ValueError(f"Spark needs Java {MIN_JAVA} or newer, got Java {version} from {program}; {_REMEDY}")
    if importlib.util.find_spec("pyspark") is None:
        raise ModuleNotFoundError(
            "Spark is not installed in this environment; it needs an older pandas and therefore its own environment: "
            "run `make fleet-env`, then .venv-spark/bin/sight fleet instead of sight fleet."
        )


def _find_java() -> tuple[str, int]:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if program is None:
        where = f"in JAVA_HOME ({home})" if home else "in PATH, and JAVA_HOME is not set"
        raise ValueError(f"Spark needs Java {MIN_JAVA} or newer, and there is none {where}; {_REMEDY}")
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(
            f"Spark needs Java {MIN_JAVA} or newer, but {program} does not run ({error}); {_REMEDY}"
        ) from None
    match = re.search(r'version "(?:1\.)?(\d+)', output)  # "17.0.15", and "1.8.0_392" for Java 8
    if match is None:
        raise ValueError(f"Expected java -version to print a version, got {output.strip()[:80]!r}; {_REMEDY}")
    return program, int(match[1])
