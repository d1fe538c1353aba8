"""The extension that walks samples by packed tables: what it walks, what it leaves to others, and what it refuses."""

from __future__ import annotations

import gc
import sys
import weakref
from struct import pack
from typing import Any

import numpy as np
import pytest

from clew.table import AtCfa, RegisterPlus, Rule, Signing, Undefined, table_of
from clew.write.packed import packed

native = pytest.importorskip("clew.native.packed_walk", reason="needs the extension in C", exc_type=ImportError)

UNUSUAL, OUTERMOST, FULL, COPY_END = range(4)
BASE, STACK = 0x40_0000, 0x7FFF_0000_0000
U8, NONE = np.uint64, np.zeros(0, np.uint64)


def walker(data: bytes, machine: int, *, special: tuple[int, int] | None = None, plain: int = 1, mask: int = 0) -> Any:
    """A process with one module, whose file has this table."""
    rules = int.from_bytes(data[24 + 8 * 5 + 4 :][:4], "little")
    special_start = NONE if special is None else np.array([special[0]], U8)
    special_end = NONE if special is None else np.array([special[1]], U8)
    file = native.PackedFile(data, np.full(rules, plain, np.uint8), special_start, special_end)
    columns = (np.array([value], U8) for value in (BASE, BASE + 0x10000, BASE))
    return native.PackedWalker(machine, mask, lambda number: file, *columns)


def walk(
    it: Any, registers: dict[int, int], stack: bytes, *, limit: int = 20, room: int = 20, restarted: bool = False
) -> tuple[int, list[int]]:
    """Walks one sample: why it ended, and its pcs."""
    numbers = np.array(list(registers), np.uint8)
    values = pack(f"<{len(registers)}Q", *registers.values())
    pc, module = np.zeros(room, U8), np.zeros(room, np.int32)
    first, size = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    reason, in_call = np.zeros(1, np.uint8), np.zeros(1, np.uint8)
    done, used = it.walk(
        *(values + stack, np.zeros(1, np.int64), np.array([STACK], U8), np.array([len(values)], U8)),
        *(np.array([len(stack)], np.uint32), np.zeros(1, U8), np.array([restarted], np.uint8), numbers),
        *(pc, module, first, size, reason, in_call, 255, limit, 0, 0),
    )
    if not done:
        assert used == 0
        return -1, []
    return int(reason[0]), pc[: size[0]].tolist()


X86 = packed(
    table_of(
        "x86-64",
        [
            (0x1000, 0x1100, Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)),
            (0x1100, 0x1200, Rule(RegisterPlus(6, 16), ((6, AtCfa(-16)), (16, AtCfa(-8))), 16)),
            (0x1200, 0x1300, Rule(RegisterPlus(7, 8), ((16, Undefined()),), 16)),
        ],
    )
)


def test_frames() -> None:
    # rsp+8; then by rbp, which is the stack's third word; then the outermost.
    start = {16: BASE + 0x1010, 7: STACK, 6: STACK + 8}
    stack = pack("<3Q", BASE + 0x1110, 0, BASE + 0x1210)
    assert walk(walker(X86, 1), start, stack) == (OUTERMOST, [BASE + 0x1010, BASE + 0x1110, BASE + 0x1210])
    assert walk(walker(X86, 1), start, stack, limit=2) == (FULL, [BASE + 0x1010, BASE + 0x1110])
    # A copy that ends before the second return address, and one before the register that is saved beside it.
    assert walk(walker(X86, 1), start, stack[:16]) == (COPY_END, [BASE + 0x1010, BASE + 0x1110])
    assert walk(walker(X86, 1), start, b"") == (COPY_END, [BASE + 0x1010])
    # No room for the frames: nothing was done.
    assert walk(walker(X86, 1), start, stack, room=2) == (-1, [])


