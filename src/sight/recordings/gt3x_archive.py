"""Contents of a .gt3x file, a zip of `info.txt` and `log.bin`, also if the zip is cut off or damaged."""

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from sight._util.folder_or_zip import BROKEN, check_unpacked
from sight.recordings.device_blocks import PartialStream

INFO, LOG = "info.txt", "log.bin"
#: Kinds of records: samples of 12 bits, samples of 16 bits, parameters.
PACKED, PLAIN, PARAMETERS = 0, 26, 21
#: Bytes of a sample in records of these kinds.
SAMPLE_BYTES = {PACKED: 4.5, PLAIN: 6.0}
#: First bytes of a member of a zip, and bytes of its header before its name.
MEMBER, HEAD = b"PK\x03\x04", 30
#: Bytes that are unpacked at once: all of them are lost if one is damaged.
AT_ONCE = 1 << 12
#: Most bytes of `info.txt`.
MOST_INFO = 1 << 20


class Archive(NamedTuple):
    """Contents of a .gt3x file."""

    info: bytes | None  # None if it is missing
    log: PartialStream


def open_archive(file: IO[bytes], where: object) -> Archive | None:
    """Return the contents of a .gt3x file; None if it has no log."""
    members = _members(file)
    if LOG not in members:
        return None
    info = PartialStream(_content(file, members[INFO], where)).read(MOST_INFO) if INFO in members else None
    return Archive(info, PartialStream(_content(file, members[LOG], where)))


def packed_archive(info: bytes, log: bytes) -> bytes:
    """Return a .gt3x file of these contents, not compressed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(INFO, info)
        archive.writestr(LOG, log)
    return stream.getvalue()


def parameters(info: bytes, log: bytes) -> bytes:
    """Return the first record of parameters in a log; if there is none, one with rate and scale from `info.txt`."""
    for kind, record in _records(log):
        if kind == PARAMETERS:
            return record
    scale = _number(info, "Acceleration Scale") or 256.0
    exponent = math.floor(math.log2(scale)) + 1
    fraction = round(scale / 2**exponent * 2**23)
    content = struct.pack("<HHIHHI", 0, 55, exponent << 24 | fraction, 1, 10, round(_number(info, "Sample Rate") or 0))
    return _record(PARAMETERS, log[2:6].ljust(4, b"\0"), content)


def info_of_log(log: bytes) -> bytes:
    """Return an `info.txt` with the sampling rate of a log: the samples of most of its seconds."""
    counts = [round((len(record) - 9) / SAMPLE_BYTES[kind]) for kind, record in _records(log) if kind in SAMPLE_BYTES]
    usual = int(np.bincount([count for count in counts if count > 1] or [0]).argmax())
    return f"Sample Rate: {usual}\r\n".encode() if usual else b""


def record_kinds(log: bytes) -> set[int]:
    return {kind for kind, _ in _records(log)}


def as_packed(log: bytes) -> bytes:
    """Return a log with samples of 12 bits, which actfast decodes, in place of those of 16 bits.

    A sensor of 8 g has values of 12 bits in both; larger values are clipped.
    """
    return b"".join(_packed_record(record) if kind == PLAIN else record for kind, record in _records(log))


def _packed_record(record: bytes) -> bytes:
    samples = np.frombuffer(record, "<i2", (len(record) - 9) // 6 * 3, 8).reshape(-1, 3)
    values = samples[:, [1, 0, 2]].clip(-2048, 2047).ravel().astype(np.uint16) & 0xFFF
    left, right = np.append(values, np.zeros(len(values) % 2, np.uint16)).reshape(-1, 2).T
    content = np.stack((left >> 4, left << 4 | right >> 8, right), axis=1).astype(np.uint8).tobytes()
    return _record(PACKED, record[2:6], content[: (3 * len(values) + 1) // 2])


def _record(kind: int, moment: bytes, content: bytes) -> bytes:
    record = bytes((0x1E, kind)) + moment + struct.pack("<H", len(content)) + content
    return record + bytes([~int(np.bitwise_xor.reduce(np.frombuffer(record, np.uint8))) & 0xFF])


def _number(info: bytes, key: str) -> float | None:
    found = re.search(rf"^{key}: *(\d+(?:\.\d+)?)".encode(), info, re.MULTILINE)
    return float(found[1]) if found else None


def _records(log: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 8 < len(log):
        stop = at + 9 + int.from_bytes(log[at + 6 : at + 8], "little")
        yield log[at + 1], log[at:stop]
        at = stop


def _members(file: IO[bytes]) -> dict[str, int]:
    """Return where each member of a zip begins: by its directory, or by searching if that is lost or damaged."""
    try:
        listed = {entry.filename.lower(): entry.header_offset for entry in zipfile.ZipFile(file).infolist()}
        if all(_at(file, at, len(MEMBER)) == MEMBER for at in listed.values()):
            return listed
    except (*BROKEN, ValueError, OSError, NotImplementedError, struct.error):
        pass
    file.seek(0)
    packed = file.read()
    members, at = dict[str, int](), packed.find(MEMBER)
    while at >= 0:
        length = int.from_bytes(packed[at + 26 : at + 28], "little")
        members.setdefault(packed[at + HEAD : at + HEAD + length].decode("cp437").lower(), at)
        at = packed.find(MEMBER, at + HEAD)
    return members


def _at(file: IO[bytes], place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)


def _content(file: IO[bytes], at: int, where: object) -> Iterator[bytes]:
    """Yield the content of the member at byte `at`; raise one of `BROKEN` where it is damaged or cut off.

    The checksum of the zip is not used, because records have their own.
    """
    head = _at(file, at, HEAD)
    method, stated = int.from_bytes(head[8:10], "little"), int.from_bytes(head[18:22], "little")
    if len(head) < HEAD or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile(f"method {method}")
    begin = at + HEAD + sum(struct.unpack("<HH", head[26:]))
    inflater, unpacked, packed = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
    while not inflater.eof and not (method == zipfile.ZIP_STORED and packed == stated):
        wanted = AT_ONCE if method == zipfile.ZIP_DEFLATED else min(AT_ONCE, stated - packed)
        part = _at(file, begin + packed, wanted)
        if not part:
            raise EOFError("the zip is cut off")
        packed += len(part)
        part = inflater.decompress(part) if method == zipfile.ZIP_DEFLATED else part
        unpacked += len(part)
        check_unpacked(unpacked, packed, where)
        if part:
            yield part
