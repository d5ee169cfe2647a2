"""Damaged and cut-off device files: intact blocks are read, the others are counted and reported."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest

from sight.recordings import device_blocks
from sight.recordings.devices import read_device
from tests.helpers.device_files import FILES

pytest.importorskip("actfast")

CWA_BLOCK = 1024 + 512 * 20  # the 21st sector


@pytest.fixture
def damaged(device_files, tmp_path):
    """Return a function that writes a changed copy of a made file and reads it and the original."""

    def copy(name, change):
        (tmp_path / name).write_bytes(change((device_files / name).read_bytes()))
        return read_device(device_files / name), read_device(tmp_path / name)

    return copy


def flipped(data, place, mask=1):
    content = bytearray(data)
    content[place] ^= mask
    return bytes(content)


def overwritten(data, place, content):
    return data[:place] + content + data[place + len(content) :]


def assert_lost(whole, read, first, count, damaged=1):
    """Check that `count` samples from sample `first` are missing, and all others are there."""
    kept = np.r_[:first, first + count : len(whole.values)]
    np.testing.assert_array_equal(read.values, whole.values[kept])
    np.testing.assert_array_equal(read.time_s, whole.time_s[kept])
    assert read.facts.read_errors == damaged
    kinds = [warning.kind for warning in read.warnings]
    assert kinds == ["damaged"], read.warnings
    assert f"{damaged} damaged block" in read.warnings[0].text


@pytest.mark.parametrize(
    ("change", "blocks"),
    [
        (lambda data: flipped(data, CWA_BLOCK + 100), 1),
        (lambda data: flipped(data, CWA_BLOCK), 1),
        (lambda data: flipped(data, CWA_BLOCK + 2), 1),
        (lambda data: overwritten(data, CWA_BLOCK, b"\xff" * 512), 1),
        (lambda data: overwritten(data, CWA_BLOCK, bytes(3 * 512)), 3),
        (lambda data: data[:CWA_BLOCK] + data[CWA_BLOCK + 7 :], 1),
    ],
    ids=["data", "marker", "length", "erased", "three zeroed", "bytes lost"],
)
@pytest.mark.parametrize(("name", "samples"), [("ax3.cwa", 120), ("ax6.cwa", 40)])
def test_damaged_sectors_of_a_cwa_are_left_out(damaged, name, samples, change, blocks):
    whole, read = damaged(name, change)
    assert_lost(whole, read, 20 * samples, blocks * samples, damaged=blocks)


def page(data, number):
    return data.find(b"Recorded Data", data.find(b"Sequence Number:%d\r" % (number - 1)))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: overwritten(data, page(data, 7) + 1000, b"z"),
        lambda data: overwritten(data, page(data, 7) + 1000, b"\xff"),
        lambda data: overwritten(data, page(data, 7), b"x"),
        lambda data: overwritten(data, data.find(b"Page Time:", page(data, 7)) + 10, b"x"),
        lambda data: overwritten(data, data.find(b"Page Time:", page(data, 7)) + 15, b"9"),
        lambda data: data[: page(data, 7) + 900] + data[page(data, 7) + 1911 :],
    ],
    ids=["no digit", "no text", "marker", "time", "month 93", "characters lost"],
)
def test_damaged_pages_of_a_bin_are_left_out(damaged, change):
    assert_lost(*damaged("geneactiv.bin", change), 7 * 300, 300)


def with_log(data, change):
    """Return a .gt3x file whose log was changed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == "log.bin" else old.read(name))
    return packed.getvalue()


def record(log, number):
    """Return the place of the record of samples with this number; the first record has the parameters."""
    place = 0
    for _ in range(number + 1):
        place += 9 + struct.unpack_from("<H", log, place + 6)[0]
    return place


@pytest.mark.parametrize("place", [0, 1, 3, 6, 7, 40], ids=["separator", "kind", "time", "size", "long", "samples"])
def test_damaged_records_of_a_gt3x_are_left_out(damaged, place):
    def change(data):
        return with_log(data, lambda log: flipped(log, record(log, 11) + place))

    assert_lost(*damaged("actigraph.gt3x", change), 11 * 60, 60)


def test_bytes_lost_in_a_gt3x(damaged):
    def change(data):
        return with_log(data, lambda log: log[: record(log, 11)] + log[record(log, 11) + 50 :])

    assert_lost(*damaged("actigraph.gt3x", change), 11 * 60, 60)


def test_lost_parameters_of_a_gt3x_are_those_of_its_description(damaged):
    whole, read = damaged("actigraph.gt3x", lambda data: with_log(data, lambda log: flipped(log, 12)))
    np.testing.assert_array_equal(read.values, whole.values)
    np.testing.assert_array_equal(read.time_s, whole.time_s)
    assert read.facts.read_errors == 1


@pytest.mark.parametrize(
    ("name", "change", "samples"),
    [
        ("ax3.cwa", lambda data: data[: CWA_BLOCK + 200], 2400),
        ("geneactiv.bin", lambda data: data[: page(data, 7) + 1000], 2100),
        ("geneactiv.bin", lambda data: data[: page(data, 7)], 2100),
        ("actigraph.gt3x", lambda data: with_log(data, lambda log: log[: record(log, 11) + 50]), 660),
    ],
)
def test_a_cut_off_file_is_read_as_far_as_it_goes(damaged, name, change, samples):
    whole, read = damaged(name, change)
    np.testing.assert_array_equal(read.values, whole.values[:samples])
    (warning,) = read.warnings
    assert (warning.kind, warning.severity) == ("cut-off", "warning")
    assert "cut off" in warning.text
    if name.endswith("bin"):
        assert "13 of 20 blocks are missing" in warning.text


