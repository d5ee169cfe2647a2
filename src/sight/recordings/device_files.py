"""Device files as intact blocks: .cwa (Axivity), .bin (GENEActiv) and .gt3x (ActiGraph), gzipped or not."""

import gzip
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

from sight._util.folder_or_zip import check_unpacked
from sight.recordings.device_blocks import IntactBlocks, Pages, PartialStream, Records, Sectors
from sight.recordings.gt3x_archive import (
    PLAIN,
    as_packed,
    info_of_log,
    open_archive,
    packed_archive,
    parameters,
    record_kinds,
)

#: Bytes of the header of a .cwa file, and most bytes of that of a .bin file.
CWA_HEAD, BIN_HEAD = 1024, 1 << 16
#: Bytes that are read at once; those of a packed file are lost together if one is damaged.
READ_BYTES, UNPACKED_BYTES = 1 << 20, 1 << 16


@dataclass(frozen=True, kw_only=True)
class DeviceFile:
    """Device file that is read block by block."""

    blocks: IntactBlocks
    complete: Callable[[bytes], bytes]  # returns a file with these blocks alone
    planned_end: datetime | None = None  # when the device was set to stop, on its own clock
    stated_blocks: int | None = None  # number of blocks that the header states
    lacks_info: bool = False  # whether rate and time zone are lost
    kinds: set[int] = field(default_factory=set)  # of the records of a .gt3x file that were read


def open_device(path: Path, raw: IO[bytes]) -> DeviceFile | None:
    """Return the device file at `path`, opened as `raw`; None if it is of no known maker."""
    stream = PartialStream(_parts(path, raw))
    first = stream.read(BIN_HEAD)
    stream.unread(first)
    if first.startswith(b"MD"):
        return _open_cwa(stream)
    if first.startswith(b"Device Identity"):
        return _open_bin(stream)
    if first.startswith(b"PK"):
        return _open_gt3x(path, raw if raw.seekable() and not _is_packed(path) else _in_memory(stream))
    return None


def _open_cwa(stream: PartialStream) -> DeviceFile:
    head = stream.read(CWA_HEAD)
    return DeviceFile(
        blocks=IntactBlocks(Sectors(), stream),
        complete=lambda blocks: head + blocks,
        planned_end=_cwa_time(int.from_bytes(head[17:21], "little")),
    )


def _open_bin(stream: PartialStream) -> DeviceFile:
    first = stream.read(BIN_HEAD)
    head = first[: max(first.find(Pages.marker), 0)]
    stream.unread(first[len(head) :])
    pages = re.search(rb"^Number of Pages:(\d+)", head, re.MULTILINE)
    return DeviceFile(
        blocks=IntactBlocks(Pages(), stream),
        complete=lambda blocks: head + blocks,
        stated_blocks=int(pages[1]) if pages else None,
    )


def _open_gt3x(path: Path, file: IO[bytes]) -> DeviceFile | None:
    archive = open_archive(file, path)
    if archive is None:
        return None
    shared: list[bytes] = []  # info and parameters, which each piece needs
    kinds: set[int] = set()

    def complete(blocks: bytes) -> bytes:
        if not shared:
            info = archive.info or info_of_log(blocks)
            shared.extend((info, parameters(info, blocks)))
        own = record_kinds(blocks)
        kinds.update(own)
        return packed_archive(shared[0], shared[1] + (as_packed(blocks) if PLAIN in own else blocks))

    return DeviceFile(
        blocks=IntactBlocks(Records(), archive.log),
        complete=complete,
        lacks_info=not archive.info,
        kinds=kinds,
    )


def _parts(path: Path, raw: IO[bytes]) -> Iterator[bytes]:
    if not _is_packed(path):
        while part := raw.read(READ_BYTES):
            yield part
        return
    unpacked, packed = 0, path.stat().st_size
    with gzip.open(raw) as stream:
        while part := stream.read1(UNPACKED_BYTES):
            unpacked += len(part)
            check_unpacked(unpacked, packed, path)
            yield part


def _in_memory(stream: PartialStream) -> IO[bytes]:
    content = io.BytesIO()
    while part := stream.read(READ_BYTES):
        content.write(part)
    content.seek(0)
    return content


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _cwa_time(bits: int) -> datetime | None:
    """Return a time of a .cwa header; None if the bits are no time, as for a device that never stops."""
    try:
        return datetime(
            2000 + (bits >> 26), bits >> 22 & 15, bits >> 17 & 31, bits >> 12 & 31, bits >> 6 & 63, bits & 63
        )
    except ValueError:
        return None
