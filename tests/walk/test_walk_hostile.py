"""Whatever registers, memory and tables say, a walk ends, with a reason and in bounded time, and never raises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from walking import CODE, STACK, Pieces, target, without_reads, words

from clew.arch import ALL, Machine
from clew.image import Image
from clew.read.arm_exidx.image import NAME as ARM_EXIDX
from clew.table import (
    Architectural,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    InRegister,
    IsExpression,
    RegisterPlus,
    Rule,
    SameValue,
    Signing,
    Undefined,
    table_of,
)
from clew.table.rule import parse_expression
from clew.table.table import RangeColumns, Ranges
from clew.target import Module, Thread
from clew.testing import ElfBuilder
from clew.walk import End, FastWalker, Trust, Walker
from clew.walk.step import Work

SIZE = 0x400

numbers = st.one_of(
    st.integers(-64, 64).map(lambda n: STACK + 8 * n),
    st.integers(0, SIZE).map(lambda n: STACK + n),
    st.integers(0, 0x100).map(lambda n: CODE + n),
    st.integers(-(1 << 64), 1 << 65),
    st.sampled_from([0, 1, -1, 1 << 31, 1 << 63, (1 << 64) - 8]),
)
registers = st.one_of(st.integers(0, 40), st.integers(64, 66), st.sampled_from([96, 4096, 1 << 32, (1 << 64) - 1]))
offsets = st.one_of(st.integers(-64, 64).map(lambda n: 8 * n), st.integers(-(1 << 63), (1 << 63) - 1))


def rules(machine: Machine) -> st.SearchStrategy[Rule]:
    # Operators that a compiler uses, and any bytes.
    code = st.one_of(
        st.binary(max_size=12),
        st.lists(
            st.sampled_from([b"\x77\x08", b"\x92\x04\x00", b"\x06", b"\x22", b"\x12", b"\x2f\xfd\xff", b"\x31"])
        ).map(b"".join),
    )
    expressions = code.map(lambda data: parse_expression(data, machine))
    usual = [machine.stack_pointer, machine.frame_pointer or 0, machine.return_address]
    ours = st.one_of(st.sampled_from(usual), registers)
    terms = st.one_of(
        st.builds(AtCfa, offsets),
        st.builds(CfaPlus, offsets),
        st.builds(InRegister, ours),
        st.builds(AtExpression, expressions),
        st.builds(IsExpression, expressions),
        st.sampled_from([Undefined(), SameValue(), Architectural()]),
    )
    return st.builds(
        Rule,
        st.one_of(st.none(), st.builds(RegisterPlus, ours, offsets), st.builds(CfaExpression, expressions)),
        st.dictionaries(ours, terms, max_size=6).map(lambda named: tuple(sorted(named.items()))),
        st.one_of(st.just(machine.return_address), ours),
        st.booleans(),
        st.sampled_from(Signing),
        st.booleans(),
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), machine=st.sampled_from(ALL), scan=st.booleans())
def test_any_walk_ends_with_a_reason(data: st.DataObject, machine: Machine, scan: bool) -> None:
    some = data.draw(st.lists(rules(machine), max_size=4))
    rows = [(CODE + 0x40 * n, CODE + 0x40 * (n + 1), rule) for n, rule in enumerate(some)]
    content = words(machine, *data.draw(st.lists(numbers, min_size=8, max_size=40)))
    pieces = {STACK: (content * (SIZE // len(content) + 1))[:SIZE]}
    if data.draw(st.booleans()):
        pieces[CODE] = data.draw(st.binary(max_size=64)) * 4
    limits = data.draw(st.sampled_from([None, (STACK, STACK + SIZE), (0, 1), (STACK + 5, STACK)]))
    it = target(machine, pieces, rows, limits=limits, bias=data.draw(st.sampled_from([0, 64, -(1 << 70), 1 << 64])))
    it.code_mask = data.draw(st.sampled_from([0, 0x007F_0000_0000_0000, -1]))
    given_registers = data.draw(st.dictionaries(registers, numbers, max_size=8))
    for number in (machine.stack_pointer, machine.frame_pointer, machine.link_register):
        if number is not None and data.draw(st.booleans()):
            given_registers[number] = data.draw(numbers)
    thread = Thread(1, given_registers, data.draw(numbers), interrupted_call=data.draw(st.booleans()))
    walker = Walker(it, limit=200, scan=scan)
    stack = walker.walk(thread)
    assert isinstance(stack.end, End)
    assert stack.detail
    assert 1 <= len(stack.frames) <= 200
    top = 1 << machine.bits
    assert all(0 <= frame.pc.address < top for frame in stack.frames)
    assert all(value >= 0 for frame in stack.frames for value in frame.registers.values())
    # Of a frame that was scanned for, the stack pointer may not be known; each was found in a place of its own.
    walked = [frame for frame in stack.frames if frame.trust is not Trust.SCAN]
    places = {(frame.pc, frame.registers.get(machine.stack_pointer), frame.cfa) for frame in walked}
    assert len(places) > len(walked) // 2
    assert walker.walk(thread) == stack
    fast = FastWalker(it, limit=200, scan=scan)
    assert without_reads(fast.walk(thread)) == without_reads(stack)
    assert without_reads(fast.walk(thread)) == without_reads(stack)


@settings(max_examples=60, deadline=None)
@given(code=st.binary(min_size=4, max_size=300), machine=st.sampled_from(ALL), offset=st.integers(0, 64))
def test_any_code_around_the_pc(code: bytes, machine: Machine, offset: int) -> None:
    it = target(machine, {CODE: code * 4, STACK: words(machine, *[CODE + 8 * n for n in range(64)])}, [])
    values = {number: STACK + 8 * (number % 16) for number in range(40)}
    for scan in (False, True):
        assert Walker(it, scan=scan).walk(Thread(1, values, CODE + offset)).detail


def test_a_stack_that_goes_on_for_ever_costs_as_many_reads_as_frames() -> None:
    """A frame pointer chain through all of memory, every word of which is a call's return address."""

    class Endless(Pieces):
        def read(self, address: int, size: int) -> bytes | None:
            self.count += 1
            if CODE <= address < CODE + 0x10000:
                return b"\xe8" * size
            return words("x86-64", address + 16 if address % 16 == 0 else CODE + 5) if size == 8 else None

    memory = Endless({})
    it = target("x86-64", memory, [])
    stack = Walker(it, limit=500).walk(Thread(1, {7: STACK, 6: STACK}, CODE + 5))
    assert (len(stack.frames), stack.end) == (500, End.LIMIT)
    assert memory.count < 5000
    memory.count = 0
    assert Walker(it, limit=500, scan=True).walk(Thread(1, {7: STACK, 6: 3}, CODE + 5)).end is End.LIMIT