def test_what_is_left_to_others() -> None:
    start = {16: BASE + 0x1010, 7: STACK, 6: STACK + 8}
    stack = pack("<3Q", BASE + 0x1110, 0, BASE + 0x1210)
    assert walk(walker(X86, 1, special=(0x1100, 0x1110)), start, stack)[0] == UNUSUAL
    assert walk(walker(X86, 1, special=(0x1110, 0x1120)), start, stack)[0] == OUTERMOST
    assert walk(walker(X86, 1, plain=0), start, stack)[0] == UNUSUAL
    # An unknown rbp, a null return address, one outside of all modules, and a stack that goes down.
    assert walk(walker(X86, 1), {16: BASE + 0x1010, 7: STACK}, stack)[0] == UNUSUAL
    assert walk(walker(X86, 1), start, pack("<Q", 0))[0] == UNUSUAL
    assert walk(walker(X86, 1), start, pack("<Q", 5))[0] == UNUSUAL
    assert walk(walker(X86, 1), {**start, 6: STACK - 64}, stack)[0] == UNUSUAL
    # Behind a system call at a function's end the pc is in the next function.
    assert walk(walker(X86, 1), {16: BASE + 0x1100, 7: STACK, 6: STACK + 8}, stack, restarted=True)[0] == UNUSUAL
    none = native.PackedWalker(1, 0, lambda number: None, *(np.array([value], U8) for value in (BASE, BASE + 9, BASE)))
    assert walk(none, {16: BASE, 7: STACK}, stack)[0] == UNUSUAL


def test_link_register_and_authentication() -> None:
    signed = Rule(RegisterPlus(31, 16), ((29, AtCfa(-16)), (30, AtCfa(-8))), 30, signing=Signing.SIGNED)
    leaf = Rule(RegisterPlus(31, 0), (), 30)
    last = Rule(RegisterPlus(31, 0), ((30, Undefined()),), 30)
    data = packed(table_of("aarch64", [(0x1000, 0x1100, leaf), (0x1100, 0x1200, signed), (0x1200, 0x1300, last)]))
    start = {32: BASE + 0x1010, 31: STACK, 30: BASE + 0x1110, 29: 0}
    stack = pack("<2Q", STACK + 64, BASE + 0x1210 | 0x0055 << 48)
    mask = 0x007F << 48
    assert walk(walker(data, 2, mask=mask), start, stack) == (
        OUTERMOST,
        [BASE + 0x1010, BASE + 0x1110, BASE + 0x1210],
    )
    # A frame that was called keeps no return address in the link register.
    again = {32: BASE + 0x1010, 31: STACK, 30: BASE + 0x1014}
    assert walk(walker(data, 2, mask=mask), again, stack)[0] == UNUSUAL


