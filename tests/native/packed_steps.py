"""The C headers of packed tables, compiled for tests, with memory that is made up from addresses."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import clew.native

HEADERS = Path(clew.native.__file__).parent
REGISTERS = 33


class Frame(ctypes.Structure):
    """struct clew_frame."""

    _fields_ = (("known", ctypes.c_uint64), ("r", ctypes.c_uint64 * REGISTERS))


class MadeUp:
    """The memory of steps.c: every byte follows from its address, and a third of the pages cannot be read."""

    def read(self, address: int, size: int) -> bytes | None:
        address %= 1 << 64
        if (address >> 12) % 3 == 1:
            return None
        return bytes(((address + i) * 0x9E3779B97F4A7C15 % (1 << 64)) >> 56 for i in range(size))


@cache
def library() -> ctypes.CDLL:
    """steps.c as a shared object; skips the test where there is no C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    # It stays loaded until the process ends, and so does its file.
    folder = Path(tempfile.mkdtemp(prefix="clew-packed-"))
    out = folder / "steps.so"
    source = Path(__file__).parent / "packed" / "steps.c"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HEADERS}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(out)], check=True)
    loaded = ctypes.CDLL(str(out))
    shutil.rmtree(folder)
    return loaded


def aligned(data: bytes) -> npt.NDArray[np.uint8]:
    """The bytes at a multiple of 64, as a mapped file has them."""
    room = np.zeros(len(data) + 64, np.uint8)
    skip = -room.ctypes.data % 64
    out = room[skip : skip + len(data)]
    out[:] = np.frombuffer(data, np.uint8)
    return out


def check(data: bytes, checksum: bool = True) -> int:
    """What clew_packed_open says; 0 is sound."""
    held = aligned(data)
    return int(library().check(held.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(data)), int(checksum)))


def find(data: bytes, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """The rules' numbers at addresses."""
    held, out = aligned(data), np.zeros(len(addresses), np.uint32)
    problem = library().find(
        held.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(len(data)),
        addresses.ctypes.data_as(ctypes.c_void_p),
        out.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(len(addresses)),
    )
    assert problem == 0
    return out


def apply(data: bytes, rule: int, registers: dict[int, int], windowed: bool) -> tuple[int, dict[int, int]]:
    """What clew_apply says, and the registers that are then known."""
    frame = Frame()
    for number, value in registers.items():
        frame.known |= 1 << number
        frame.r[number] = value
    held = aligned(data)
    status = library().apply(
        held.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(data)), rule, ctypes.byref(frame), int(windowed)
    )
    return status, {number: frame.r[number] for number in range(REGISTERS) if frame.known >> number & 1}