def test_tables_that_name_every_register_do_not_take_for_ever() -> None:
    named = tuple((number, AtCfa(0)) for number in range(7)) + tuple((number, AtCfa(0)) for number in range(17, 20_000))
    rule = Rule(RegisterPlus(7, 8), (*named, (20_000, AtCfa(-8))), 20_000)
    memory = {STACK: words("x86-64", *[CODE + 4] * 4000)}
    stack = Walker(target("x86-64", memory, [(CODE, CODE + 8, rule)])).walk(Thread(1, {7: STACK}, CODE + 4))
    assert (stack.end, len(stack.frames) < 100) == (End.LIMIT, True)


def test_scanning_takes_no_longer_than_walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A return address every thousand words: each frame is cheap to find, and all of them are not."""

    class Thin(Pieces):
        def read(self, address: int, size: int) -> bytes | None:
            if CODE <= address < CODE + 0x10000:
                return b"\xe8" * size
            self.count += 1
            return words("x86-64", 0 if address % 8000 else CODE + 5) if size == 8 else None

    monkeypatch.setattr("clew.walk.walker.Work", lambda: Work(5000))
    memory = Thin({})
    stack = Walker(target("x86-64", memory, []), scan=True).walk(Thread(1, {7: STACK, 6: 3}, CODE + 5))
    assert (stack.end, 4 <= len(stack.frames) <= 6, memory.count < 20_000) == (End.LIMIT, True, True)


def test_looking_for_prologues_of_arm_takes_no_longer_than_walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code in which a frame may begin everywhere, and every frame was interrupted."""
    saved = Rule(RegisterPlus(13, 0x1000), ((14, AtCfa(-4)),), 14)
    rows = table_of("arm", [(CODE, CODE + 0x100, saved)])
    bounds = (np.array([CODE], np.uint64), np.array([CODE + 0x100], np.uint64))
    rest = (np.zeros(1, code) for code in ("u4", "u8", "i4", "u1"))
    rows = replace(rows, ranges=Ranges(RangeColumns(*bounds, *rest), (ARM_EXIDX,), [0]))
    monkeypatch.setattr("clew.walk.walker.Work", lambda: Work(100))
    memory = Pieces({CODE: bytes.fromhex("00bf") * 0x80})
    stack = Walker(target("arm", memory, rows)).walk(Thread(1, {13: STACK}, CODE + 0x82))
    assert (stack.end, memory.count < 300) == (End.LIMIT, True)


def test_files_that_cannot_be_read_are_no_code() -> None:
    builder = ElfBuilder(machine=62, entry=0x100)
    builder.section(".text", bytes(0x100), address=0x100, flags=6)
    data = bytearray(builder.build())
    data[0x28:0x30] = b"\xff" * 8  # e_shoff
    image = Image.from_bytes(bytes(data))
    module = Module("/bin/it", 0x40000, 0x50000, 0x40000, open_image=lambda: image)
    it = target("x86-64", {STACK: bytes(64)}, [], modules=[module])
    assert Walker(it, scan=True).walk(Thread(1, {7: STACK, 6: STACK}, 0x40110)).detail


@pytest.mark.parametrize("limit", [-5, 0, 1])
def test_there_is_always_the_first_frame(limit: int) -> None:
    stack = Walker(target("x86-64", {}, []), limit=limit).walk(Thread(1, {}, 0))
    assert len(stack.frames) == 1