def test_what_is_refused() -> None:
    plain = np.ones(4, np.uint8)
    with pytest.raises(ValueError, match="no sound packed table"):
        native.PackedFile(X86[:-1], plain, NONE, NONE)
    with pytest.raises(ValueError, match="does not fit"):
        native.PackedFile(X86, plain[:1], NONE, NONE)
    with pytest.raises(ValueError, match="does not fit"):
        native.PackedFile(X86, plain, np.zeros(1, U8), NONE)
    with pytest.raises(TypeError):
        native.PackedFile(X86, 5, NONE, NONE)
    one = np.array([1], U8)
    with pytest.raises(ValueError, match="no such machine"):
        native.PackedWalker(3, 0, None, one, one, one)
    with pytest.raises(ValueError, match="overlap"):
        native.PackedWalker(1, 0, None, np.array([0, 5], U8), np.array([6, 9], U8), np.array([0, 0], U8))
    with pytest.raises(ValueError, match="too few"):
        native.PackedWalker(1, 0, None, one, NONE, one)
    file = native.PackedFile(X86, plain, NONE, NONE)
    columns = (np.array([value], U8) for value in (BASE, BASE + 0x10000, BASE))
    wrong_machine = native.PackedWalker(2, 0, lambda number: file, *columns)
    with pytest.raises(TypeError, match="this machine"):
        walk(wrong_machine, {32: BASE + 0x1010, 31: STACK}, b"")
    columns = (np.array([value], U8) for value in (BASE, BASE + 0x10000, BASE))
    failing = native.PackedWalker(1, 0, lambda number: 1 // 0, *columns)
    with pytest.raises(ZeroDivisionError):
        walk(failing, {16: BASE + 0x1010, 7: STACK}, b"")


def test_samples_outside_of_the_buffer() -> None:
    it = walker(X86, 1)
    columns: list[Any] = [
        *(b"\0" * 64, np.zeros(1, np.int64), np.zeros(1, U8), np.zeros(1, U8), np.zeros(1, np.uint32), np.zeros(1, U8)),
        *(np.zeros(1, np.uint8), np.zeros(2, np.uint8), np.zeros(9, U8), np.zeros(9, np.int32)),
        *(np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint8), np.zeros(1, np.uint8)),
    ]
    assert it.walk(*columns, 255, 5, 0, 0) == (1, 0)
    for index, bad in ((1, -1), (1, 1), (3, 65), (3, (1 << 64) - 1), (4, 65), (5, 49), (5, (1 << 64) - 8)):
        these = [each.copy() if isinstance(each, np.ndarray) else each for each in columns]
        these[index][0] = bad
        with pytest.raises(IndexError, match="outside"):
            it.walk(*these, 255, 5, 0, 0)
    short = list(columns)
    short[9] = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="one length"):
        it.walk(*short, 255, 5, 0, 0)
    with pytest.raises(ValueError, match="one length"):
        it.walk(*columns, 255, 5, 0, 10)
    read_only = list(columns)
    read_only[8] = bytes(72)
    with pytest.raises(BufferError):
        it.walk(*read_only, 255, 5, 0, 0)


def test_a_table_that_may_change_is_refused() -> None:
    plain = np.ones(9, np.uint8)
    with pytest.raises(ValueError, match="does not fit"):
        native.PackedFile(bytearray(X86), plain, NONE, NONE)


def _slot(address: int) -> int:
    """The place of an address in the walker's cache."""
    return (address ^ address >> 11) & 2047


def test_load_may_walk_with_the_same_walker() -> None:
    rules = int.from_bytes(X86[24 + 8 * 5 + 4 :][:4], "little")
    start, stack = {16: BASE + 0x1010, 7: STACK, 6: STACK + 8}, pack("<3Q", BASE + 0x1110, 0, BASE + 0x1210)
    # A pc without a rule, that has the same place in the cache.
    other = next(at for at in range(BASE + 0x1300, BASE + 0x10000) if _slot(at) == _slot(BASE + 0x1010))
    given, nested, its = [], [], []

    def load(number: int) -> Any:
        if not nested:
            nested.append(0)
            nested.append(walk(its[0], {**start, 16: other}, stack)[0])
        given.append(native.PackedFile(X86, np.ones(rules, np.uint8), NONE, NONE))
        return given[-1]

    its.append(native.PackedWalker(1, 0, load, *(np.array([value], U8) for value in (BASE, BASE + 0x10000, BASE))))
    whole = (OUTERMOST, [BASE + 0x1010, BASE + 0x1110, BASE + 0x1210])
    assert walk(its[0], start, stack) == whole
    assert nested[1] == UNUSUAL
    assert walk(its[0], {**start, 16: other}, stack)[0] == UNUSUAL
    assert walk(its[0], start, stack) == whole
    # Who asked twice keeps one answer, and lets it go in the end.
    its.clear()
    assert [sys.getrefcount(given.pop()) for _ in range(len(given))] == [1, 1]


def test_a_walker_in_a_circle_is_collected() -> None:
    class Owner:
        it: Any

        def load(self, number: int) -> None:
            return None

    owner = Owner()
    owner.it = native.PackedWalker(1, 0, owner.load, *(np.array([value], U8) for value in (BASE, BASE + 9, BASE)))
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
