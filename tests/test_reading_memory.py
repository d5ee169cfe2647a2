"""Memory of reading a long recording."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

#: Reads a file as windows and prints by how many bytes its peak exceeds the memory after a small file, and the windows.
READ = """
import resource, sys
from sight import read
from sight.sources import load
model = load("wrist")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
read(sys.argv[1], model, tz="UTC")
before = peak()
windows = read(sys.argv[2], model, tz="UTC")
print(peak() - before, len(windows))
"""


def _write(path, hours):
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = round(hours * 3600 * 100)
    time = pa.array(np.arange(n) * 10 + 1_700_000_000_000, pa.timestamp("ms", tz="UTC"))
    values = np.random.default_rng(0).normal((0, 0, 1), 0.1, (n, 3)).astype(np.float32)
    values[n // 2] = np.nan  # one sample is dropped
    axes = {name: values[:, column] for column, name in enumerate("xyz")}
    pq.write_table(pa.table({"time": time, **axes}), path, row_group_size=1 << 17)
    return n


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of peak memory differs between systems")
def test_reading_two_days_takes_little_more_memory_than_their_samples(tmp_path):
    _write(tmp_path / "short.parquet", 0.1)
    n = _write(tmp_path / "long.parquet", 48)
    command = [sys.executable, "-c", READ, str(tmp_path / "short.parquet"), str(tmp_path / "long.parquet")]
    extra, windows = map(int, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    assert windows > 0.99 * 48 * 3600 / 2.5
    assert extra < 1.6 * 20 * n  # 12 bytes of values and 8 of time for each sample
