"""Exported C source on this machine: compile it, and call its functions from Python."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np

from sight.types import Array

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wconversion", "-Wdouble-promotion"]
ON_WINDOW = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_float), ctypes.c_double, ctypes.c_double)
#: More than the struct of any windower needs.
WINDOWER_BYTES = 1 << 16


def make_variable(folder: Path, name: str, file: str) -> list[str]:
    """Return the words of a variable in a file of make."""
    text = (folder / file).read_text("utf-8").replace("\\\n", " ")
    return re.search(rf"^{name} = (.*)$", text, re.MULTILINE)[1].split()


def sources(folder: Path) -> list[str]:
    """Return the files that the Makefile of a folder compiles."""
    return make_variable(folder, "SOURCES", "sources.mk")


def csv_lines(values: Array, time_s: Array) -> str:
    """Return samples as lines of seconds and values, with all digits, as main.c reads them."""
    rows = zip(time_s.tolist(), values.tolist(), strict=True)
    return "".join(",".join(map(repr, (t, *row))) + "\n" for t, row in rows)


def build(folder: Path, *extra: str, out: str, cc: str = "gcc", flags: tuple[str, ...] = ("-O2",)) -> Path:
    """Compile the sources of a folder with further files, warnings as errors, and return the program or library."""
    command = [cc, *STRICT, *flags, "-I.", *extra, *sources(folder), "-o", out, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return folder / out


class Library:
    """Functions of an exported folder; one wearer."""

    def __init__(self, folder: Path) -> None:
        path = build(folder, out="library.so", flags=("-O2", "-shared", "-fPIC"))
        self.c = ctypes.CDLL(str(path))
        text = (folder / "sight_config.h").read_text()
        config = dict(re.findall(r"^#define SIGHT_(\w+) (\S+?)U?$", text, re.MULTILINE))
        self.classes, self.features, self.words = (int(config[key]) for key in ("CLASSES", "FEATURES", "STATE_WORDS"))
        self.length, self.channels = int(config.get("LENGTH", 0)), int(config.get("CHANNELS", 0))
        found = re.search(r"bytes\[(\d+)\]", text)
        self.workspace = np.zeros(int(found[1]) // 4 if found else 1, np.float32)
        self.state = np.zeros(self.words, np.uint32)
        for name in ("sight_step", "sight_gap", "sight_load", "sight_encode"):
            if hasattr(self.c, name):
                getattr(self.c, name).restype = ctypes.c_bool
        self.c.sight_gap.argtypes = [ctypes.c_void_p, ctypes.c_float]
        self.reset()

    def reset(self) -> None:
        self.c.sight_reset(ctypes.c_void_p(self.state.ctypes.data))

    def step(self, z, p, *, in_place: bool = False):
        """Return the refined probabilities of one window, or None if the input was refused; z may be None."""
        z, p = None if z is None else np.ascontiguousarray(z, np.float32), np.array(p, np.float32)
        q = p if in_place else np.full(self.classes, -1, np.float32)
        places = (ctypes.c_void_p(None if array is None else array.ctypes.data) for array in (self.state, z, p, q))
        return q if self.c.sight_step(*places) else None

    def gap(self, seconds: float) -> bool:
        return bool(self.c.sight_gap(self.state.ctypes.data, seconds))

    def save(self) -> bytes:
        data = np.zeros(4 * (self.words + 3), np.uint8)
        self.c.sight_save(*(ctypes.c_void_p(array.ctypes.data) for array in (self.state, data)))
        return data.tobytes()

    def load(self, data: bytes) -> bool:
        given = np.frombuffer(data, np.uint8).copy()
        return bool(self.c.sight_load(*(ctypes.c_void_p(array.ctypes.data) for array in (self.state, given))))

    def encode(self, x):
        """Return features and probabilities of windows (B, C, T); None if one was refused."""
        z, p = np.zeros((len(x), self.features), np.float32), np.zeros((len(x), self.classes), np.float32)
        for t, window in enumerate(x):
            samples = np.ascontiguousarray(window.T, np.float32)
            arrays = (self.workspace, samples, z[t], p[t])
            if not self.c.sight_encode(*(ctypes.c_void_p(array.ctypes.data) for array in arrays)):
                return None
        return z, p

    def windows(self, values, time_s, *, finish_at: tuple[int, ...] = ()):
        """Return windows (N, C, T), their start times and the gaps before them, as the windower cuts them.

        The stream is also finished before each sample of `finish_at`.
        """
        memory, found = np.zeros(WINDOWER_BYTES, np.uint8), []

        @ON_WINDOW
        def on_window(_, samples, start_s, gap_s):
            window = np.ctypeslib.as_array(samples, (self.length, self.channels))
            found.append((window.T.copy(), start_s, gap_s))

        push, place = self.c.sight_push, ctypes.c_void_p(memory.ctypes.data)
        push.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p, ON_WINDOW, ctypes.c_void_p]
        values = np.ascontiguousarray(values, np.float32)
        self.c.sight_windower_reset(place)
        for t, time in enumerate(time_s):
            if t in finish_at:
                self.c.sight_finish(place, on_window, None)
            push(place, time, ctypes.c_void_p(values[t].ctypes.data), on_window, None)
        self.c.sight_finish(place, on_window, None)
        x = np.array([row[0] for row in found], np.float32).reshape(-1, self.channels, self.length)
        return x, np.array([row[1] for row in found]), np.array([row[2] for row in found])
