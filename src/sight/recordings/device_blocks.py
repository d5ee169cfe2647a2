"""Blocks of device files: sectors of .cwa, pages of .bin, records of .gt3x. Damaged ones are skipped and counted."""

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from sight._util.folder_or_zip import BROKEN

#: Bytes of intact blocks that are decoded at once; keeps the memory for a week of samples low.
PIECE_BYTES = 1 << 21
#: Most blocks that are checked at once: behind each damaged block, checking begins again.
AT_ONCE = 256
#: No block is longer; that of a .gt3x file has a size of 16 bits.
LONGEST_BLOCK = (1 << 16) + 9
#: Part of a block by which sizes of blocks vary.
TOLERANCE = 0.02


class PartialStream:
    """Stream of bytes that ends where its source is cut off or damaged; `broken` is whether it was."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self.broken = False
        self._parts, self._pending = parts, b""

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end."""
        parts, length = [self._pending], len(self._pending)
        try:
            while length < size and (part := next(self._parts, b"")):
                parts.append(part)
                length += len(part)
        except BROKEN:
            self.broken = True
        data = b"".join(parts)
        self._pending = data[size:]
        return data[:size]

    def unread(self, data: bytes) -> None:
        self._pending = data + self._pending


class Run(NamedTuple):
    """Intact blocks that follow each other."""

    stop: int  # where they end
    blocks: int  # their number
    largest: int  # size of the largest
    more: bool  # whether further bytes are needed to check the next block


class BlockFormat(Protocol):
    """How the blocks of a device file are recognised."""

    marker: bytes  # first bytes of each block

    def run(self, data: bytes, at: int, most: int) -> Run:
        """Return the intact blocks from byte `at`, at most `most`."""
        ...

    def begins(self, data: bytes, at: int) -> bool:
        """Return whether an intact block begins at byte `at`, where one is searched behind a damaged block."""
        ...


