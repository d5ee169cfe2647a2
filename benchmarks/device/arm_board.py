"""Exported C source on an emulated Cortex-M4F: compile, run in QEMU, sizes from the map file, instructions per call."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.device.host_library import make_variable, sources

HERE = Path(__file__).parent
#: File of an exported folder with the options for compiler, linker and emulator.
OPTIONS = "program.mk"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")
#: One instruction takes one nanosecond of the emulated clock.
COUNTED = ("-icount", "shift=0")
#: A line of a map file: section, address, size in hexadecimal, object file.
PLACED = re.compile(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", re.MULTILINE)


def build(folder: Path, main: Path, *options: str, semihosting: bool = True) -> Path:
    """Compile a folder with a main program; return the program, whose map file lies beside it."""
    name = main.stem + "".join(option.replace("-D", "_").replace("=", "_") for option in options)
    target = folder / "build" / name
    target.mkdir(parents=True)
    flags, link = (make_variable(folder, kind, OPTIONS) for kind in ("ARM_FLAGS", "ARM_LINK"))
    if not semihosting:
        link = [word.replace("rdimon.specs", "nosys.specs") for word in link]
    objects = []
    for file in (str(main), "board_startup.c", *sources(folder)):
        objects.append(str(target / f"{Path(file).stem}.o"))
        command = ["arm-none-eabi-gcc", *STRICT, *flags, *options, "-I.", "-c", file, "-o", objects[-1]]
        subprocess.run(command, cwd=folder, check=True)
    program = target / "program.elf"
    listing = f"-Wl,-Map={program.with_suffix('.map')}"
    command = ["arm-none-eabi-gcc", *flags, "-o", str(program), *objects, *link, listing]
    subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)  # newlib's stubs are named in warnings
    return program


def run(program: Path, text: str = "", *, counted: bool = False, timeout_s: float = 1200) -> str:
    """Run a program of `build` in the emulator and return what it prints."""
    emulator = make_variable(program.parents[2], "QEMU", OPTIONS)
    command = [*emulator, *(COUNTED if counted else ()), "-kernel", str(program)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=timeout_s)
    return done.stdout


def placed(program: Path) -> Counter[tuple[str, str]]:
    """Return the bytes of each kind of section (text, rodata, data, bss) and object file in a program."""
    text = program.with_suffix(".map").read_text("utf-8").partition("Linker script and memory map")[2]
    text = re.sub(r"\n (\.\S+)\n\s+0x", r"\n \1 0x", text)  # long names have a line of their own
    sizes: Counter[tuple[str, str]] = Counter()
    for section, size, file in PLACED.findall(text):
        kind = section.split(".")[1]
        if kind in ("text", "rodata", "data", "bss"):
            sizes[kind, Path(file).name] += int(size, 16)
    return sizes


def totals(program: Path) -> dict[str, int]:
    """Return bytes of flash and RAM of a program."""
    printed = subprocess.run(["arm-none-eabi-size", str(program)], capture_output=True, text=True, check=True).stdout
    text, data, bss = (int(number) for number in printed.splitlines()[1].split()[:3])
    return {"flash": text + data, "ram": data + bss}


def footprint(folder: Path) -> dict[str, int]:
    """Return bytes of flash and RAM of a firmware without standard input and output, and the parts of the adapter."""
    nothing, adapter, whole = (
        build(folder, HERE / "bare.c", f"-DPARTS={parts}", semihosting=False) for parts in range(3)
    )
    method = next(Path(file).stem for file in sources(folder) if file.startswith("method_"))
    constants = placed(adapter)["rodata", f"{method}.o"]
    code = totals(adapter)["flash"] - totals(nothing)["flash"] - constants
    weights = sum(size for (kind, _), size in placed(whole).items() if kind == "rodata")
    return {**totals(whole), "constants": weights, "adapter_code": code, "adapter_constants": constants}


def instructions(folder: Path, sensor_hz: float) -> dict[str, int]:
    """Return instructions of one call of each function, and bytes of stack and structs, as count.c prints them."""
    program = build(folder, HERE / "count.c", f"-DSENSOR_HZ={sensor_hz}")
    pairs = (line.split(",") for line in run(program, counted=True).split())
    return {name: int(value) for name, value in pairs}


def available() -> bool:
    return all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm")))