def test_a_zip_that_is_cut_off_is_read_without_its_description(damaged, device_files):
    with zipfile.ZipFile(device_files / "actigraph.gt3x") as archive:
        log, info = archive.read("log.bin"), archive.read("info.txt")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:  # the order in which ActiLife writes
        archive.writestr("log.bin", log)
        archive.writestr("info.txt", info)
    half = packed.getvalue()[: len(packed.getvalue()) // 2]
    whole, read = damaged("actigraph.gt3x", lambda _: half)
    assert 1000 < len(read.values) < 4000
    np.testing.assert_array_equal(read.values, whole.values[: len(read.values)])
    assert read.rate_hz == whole.rate_hz
    assert {warning.kind for warning in read.warnings} == {"cut-off", "damaged"}
    assert "zone is unknown" in read.warnings[-1].text


def test_a_damaged_directory_of_a_zip_costs_nothing(damaged):
    whole, read = damaged("actigraph.gt3x", lambda data: flipped(data, len(data) - 5))
    np.testing.assert_array_equal(read.values, whole.values)
    assert read.warnings == ()


@pytest.mark.parametrize("name", ["geneactiv.bin", "ax3.cwa", "actigraph.gt3x"])
def test_a_truncated_gz_is_read_as_far_as_it_goes(device_files, tmp_path, name):
    packed = gzip.compress((device_files / name).read_bytes())
    path = tmp_path / f"{name}.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    whole, read = read_device(device_files / name), read_device(path)
    assert 0.4 * len(whole.values) < len(read.values) < 0.9 * len(whole.values)
    np.testing.assert_array_equal(read.values, whole.values[: len(read.values)])
    assert "cut-off" in [warning.kind for warning in read.warnings]


def test_a_cwa_that_ends_before_its_planned_end_is_reported(damaged):
    def planned(hour):
        bits = 24 << 26 | 3 << 22 | 5 << 17 | hour << 12
        return lambda data: overwritten(data, 17, struct.pack("<I", bits))

    assert damaged("ax3.cwa", planned(10))[1].warnings == ()
    (warning,) = damaged("ax3.cwa", planned(18))[1].warnings
    assert "until 2024-03-05 18:00, but the file ends at 2024-03-05 09:32" in warning.text


def test_more_damage_is_a_warning_and_less_a_note(damaged):
    assert damaged("ax3.cwa", lambda data: flipped(data, CWA_BLOCK))[1].warnings[0].severity == "note"
    many = damaged("ax3.cwa", lambda data: overwritten(data, CWA_BLOCK, bytes(10 * 512)))[1]
    assert many.warnings[0].severity == "warning"
    assert "10 %" in many.warnings[0].text


@pytest.mark.parametrize("size", [700, 5000, 1 << 21])
@pytest.mark.parametrize("name", FILES)
def test_pieces_of_any_size_give_the_same_samples(device_files, monkeypatch, name, size):
    whole = read_device(device_files / name)
    monkeypatch.setattr(device_blocks, "PIECE_BYTES", size)
    read = read_device(device_files / name)
    np.testing.assert_array_equal(read.values, whole.values)
    np.testing.assert_array_equal(read.time_s, whole.time_s)
    assert (read.facts, read.warnings) == (whole.facts, ())


@pytest.mark.parametrize("size", [700, 5000])
@pytest.mark.parametrize("name", ["ax3.cwa", "geneactiv.bin"])
def test_damage_is_counted_alike_with_pieces_of_any_size(device_files, tmp_path, monkeypatch, name, size):
    rng = np.random.default_rng(0)
    content = np.frombuffer((device_files / name).read_bytes(), np.uint8).copy()
    content[rng.integers(5000, len(content), 12)] ^= 0x80
    (tmp_path / name).write_bytes(content.tobytes())
    whole = read_device(tmp_path / name)
    monkeypatch.setattr(device_blocks, "PIECE_BYTES", size)
    read = read_device(tmp_path / name)
    np.testing.assert_array_equal(read.values, whole.values)
    assert read.facts.read_errors == whole.facts.read_errors > 5


def test_device_serial_firmware_and_temperature(device_files):
    facts = {name: read_device(device_files / name).facts for name in FILES}
    assert facts["geneactiv.bin"].device == "GENEActiv 1.1"
    assert (facts["geneactiv.bin"].serial, facts["geneactiv.bin"].firmware) == ("012345", "Ver06.17")
    assert facts["geneactiv.bin"].temperature_c == 30.0
    assert (facts["ax6.cwa"].device, facts["ax6.cwa"].serial, facts["ax6.cwa"].firmware) == (
        "Axivity AX6",
        "4321",
        "50",
    )
    assert (facts["actigraph.gt3x"].device, facts["actigraph.gt3x"].firmware) == ("ActiGraph wGT3XBT", "1.9.2")
    assert facts["actigraph.gt3x"].temperature_c is None
    assert {each.read_errors for each in facts.values()} == {0}


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "place", "lost"), [("ax3_sample.cwa", 11364, 120), ("ax6_sample.cwa", 11364, 40), ("ex.bin", 50_000, 300)]
)
def test_one_flipped_bit_of_a_real_file_costs_one_block(real, tmp_path, name, place, lost):
    data = real(f"device/{name}").read_bytes()
    (tmp_path / name).write_bytes(flipped(data, place, 0x80))
    whole, read = read_device(real(f"device/{name}")), read_device(tmp_path / name)
    assert len(whole.values) - len(read.values) == lost
    assert (whole.facts.read_errors, read.facts.read_errors) == (0, 1)