class Sectors:
    """Sectors of a .cwa file: 512 bytes whose 16-bit words add up to zero."""

    marker = b"AX\xfc\x01"
    SIZE: ClassVar[int] = 512

    def run(self, data: bytes, at: int, most: int) -> Run:
        complete = (len(data) - at) // self.SIZE
        count = min(complete, most)
        words = np.frombuffer(data, "<u2", count * self.SIZE // 2, at).reshape(count, self.SIZE // 2)
        begins = (words[:, :2] == np.frombuffer(self.marker, "<u2")).all(axis=1)
        intact = begins & (words.sum(axis=1, dtype=np.uint16) == 0)
        good = count if intact.all() else int(np.argmin(intact))
        return Run(at + good * self.SIZE, good, self.SIZE, good == complete)

    def begins(self, data: bytes, at: int) -> bool:
        return self.run(data, at, 1).blocks == 1


class Pages:
    """Pages of a .bin file: nine lines of text, and 300 samples as hexadecimal digits. They have no checksum."""

    marker = b"Recorded Data"
    LINES: ClassVar = re.compile(rb"Recorded Data *\r?\n(?:[\x20-\x7e]*\r?\n){8}")
    TIME: ClassVar = re.compile(rb"\nPage Time:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}\r?\n")
    DIGITS: ClassVar[bytes] = b"0123456789ABCDEFabcdef"
    SAMPLES: ClassVar[int] = 3600

    def run(self, data: bytes, at: int, most: int) -> Run:
        count = largest = 0
        while count < most and (stop := self._page_end(data, at)) is not None:
            at, count, largest = stop, count + 1, max(largest, stop - at)
        return Run(at, count, largest, count < most and len(data) - at < LONGEST_BLOCK)

    def begins(self, data: bytes, at: int) -> bool:
        return self._page_end(data, at) is not None

    def _page_end(self, data: bytes, at: int) -> int | None:
        lines = self.LINES.match(data, at)
        if lines is None or self.TIME.search(lines[0]) is None:
            return None
        stop = lines.end() + self.SAMPLES
        samples, after = data[lines.end() : stop], data[stop : stop + 2]
        if len(samples) < self.SAMPLES or samples.translate(None, self.DIGITS) or after[:1] not in (b"\r", b"\n"):
            return None
        return stop + (2 if after == b"\r\n" else 1)


class Records:
    """Records in the log of a .gt3x file: separator, kind, time, size, content, and the complement of their XOR."""

    marker = b"\x1e"
    HEAD: ClassVar[int] = 8
    LAST_KIND: ClassVar[int] = 26

    def run(self, data: bytes, at: int, most: int) -> Run:
        starts, stop, more = list[int](), at, False
        while len(starts) < most:
            end = stop + self.HEAD + 1 + int.from_bytes(data[stop + 6 : stop + self.HEAD], "little")
            if len(data) - stop <= self.HEAD or end > len(data):
                more = True
                break
            if data[stop] != self.marker[0] or data[stop + 1] > self.LAST_KIND:
                break
            starts.append(stop)
            stop = end
        if not starts:
            return Run(at, 0, 0, more)
        check = np.bitwise_xor.reduceat(np.frombuffer(data, np.uint8, stop - at, at), np.array(starts) - at)
        intact = check == 0xFF
        good = len(starts) if intact.all() else int(np.argmin(intact))
        edges = [*starts, stop][: good + 1]
        return Run(edges[-1], good, int(np.diff(edges).max(initial=0)), more and good == len(starts))

    def begins(self, data: bytes, at: int) -> bool:
        # A single record can be intact by chance: the check has one byte.
        found = self.run(data, at, 2)
        return found.blocks == 2 or (found.blocks == 1 and found.stop == len(data))


class IntactBlocks:
    """Intact blocks of a stream of bytes, and what is lost.

    `count` is the number of intact blocks, `damaged` that of skipped ones; `cut_off` is whether the last one is
    incomplete or the stream ended where its source is damaged.
    """

    def __init__(self, form: BlockFormat, stream: PartialStream) -> None:
        self.form, self._stream = form, stream
        self.count = self.damaged = self._largest = self._lost = 0
        self.cut_off = False

    def pieces(self) -> Iterator[bytes]:
        """Yield intact blocks, joined to pieces of about `PIECE_BYTES`."""
        data, ended = b"", False
        while not ended:
            chunk = self._stream.read(PIECE_BYTES)
            ended = not chunk
            data, intact = self._split(data + chunk, ended)
            if intact:
                yield intact
        self.cut_off |= self._stream.broken

    def blocks(self, piece: bytes) -> list[bytes]:
        """Split a piece into its blocks."""
        found, at = [], 0
        while (stop := self.form.run(piece, at, 1).stop) > at:
            found.append(piece[at:stop])
            at = stop
        return found

    def _split(self, data: bytes, ended: bool) -> tuple[bytes, bytes]:
        """Return the bytes that cannot be judged yet, and the intact blocks before them."""
        intact, at = [], 0
        while at < len(data):
            if self._lost:
                skipped, found = self._skip(data, at, ended)
                at += skipped
                if not found:
                    break
            run = self.form.run(data, at, AT_ONCE)
            if run.blocks:
                intact.append(data[at : run.stop])
                self.count, self._largest, at = self.count + run.blocks, max(self._largest, run.largest), run.stop
            elif run.more and not ended:
                break
            else:
                self._lost, at = 1, at + 1  # a damaged block begins here
        if ended and self._lost:
            self._count_tail()
        return data[at:], b"".join(intact)

    def _skip(self, data: bytes, at: int, ended: bool) -> tuple[int, bool]:
        """Return how many bytes to skip up to the next intact block, and whether there is one."""
        place, limit = data.find(self.form.marker, at), len(data)
        while place >= 0:
            if self.form.begins(data, place):
                self._lost += place - at
                self._count_lost()
                return place - at, True
            if not ended and len(data) - place < LONGEST_BLOCK:
                limit = place  # it may be intact with the bytes that follow
                break
            place = data.find(self.form.marker, place + 1)
        self._lost += limit - at
        return limit - at, False

    def _count_lost(self) -> None:
        blocks = round(self._lost / self._largest) if self._largest else 1
        self.damaged, self._lost = self.damaged + max(1, blocks), 0

    def _count_tail(self) -> None:
        """Count what is lost at the end: whole blocks, and whether the last one is incomplete."""
        blocks = self._lost / self._largest if self._largest else 0.0
        whole = int(blocks + TOLERANCE)
        self.damaged, self.cut_off = self.damaged + whole, blocks - whole > TOLERANCE or not self.count
