"""Places where the fast walker and the general one could part: each was seen to, before the rows were told apart."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from walking import CODE, STACK, Pieces, pcs, target, trusts, walk, without_reads, words

from clew.arch import machine_named
from clew.image import Image
from clew.table import AtCfa, RegisterPlus, Rule, Table, Undefined, table_of
from clew.table.table import RangeColumns, Ranges
from clew.target import Module, Modules, Target, Thread
from clew.testing import ElfBuilder
from clew.walk import End, FastWalker, Interrupted, Stack, Walker
from clew.walk.go_files import Functions
from clew.walk.steps import Steps
from clew.walk.walker import STRATEGIES, by_table

X86 = machine_named("x86-64")
PLAIN = Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)
LAST = Rule(RegisterPlus(7, 8), ((16, Undefined()),), 16)
SIGRETURN = bytes.fromhex("48c7c00f0000000f05")
"""x86-64's trampoline: the kernel's registers are at sp + 40, rsp the 16th and rip the 17th word of them."""
START_CONTEXT = bytes.fromhex("4889dc488b3c244885ff74")
FILE = 0x1000


def both(it: Target, pc: int, registers: dict[int, int]) -> Stack:
    """The stack, by both walkers."""
    thread = Thread(1, registers, pc)
    stack = Walker(it).walk(thread)
    assert without_reads(FastWalker(it).walk(thread)) == without_reads(stack)
    return stack


def file(code: bytes, table: Table, *, in_file: bool = True, base: int = FILE) -> Module:
    """A module at CODE, whose file has its code at another address."""
    elf = ElfBuilder(machine=62)
    elf.section(".text", code, address=base, flags=6)
    elf.segment(1, [".text"], flags=5)
    data = bytearray(elf.build())
    image = Image.from_bytes(bytes(data))
    if not in_file:
        # As in a file of debug information alone: the segment takes room in memory, and none in the file.
        segment = image.header.segment_offset
        data[segment + 32 : segment + 40] = bytes(8)
        image = Image.from_bytes(bytes(data))
        assert image.bytes_at(base, 1) is None
    module = Module("/lib/it.so", CODE, CODE + len(code), CODE - base, open_image=lambda: image)
    module.__dict__["_table"] = table
    return module


def signal_frame(sp: int, pc: int) -> bytes:
    """What the trampoline finds at its stack pointer; where a function's return address would be, there is one, too."""
    return words("x86-64", CODE + 20) + bytes(32 + 15 * 8) + words("x86-64", sp, pc, 0)


def test_a_trampoline_in_memory_of_whose_file_the_code_cannot_be_read() -> None:
    """The byte before it belongs to a function; many rows of the file have been asked for before."""
    count = 60
    code = b"\x90" * (16 * count) + SIGRETURN
    rows = table_of(X86, [(FILE + 16 * n, FILE + 16 * n + 16, PLAIN if n else LAST) for n in range(count)])
    assert len(rows) > count
    module = file(code, rows, in_file=False)
    trampoline = CODE + 16 * count
    calls = [CODE + 16 * n + 8 for n in range(2, count - 1)]
    stack = words("x86-64", *calls, trampoline) + signal_frame(STACK + 0x8000, CODE + 4)
    it = Target("core", X86, [], Pieces({CODE: code, STACK: stack}), Modules([module]))
    found = both(it, CODE + 20, {7: STACK})
    assert (pcs(found)[-2:], trusts(found)[-1], found.end) == ([trampoline, CODE + 4], "signal", End.ENTRY)


