"""What perf finds of libunwind in the library for it: walks of another program through accessors."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from typing import Any

import pytest
from unwind_programs import libraries

from clew.testing import Cfa, CfiBuilder

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the library for perf is for x86-64")

CODE, FRAMES, TABLE, STACK, SIZE = 0x1000000, 0x2000000, 0x2001000, 0x7000, 0x3000
WORD = ctypes.c_uint64
FIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, WORD, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, WORD, ctypes.POINTER(WORD), ctypes.c_int, ctypes.c_void_p)
REGISTER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(WORD), ctypes.c_int, ctypes.c_void_p
)
ENOINFO = -10


class Accessors(ctypes.Structure):
    """unw_accessors_t."""

    _fields_ = (
        ("find", FIND),
        ("put", ctypes.c_void_p),
        ("list", ctypes.c_void_p),
        ("memory", READ),
        ("register", REGISTER),
        ("rest", ctypes.c_void_p * 3),
    )


class Program:
    """Code with one function, whose frames are rsp + 8."""

    def __init__(self) -> None:
        cfi = CfiBuilder(address=FRAMES)
        cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
        cfi.fde(cie, start=CODE, size=SIZE, instructions=[])
        cfi.terminator()
        frames = cfi.build()
        entry = 4 + int.from_bytes(frames[:4], "little")
        row = (CODE - TABLE) & 0xFFFFFFFF, (FRAMES + entry - TABLE) & 0xFFFFFFFF
        table = b"".join(each.to_bytes(4, "little") for each in row)
        stack = b"".join((CODE + 0x100 * n).to_bytes(8, "little") for n in range(1, 9))
        self.memory = {FRAMES: frames + bytes(8), TABLE: table + bytes(8), STACK: stack}
        self.registers: dict[int, int] = {}
        self.library = ctypes.CDLL(str(libraries() / "libclew-perf.so"))
        self.library._Ux86_64_create_addr_space.restype = ctypes.c_void_p
        self.accessors = Accessors(find=FIND(self._find), memory=READ(self._read), register=REGISTER(self._register))
        self.space = ctypes.c_void_p(self.library._Ux86_64_create_addr_space(ctypes.byref(self.accessors), 0))

    def _read(self, space: Any, address: int, value: Any, write: int, argument: Any) -> int:
        for start, data in self.memory.items():
            if start <= address <= start + len(data) - 8:
                value[0] = int.from_bytes(data[address - start :][:8], "little")
                return 0
        return -1

    def _register(self, space: Any, number: int, value: Any, write: int, argument: Any) -> int:
        if number not in self.registers:
            return -1
        value[0] = self.registers[number]
        return 0

    def _find(self, space: Any, address: int, info: Any, needed: int, argument: Any) -> int:
        if not CODE <= address < CODE + SIZE:
            return ENOINFO
        # unw_dyn_info_t: two links, start, end, gp, format 2 (a remote table), the offset, and the table's four numbers.
        words = (0, 0, CODE, CODE + SIZE, 0, 2, 0, 0, TABLE, 1, TABLE)
        dynamic = (WORD * len(words))(*words)
        search: Callable[..., int] = self.library._Ux86_64_dwarf_search_unwind_table
        return search(ctypes.c_void_p(space), WORD(address), dynamic, ctypes.c_void_p(info), needed, None)

    def steps(self, pc: int) -> list[int]:
        """The pcs of the callers, and what the last step says."""
        self.registers = {16: pc, 7: STACK}
        cursor, found = (WORD * 127)(), []
        assert self.library._Ux86_64_init_remote(cursor, self.space, None) == 0
        while (status := self.library._Ux86_64_step(cursor)) > 0:
            value = WORD()
            assert self.library._Ux86_64_get_reg(cursor, 16, ctypes.byref(value)) == 0
            found.append(value.value)
        return [*found, status]


def test_a_walk() -> None:
    program = Program()
    # The last word is not followed by another.
    assert program.steps(CODE + 5) == [*(CODE + 0x100 * n for n in range(1, 9)), -7]
    assert program.steps(5) == [ENOINFO]


def test_a_call_through_a_null_pointer_has_no_rule() -> None:
    program = Program()
    # This address has the place among the remembered ones that 0 has.
    there = next(at for at in range(CODE, CODE + SIZE) if not (at ^ at >> 12) & 4095)
    for _ in range(2):
        assert program.steps(there)[0] == CODE + 0x100
        assert program.steps(0) == [ENOINFO]
        assert program.steps(0) == [ENOINFO]
