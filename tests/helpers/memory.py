"""Peak memory of a script, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys

REPORT = """
peak_kb = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak_kb) // 1024)
"""


def peak_megabytes(script, *arguments):
    """Run a script that prints integers; return them, and the peak resident memory in MB as the last."""
    command = [sys.executable, "-c", "import sys\n" + script + REPORT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]