@pytest.mark.parametrize("asked", [0, 48])
def test_a_trampoline_right_behind_the_code_of_a_file(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    monkeypatch.setattr("clew.walk.known_code._MANY_ROWS", asked)
    rows = table_of(X86, [(FILE, FILE + 16, LAST), (FILE + 16, FILE + 64, PLAIN)])
    module = file(b"\x90" * 64, rows)
    trampoline = CODE + 64
    stack = words("x86-64", trampoline) + signal_frame(STACK + 0x8000, CODE + 4)
    memory = Pieces({CODE: b"\x90" * 64 + SIGRETURN, STACK: stack})
    found = both(Target("core", X86, [], memory, Modules([module])), CODE + 32, {7: STACK})
    assert (pcs(found), found.end) == ([CODE + 32, trampoline, CODE + 4], End.ENTRY)


def with_functions(rows: Table, *bounds: tuple[int, int], source: str = ".eh_frame") -> Table:
    """The rows as those of these functions."""
    starts, ends = (np.array(column, np.uint64) for column in zip(*bounds, strict=True))
    rest = (np.zeros(len(bounds), code) for code in ("u4", "u8", "i4", "u1"))
    return replace(rows, ranges=Ranges(RangeColumns(starts, ends, *rest), (source,), [0]))


@pytest.mark.parametrize("asked", [0, 48])
@pytest.mark.parametrize("base", [FILE, 0xFFFF_FFFF_8000_0000])
def test_a_function_that_is_large_still_begins_where_it_does(
    monkeypatch: pytest.MonkeyPatch, asked: int, base: int
) -> None:
    """Code of makecontext's at the start of a function: its last row is far from it. A function beside it is plain."""
    monkeypatch.setattr("clew.walk.known_code._MANY_ROWS", asked)
    size = (1 << 22) + 0x1000
    rows = table_of(X86, [(base, base + size - 64, LAST), (base + size - 64, base + size + 64, PLAIN)])
    module = file(
        START_CONTEXT.ljust(size + 64, b"\x90"),
        with_functions(rows, (base, base + size), (base + size, base + size + 64)),
        base=base,
    )
    it = Target("core", X86, [], Pieces({STACK: words("x86-64", CODE + 40)}), Modules([module]))
    found = both(it, CODE + size - 32, {7: STACK})
    assert (len(found.frames), found.end) == (1, End.ENTRY)


@pytest.mark.parametrize("asked", [0, 48])
def test_a_trampoline_between_functions_of_a_file(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    monkeypatch.setattr("clew.walk.known_code._MANY_ROWS", asked)
    rows = table_of(X86, [(FILE, FILE + 16, LAST), (FILE + 16, FILE + 64, PLAIN), (FILE + 80, FILE + 256, PLAIN)])
    code = (b"\x90" * 64 + SIGRETURN).ljust(256, b"\x90")
    trampoline = CODE + 64
    stack = words("x86-64", CODE + 36, trampoline) + signal_frame(STACK + 0x8000, CODE + 4)
    it = Target("core", X86, [], Pieces({STACK: stack}), Modules([file(code, rows)]))
    found = both(it, CODE + 200, {7: STACK})
    assert (pcs(found), found.end) == ([CODE + 200, CODE + 36, trampoline, CODE + 4], End.ENTRY)


def test_what_begins_behind_a_call_is_not_what_was_interrupted_there() -> None:
    """A thread returns to where makecontext's code ends; another stands there, in the next function."""
    bounds = [(CODE, CODE + 16), (CODE + 16, CODE + 32), (CODE + 64, CODE + 80)]
    rows = with_functions(table_of(X86, [(start, end, PLAIN) for start, end in bounds]), *bounds)
    memory = {CODE: START_CONTEXT.ljust(32, b"\x90"), STACK: words("x86-64", CODE + 16, CODE + 72)}
    it = target("x86-64", memory, rows)
    for walker in (Walker(it), FastWalker(it)):
        first = walker.walk(Thread(1, {7: STACK}, CODE + 70))
        assert (pcs(first), first.end) == ([CODE + 70, CODE + 16], End.ENTRY)
        second = walker.walk(Thread(2, {7: STACK + 8}, CODE + 16))
        assert pcs(second)[:2] == [CODE + 16, CODE + 72]


def test_a_row_of_two_functions_of_go_is_not_the_same_in_both() -> None:
    """Merging sections leaves out boundaries between equal rows; but runtime.sigtramp does not keep rbp, and others do."""
    elf = ElfBuilder(machine=62)
    elf.section(".text", b"\x90" * 0x80, address=FILE, flags=6)
    elf.section(".gopclntab", bytes(16), address=0x3000, flags=2)
    elf.symbol("runtime.sigtramp", section=".text", value=FILE, size=0x40)
    elf.segment(1, [".text"], flags=5)
    image = Image.from_bytes(elf.build())
    module = Module("/bin/go", CODE, CODE + 0x1000, CODE - FILE, open_image=lambda: image)
    rows = table_of(X86, [(FILE, FILE + 0x80, PLAIN)])
    bounds = ((FILE, FILE + 0x40), (FILE + 0x40, FILE + 0x80))
    module.__dict__["_table"] = with_functions(rows, *bounds, source=".debug_frame")
    memory = Pieces({STACK: words("x86-64", CODE + 0x70, CODE + 0x20, CODE + 0x30)})
    found = both(Target("core", X86, [], memory, Modules([module])), CODE + 0x50, {7: STACK, 6: 0x666})
    assert [frame.registers.get(6) for frame in found.frames[:4]] == [0x666, 0x666, 0x666, None]


def test_a_file_may_have_any_number_of_functions_of_one_name() -> None:
    functions = Functions((0x1000 + 16 * n, 0x1008 + 16 * n, "runtime.goexit") for n in range(100_000))
    last = 0x1000 + 16 * 99_999
    assert functions.at(last + 7) == (last, "runtime.goexit")
    assert [functions.at(address) for address in (0xFFF, last + 8, last - 1)] == [None] * 3
    assert [functions.meet(*span) for span in ((last + 8, last + 9), (last + 7, last + 9), (0xFF0, 0x1000))] == [
        False,
        True,
        True,
    ]
    # One around another: from where the inner begins, that one counts.
    assert Functions([(16, 64, "a"), (32, 40, "b")]).at(33) == (32, "b")


def test_a_word_of_nothing_but_authentication_bits_is_an_address_where_nothing_is_signed() -> None:
    rule = Rule(RegisterPlus(31, 16), ((30, AtCfa(-8)),), 30)
    stack = walk(
        target("aarch64", {STACK: words("aarch64", 0, 1 << 48)}, [(CODE, CODE + 8, rule)]), CODE, {"sp": STACK}
    )
    assert (pcs(stack), stack.end) == ([CODE, 1 << 48], End.NO_MODULE)


@pytest.mark.parametrize("register", [17, 3])
def test_a_frame_that_was_there_is_found_again_whatever_is_known_of_it(register: int) -> None:
    """A signal frame's rule leads down the stack, a plain one up again to where the walk began. Register 17, xmm0, is one that
    the compiled core does not know."""
    down = Rule(RegisterPlus(7, 0), ((7, AtCfa(8)), (16, AtCfa(0))), 16, signal_frame=True)
    rows = [(CODE, CODE + 16, down), (CODE + 16, CODE + 32, PLAIN)]
    memory = {STACK: words("x86-64", CODE + 4) + bytes(0xF8) + words("x86-64", CODE + 20, STACK)}
    it = target("x86-64", memory, rows)
    stack = both(it, CODE + 4, {7: STACK + 0x100, register: 1})
    assert pcs(stack)[:2] == [CODE + 4, CODE + 20]
    # The caller of the second is at CODE + 4 with another stack pointer than the first.
    lead = {STACK: words("x86-64", CODE + 4) + words("x86-64", CODE + 20, STACK)}
    stack = both(target("x86-64", lead, rows), CODE + 4, {7: STACK + 8, register: 1})
    assert (pcs(stack), stack.end) == ([CODE + 4, CODE + 20], End.NO_PROGRESS)


def test_an_unknown_stack_pointer_is_not_that_of_the_walk_before() -> None:
    by_rbp = Rule(RegisterPlus(6, 16), ((6, AtCfa(-16)), (16, AtCfa(-8))), 16)
    down = Rule(RegisterPlus(7, 0), ((7, AtCfa(8)), (16, AtCfa(0))), 16, signal_frame=True)
    rows = [(CODE, CODE + 16, by_rbp), (CODE + 16, CODE + 32, down)]
    top = STACK + 0x100
    memory = {STACK: words("x86-64", 0, CODE + 20, CODE + 4, top)}
    it = target("x86-64", memory, rows)
    fast, general = FastWalker(it, limit=6), Walker(it, limit=6)
    threads = [Thread(1, {7: top}, CODE + 40), Thread(2, {6: STACK}, CODE + 4)]
    for thread in threads * 2:
        assert without_reads(fast.walk(thread)) == without_reads(general.walk(thread))


def test_modules_that_end_with_the_address_space() -> None:
    top = (1 << 64) - 0x1000
    outer, inner = Module("/outer", CODE, (1 << 64) - 1, 0), Module("/inner", top, 1 << 64, 0)
    outer.__dict__["_table"] = table_of(X86, [(CODE, CODE + 16, PLAIN), (top, top + 16, PLAIN)])
    inner.__dict__["_table"] = table_of(X86, [(top, top + 0x100, LAST)])
    it = Target("core", X86, [], Pieces({STACK: words("x86-64", top + 8, CODE + 20)}), Modules([outer, inner]))
    found = both(it, CODE + 4, {7: STACK})
    assert (pcs(found), found.end) == ([CODE + 4, top + 8], End.ENTRY)


def test_steps_that_are_shared_keep_no_target() -> None:
    steps = Steps(X86)

    def walked() -> list[weakref.ref[object]]:
        it = target(
            "x86-64", {STACK: words("x86-64", CODE + 24)}, [(CODE, CODE + 16, PLAIN), (CODE + 16, CODE + 32, LAST)]
        )
        assert FastWalker(it, steps=steps).walk(Thread(1, {7: STACK}, CODE)).end is End.ENTRY
        return [weakref.ref(it.modules), weakref.ref(it.modules[0]), weakref.ref(it.modules[0].table)]

    kept = walked()
    gc.collect()
    assert [each() for each in kept] == [None] * 3


def test_walkers_of_the_same_target_do_not_depend_on_each_other() -> None:
    steps = Steps(X86)
    it = target("x86-64", {STACK: words("x86-64", CODE + 24)}, [(CODE, CODE + 16, PLAIN), (CODE + 16, CODE + 32, LAST)])
    first, second = FastWalker(it, steps=steps), FastWalker(it, steps=steps)
    del second
    gc.collect()
    stack = first.walk(Thread(1, {7: STACK}, CODE))
    assert (pcs(stack), stack.frames[0].pc) == ([CODE, CODE + 24], Interrupted(CODE))


def test_what_comes_before_the_table_is_known() -> None:
    """Whoever adds a strategy there says in clew.walk.steps where it applies, and here that it was seen to."""
    before = {strategy.__name__ for strategy in STRATEGIES[: STRATEGIES.index(by_table)]}
    by_code, by_name, by_machine = {"trampoline", "context_bottom"}, {"go_bottom", "go_stack"}, {"arm_interrupted"}
    assert before == by_code | by_name | by_machine
