"""Memory of reading a long recording."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

#: Reads a small file and a long one; prints by how many bytes the peak grows, and the hours of the windows. VmHWM is
#: the peak of this process only; that of `resource` may be the peak of its parent.
READ = """
import sys
from sight import read
from sight.models.load import load
model = load("wrist")
peak = lambda: next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
read(sys.argv[1], model, tz="UTC")
before = peak()
windows = read(sys.argv[2], model, tz="UTC")
print(peak() - before, len(windows) * windows.stride_s / 3600)
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
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_reading_two_days_takes_little_more_memory_than_their_samples(tmp_path):
    _write(tmp_path / "short.parquet", 0.1)
    n = _write(tmp_path / "long.parquet", 48)
    command = [sys.executable, "-c", READ, str(tmp_path / "short.parquet"), str(tmp_path / "long.parquet")]
    extra, hours = map(float, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    assert hours > 47.9
    assert extra < 1.6 * 20 * n  # 12 bytes of values and 8 of time for each sample
