"""Damaged files of every format: a sentence of ours, never another error, and never much memory."""

from __future__ import annotations

import gzip
import io
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sight
from sight.models.fused_model import FusedSession
from sight.models.model_inspection import inspect
from sight.recordings.labels import label_windows
from sight.recordings.npz_recordings import read_npz, write_npz
from sight.recordings.read import read_windows
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_files import read
from sight.recordings.recording_references import find_recording
from sight.testing import ToySource, toy_card, toy_network, toy_stream
from tests.helpers.onnx_files import write_model

pd = pytest.importorskip("pandas")
SEEDS = range(40)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One small valid file of each format."""
    folder = tmp_path_factory.mktemp("files")
    toy_network("resnet").save(folder / "model.safetensors")
    write_model(folder / "model.onnx")
    page = Path(sight.__file__).parent / "apps" / "serve" / "static"
    (folder / "fused.onnx").write_bytes((page / "model.onnx").read_bytes())
    write_npz(toy_stream(n=12), folder / "p.npz", ToySource().classes)
    time = np.arange(60) / 10
    table = pd.DataFrame({"time": time, "x": np.sin(time), "y": np.cos(time), "z": 1.0})
    table.to_csv(folder / "p.csv", index=False)
    table.to_csv(folder / "p.csv.gz", index=False)
    table.to_parquet(folder / "p.parquet", index=False)
    (folder / "diary.csv").write_text("start,end,label\n0,5,activity 0\n5,9,activity 1\n")
    return folder


def damaged(data: bytes, seed: int) -> bytes:
    """Return data with a few flipped bytes, cut short, or with a piece removed or repeated."""
    rng = np.random.default_rng(seed)
    content = np.frombuffer(data, np.uint8).copy()
    start, stop = sorted(rng.integers(0, len(content), 2))
    kind = seed % 4
    if kind == 0:
        content[rng.integers(0, len(content), 4)] = rng.integers(0, 256, 4)
    elif kind == 1:
        content[rng.integers(0, min(len(content), 400), 2)] ^= rng.integers(1, 256, 2, np.uint8)
    elif kind == 2:
        content = content[:stop]
    else:
        content = np.concatenate([content[:start], content[stop:], content[start : start + 8]])
    return content.tobytes()


READERS = {
    "model.safetensors": (sight.load, inspect),
    "model.onnx": (sight.load, inspect),
    "fused.onnx": (FusedSession, inspect),
    "p.npz": (read_npz,),
    "p.csv": (read,),
    "p.csv.gz": (read,),
    "p.parquet": (read,),
    "diary.csv": (lambda path: label_windows(path, toy_stream(n=12), ToySource().classes, None),),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_damaged_file_is_read_or_refused(files, tmp_path, name):
    data = (files / name).read_bytes()
    for seed in SEEDS:
        path = tmp_path / name
        path.write_bytes(damaged(data, seed))
        for reader in READERS[name]:
            with suppress(ValueError, OSError):
                reader(path)


@pytest.mark.parametrize("name", ["ax3.cwa", "ax6.cwa", "actigraph.gt3x", "geneactiv.bin"])
def test_a_damaged_device_file_is_read_or_refused(device_files, tmp_path, name):
    data = (device_files / name).read_bytes()
    for seed in range(8):
        (tmp_path / name).write_bytes(damaged(data, seed))
        with suppress(ValueError, OSError):
            read(tmp_path / name)


def test_an_altered_byte_of_a_checkpoint_is_detected(files, tmp_path):
    data = bytearray((files / "model.safetensors").read_bytes())
    data[-3] ^= 1
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=r"model\.safetensors: .* damaged or altered"):
        sight.load(tmp_path / "model.safetensors")


def test_an_oversized_field_is_refused(tmp_path):
    for text in ("x" * 200_000 + ",y\n1,2\n", "time,x,y,z\n0,1,2,3\n" + "9" * 200_000 + ",1,2,3\n", "a" * 3_000_000):
        (tmp_path / "p.csv").write_text(text)
        with pytest.raises(ValueError, match=r"p\.csv"):
            read(tmp_path / "p.csv")
    (tmp_path / "diary.csv").write_text(f"start,end,label\n0,1,{'x' * 200_000}\n")
    with pytest.raises(ValueError, match="cannot be read"):
        label_windows(tmp_path / "diary.csv", toy_stream(n=12), ToySource().classes, None)


def npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_an_npz_without_windows_is_refused(tmp_path):
    write_npz(toy_stream(n=0), tmp_path / "p.npz", ToySource().classes)
    with pytest.raises(ValueError, match=r"p\.npz has no windows"):
        read_windows(find_recording(tmp_path / "p.npz"), toy_card(), ReadOptions())


@pytest.mark.parametrize("header", [npy_header("(10000000000000, 3, 20)"), npy_header("(3,"), b"\x93NUMPY\x09\x00abc"])
def test_an_npz_with_a_wrong_header_is_refused(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
        archive.writestr("x.npy", header)
        archive.writestr("y.npy", header)
    with pytest.raises(ValueError, match="damaged"):
        read_npz(tmp_path / "p.npz")


def test_files_that_unpack_to_far_too_much_are_refused(tmp_path, monkeypatch):
    from sight._util import folder_or_zip

    monkeypatch.setattr(folder_or_zip, "UNPACKED_BYTES", 1 << 20)
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.zeros((1, 3, 1 << 20), np.float32), y=np.array(["a"]))
    (tmp_path / "p.npz").write_bytes(stream.getvalue())
    with pytest.raises(ValueError, match="after decompression"):
        read_npz(tmp_path / "p.npz")
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(b"time,x,y,z\n" + b"0,0,0,1\n" * (1 << 19)))
    with pytest.raises(ValueError, match="after decompression"):
        read(tmp_path / "p.csv.gz")
    (tmp_path / "p.cwa.gz").write_bytes(gzip.compress(b"MD" + bytes(1 << 22)))
    with pytest.raises(ValueError, match="after decompression"):
        read(tmp_path / "p.cwa.gz")


def test_a_card_cannot_allocate_more_than_the_file_holds(files, tmp_path):
    data = (files / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].replace(rb"\"channels\": 3", rb"\"channels\": 300000000000")
    assert len(text) > length
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    with pytest.raises(ValueError, match=r"altered|do not fit"):
        sight.load(tmp_path / "model.safetensors")
