"""The step inside the kernel: its verifier accepts it, and it finds the same frames there."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from packed_steps import HEADERS

from clew.image import Image
from clew.read.frames import read_table
from clew.read.packed import PackedTable, layout
from clew.table import RegisterPlus
from clew.write.packed import packed

LIBC = Path("/lib/x86_64-linux-gnu/libc.so.6")
NULL_RETURN, NO_ROW = -7, -2
BLOCK = 4096


class Walk(ctypes.Structure):
    """struct walk of step.bpf.c."""

    _fields_ = (
        ("known", ctypes.c_uint64),
        ("r", ctypes.c_uint64 * 17),
        ("bias", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("status", ctypes.c_int64),
        ("header", ctypes.c_uint8 * 128),
        ("pcs", ctypes.c_uint64 * 64),
    )


class Run(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("data", ctypes.c_void_p * 2),
        ("data_size", ctypes.c_uint32 * 2),
        ("context_in", ctypes.c_void_p),
        ("context_out", ctypes.c_void_p),
        ("context_size", ctypes.c_uint32 * 2),
        ("rest", ctypes.c_uint32 * 6),
    )


class Program:
    """step.bpf.c in the kernel."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL("libbpf.so.1", use_errno=True)
        except OSError:
            pytest.skip("needs libbpf.so.1")
        library.bpf_object__open_file.restype = ctypes.c_void_p
        library.bpf_object__find_program_by_name.restype = ctypes.c_void_p
        self.library = library
        self.object = ctypes.c_void_p(library.bpf_object__open_file(str(path).encode(), None))
        status = library.bpf_object__load(self.object)
        if status in (-1, -13) and os.geteuid():
            pytest.skip("needs the right to load programs into the kernel")
        assert status == 0, "the kernel's verifier refuses the step"

    def put(self, name: str, key: int, value: bytes) -> None:
        number = self.library.bpf_object__find_map_fd_by_name(self.object, name.encode())
        index = ctypes.c_uint32(key)
        assert self.library.bpf_map_update_elem(number, ctypes.byref(index), value, ctypes.c_uint64(0)) == 0

    def run(self, walk: Walk) -> Walk:
        self.put("walks", 0, bytes(walk))
        program = ctypes.c_void_p(self.library.bpf_object__find_program_by_name(self.object, b"step"))
        arguments = (ctypes.c_uint64 * 8)()
        options = Run(size=ctypes.sizeof(Run))
        options.context_in = ctypes.cast(arguments, ctypes.c_void_p)
        options.context_size[0] = ctypes.sizeof(arguments)
        number = self.library.bpf_program__fd(program)
        status = self.library.bpf_prog_test_run_opts(number, ctypes.byref(options))
        assert status == 0, os.strerror(ctypes.get_errno())
        out, index = Walk(), ctypes.c_uint32(0)
        walks = self.library.bpf_object__find_map_fd_by_name(self.object, b"walks")
        assert self.library.bpf_map_lookup_elem(walks, ctypes.byref(index), ctypes.byref(out)) == 0
        return out


def test_the_kernel_takes_the_same_steps(tmp_path: Path) -> None:
    compiler = shutil.which("clang") or shutil.which("clang-14")
    if compiler is None:
        pytest.skip("needs clang, which compiles for the kernel")
    if not LIBC.exists():
        pytest.skip("there is no libc for x86-64 in its usual place")
    source, built = Path(__file__).parent / "packed" / "step.bpf.c", tmp_path / "step.bpf.o"
    flags = ["-target", "bpf", "-g", "-O2", "-mcpu=v3", "-Wall", "-Werror", f"-I{HEADERS}"]
    subprocess.run([compiler, *flags, "-c", str(source), "-o", str(built)], check=True)
    program = Program(built)
    image = Image.open(LIBC)
    table = read_table(image)
    data = packed(table, image)
    opened = PackedTable(data)
    for block in range(-(-len(data) // BLOCK)):
        program.put("blocks", block, data[block * BLOCK : (block + 1) * BLOCK].ljust(BLOCK, b"\0"))
    # A stack of frames of this many functions: each return address where its callee's rule says.
    plain = [
        (row.start, row.rule.cfa.offset)
        for row in table.rows()
        if isinstance(row.rule.cfa, RegisterPlus) and row.rule.cfa.register == 7 and row.end - row.start > 2
    ]
    random = np.random.default_rng(3)
    chain = [plain[index] for index in random.choice(len(plain), 40)]
    stack = (ctypes.c_uint64 * 200_000)()
    base = ctypes.addressof(stack)
    sp = 0
    for (_, size), (following, _) in zip(chain, [*chain[1:], (-1, 0)], strict=True):
        sp += size // 8
        stack[sp - 1] = following + 1
    walk = Walk(known=1 << 7 | 1 << 16, status=1)
    walk.r[7], walk.r[16] = base, chain[0][0]
    walk.header[:] = data[: layout.HEADER.itemsize]
    out = program.run(walk)
    assert out.status == NULL_RETURN
    assert list(out.pcs[: out.count]) == [start + 1 for start, _ in chain[1:]]
    # A frame by an expression, which the kernel evaluates as well, and one that the table knows nothing of.
    signal = next(row for row in table.rows() if row.rule.signal_frame)
    kept = [0] * 64
    words = (ctypes.c_uint64 * 512)(*kept)
    # struct ucontext: the kernel stores rip at offset 168 from rsp, rsp at 160 (x86-64's struct sigcontext behind 40 bytes).
    words[168 // 8], words[160 // 8] = 0x10, base
    walk = Walk(known=1 << 7 | 1 << 16, status=1)
    walk.r[7], walk.r[16] = ctypes.addressof(words), signal.start + 1
    walk.header[:] = data[: layout.HEADER.itemsize]
    out = program.run(walk)
    assert (out.status, list(out.pcs[: out.count])) == (NO_ROW, [0x10])
    assert opened.find(0x10) == 0
