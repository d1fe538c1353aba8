"""Walks by unwind tables: what a step recovers, and every reason to stop."""

from __future__ import annotations

import pytest
from walking import CODE, STACK, Copy, Pieces, pcs, target, trusts, walk, words

from clew.image import Image
from clew.table import (
    Architectural,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    Expression,
    InRegister,
    InvalidExpression,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Undefined,
)
from clew.table.evaluate import UnknownRegisterError
from clew.target import Module
from clew.testing import Cfa, CfiBuilder, ElfBuilder, Op
from clew.walk import End, Interrupted, Read, ReturnAddress, Trust

RBX, RSI, RBP, RSP, R12, RIP = 3, 4, 6, 7, 12, 16
RA = (RIP, AtCfa(-8))


def rule(cfa: RegisterPlus | CfaExpression | None, *registers: tuple[int, RegisterRule], signal: bool = False) -> Rule:
    return Rule(cfa, tuple(sorted(registers, key=lambda each: each[0])), RIP, signal)


def expression(data: bytes) -> Expression:
    return Expression(data, address_size=8, byte_order="little")


LEAF = rule(RegisterPlus(RSP, 8), RA)
# push rbp; mov rbp, rsp; push rbx; sub rsp, …
FRAME = rule(RegisterPlus(RBP, 16), (RBX, AtCfa(-24)), (RBP, AtCfa(-16)), RA)
# sub rsp, 24
PLAIN = rule(RegisterPlus(RSP, 32), RA)
LAST = rule(RegisterPlus(RSP, 8), (RIP, Undefined()))
ROWS = [
    (CODE, CODE + 0x10, LEAF),
    (CODE + 0x10, CODE + 0x20, FRAME),
    (CODE + 0x20, CODE + 0x30, PLAIN),
    (CODE + 0x40, CODE + 0x50, LAST),
]

# leaf called from frame, frame from the last instruction of plain, plain from last.
MEMORY = words(
    "x86-64",
    CODE + 0x18,  # rsp: return into frame
    0,
    0xB0B,  # rbx, saved by frame
    0xBEEF,  # rbp, saved by frame: of no use to plain
    CODE + 0x30,  # return behind the end of plain, whose last instruction is a call
    *(1, 2, 3),
    CODE + 0x48,
)
START = {"rsp": STACK, "rbp": STACK + 24, "rbx": 5, "rsi": 6, "r12": 0x12, "rax": 7}


def test_a_stack_of_four() -> None:
    stack = walk(target("x86-64", {STACK: MEMORY}, ROWS), CODE + 4, START)
    assert pcs(stack) == [CODE + 4, CODE + 0x18, CODE + 0x30, CODE + 0x48]
    assert trusts(stack) == ["context", "cfi", "cfi", "cfi"]
    assert stack.end is End.ENTRY
    assert [type(frame.pc) for frame in stack.frames] == [Interrupted, ReturnAddress, ReturnAddress, ReturnAddress]
    assert [frame.cfa for frame in stack.frames] == [STACK + 8, STACK + 40, STACK + 72, STACK + 80]
    assert [frame.rule for frame in stack.frames] == [LEAF, FRAME, PLAIN, LAST]
    assert all(frame.module is not None and frame.module.start == CODE for frame in stack.frames)


def test_registers_are_recovered_or_unknown_and_never_stale() -> None:
    stack = walk(target("x86-64", {STACK: MEMORY}, ROWS), CODE + 4, START)
    first, second, third, _ = (frame.registers for frame in stack.frames)
    assert first[RSI] == 6
    # A call may overwrite rax and rsi; rbx, rbp and r12 are still what they were; the CFA is the caller's rsp.
    assert second == {RBX: 5, RBP: STACK + 24, RSP: STACK + 8, R12: 0x12, RIP: CODE + 0x18}
    assert third == {RBX: 0xB0B, RBP: 0xBEEF, RSP: STACK + 40, R12: 0x12, RIP: CODE + 0x30}


def test_what_was_read_is_told() -> None:
    stack = walk(target("x86-64", {STACK: MEMORY}, ROWS), CODE + 4, START)
    assert stack.frames[1].reads == (
        Read("rbx", STACK + 16, 0xB0B),
        Read("rbp", STACK + 24, 0xBEEF),
        Read("rip", STACK + 32, CODE + 0x30),
    )


def test_the_table_has_the_addresses_of_the_file() -> None:
    rows = [(start - CODE, end - CODE, what) for start, end, what in ROWS]
    stack = walk(target("x86-64", {STACK: MEMORY}, rows, bias=CODE), CODE + 4, START)
    assert (len(stack.frames), stack.end) == (4, End.ENTRY)


def test_terms_see_the_old_frame_all_at_once() -> None:
    swapped = rule(RegisterPlus(RSP, 8), (RBX, InRegister(R12)), (R12, InRegister(RBX)), (RBP, CfaPlus(-3)), RA)
    it = target("x86-64", {STACK: words("x86-64", CODE + 0x48)}, [*ROWS, (CODE + 0x60, CODE + 0x70, swapped)])
    after = walk(it, CODE + 0x64, START).frames[1].registers
    assert (after[RBX], after[R12], after[RBP]) == (0x12, 5, STACK + 5)


def test_who_asks_for_an_unknown_register_is_told() -> None:
    frames = walk(target("x86-64", {STACK: MEMORY}, ROWS), CODE + 4, START).frames
    assert [frames[0].register(number) for number in (RSI, RBX)] == [6, 5]
    assert [frames[2].register(number) for number in (RBX, R12)] == [0xB0B, 0x12]
    # rsi is the caller's no more once a function may have used it.
    with pytest.raises(UnknownRegisterError) as error:
        frames[1].register(RSI)
    assert error.value.register == RSI


def test_the_register_that_cannot_be_read_is_unknown_and_the_walk_goes_on() -> None:
    far = rule(
        RegisterPlus(RSP, 8),
        (RBX, AtCfa(1 << 40)),
        (RBP, InRegister(11)),
        (R12, IsExpression(expression(Op.breg(11, 0)))),
        (13, IsExpression(InvalidExpression(b"\x01", "because"))),
        (14, Architectural()),
        (15, AtExpression(expression(Op.breg(RBX, 0)))),
        RA,
    )
    it = target("x86-64", {STACK: words("x86-64", CODE + 0x48)}, [*ROWS, (CODE + 0x60, CODE + 0x70, far)])
    stack = walk(it, CODE + 0x64, {**START, "r13": 1, "r14": 2, "r15": 3})
    assert stack.end is End.ENTRY
    assert stack.frames[1].registers == {RSP: STACK + 8, RIP: CODE + 0x48}


def test_expressions_see_the_pc_as_it_is() -> None:
    # A lazy PLT: rsp + 8 + ((rip & 15) >= 11) * 8. The word is pushed by the instruction at 6.
    plt = Op.breg(RSP, 8) + Op.breg(RIP, 0) + Op.lit(15) + Op.and_ + Op.lit(11) + Op.ge + Op.lit(3) + Op.shl + Op.plus
    rows = [*ROWS, (CODE + 0x60, CODE + 0x70, rule(CfaExpression(expression(plt)), RA))]
    memory = words("x86-64", CODE + 0x48, CODE + 0x49)
    assert pcs(walk(target("x86-64", {STACK: memory}, rows), CODE + 0x6A, START))[1] == CODE + 0x48
    assert pcs(walk(target("x86-64", {STACK: memory}, rows), CODE + 0x6B, START))[1] == CODE + 0x49


def test_after_a_signal_frame_the_pc_is_looked_up_as_it_is() -> None:
    signal = rule(RegisterPlus(RSP, 64), (RSI, AtCfa(-32)), (RSP, AtCfa(-24)), (RIP, AtCfa(-16)), signal=True)
    rows = [*ROWS, (CODE + 0x60, CODE + 0x70, signal)]
    # Interrupted at the first instruction of leaf, whose stack pointer is lower than the handler's: another stack.
    handler = words("x86-64", 0, 0, 0, 0, 0x51, STACK, CODE)
    stack = walk(target("x86-64", {STACK + 0x1000: handler, STACK: MEMORY}, rows), CODE + 0x64, {"rsp": STACK + 0x1000})
    assert stack.frames[1].pc == Interrupted(CODE)
    assert stack.frames[1].trust is Trust.CFI
    assert stack.frames[1].registers[RSI] == 0x51
    assert pcs(stack)[1:] == [CODE, CODE + 0x18]
    assert (stack.end, stack.frames[1].rule) == (End.UNKNOWN_REGISTER, LEAF)


@pytest.mark.parametrize(
    ("rule_", "end", "detail"),
    [
        (rule(RegisterPlus(RSP, 8), (RIP, Undefined())), End.ENTRY, "rip is undefined"),
        (rule(RegisterPlus(RSP, 16), RA), End.NULL_RETURN_ADDRESS, "rip is 0"),
        (rule(RegisterPlus(RSP, 800), RA), End.UNREADABLE_MEMORY, f"rip is at {STACK + 792:#x}"),
        (rule(RegisterPlus(11, 8), RA), End.UNKNOWN_REGISTER, "the CFA needs r11"),
        (rule(RegisterPlus(RSP, 8), (RIP, InRegister(11))), End.UNKNOWN_REGISTER, "rip is in r11"),
        (rule(CfaExpression(expression(Op.breg(11, 0))), RA), End.UNKNOWN_REGISTER, "cfa needs r11"),
        (rule(CfaExpression(expression(Op.lit(1) + Op.deref)), RA), End.UNREADABLE_MEMORY, "cfa needs is at 0x1,"),
        (rule(CfaExpression(expression(Op.plus)), RA), End.BAD_RULE, "too little on the stack"),
        (rule(CfaExpression(InvalidExpression(b"\x01", "because")), RA), End.BAD_RULE, "because"),
        (rule(RegisterPlus(RSP, 8), (RIP, IsExpression(expression(Op.skip(-3))))), End.BAD_RULE, "steps"),
        (rule(None, RA), End.BAD_RULE, "no CFA"),
        (rule(RegisterPlus(RSP, 8)), End.BAD_RULE, "where the return address (rip) is"),
        (rule(RegisterPlus(RSP, 8), (RIP, Architectural())), End.BAD_RULE, "rip is for the machine"),
        (rule(RegisterPlus(RSP, 0), (RIP, SameValue())), End.NO_PROGRESS, "there already"),
        (rule(RegisterPlus(RSP, -8), (RIP, CfaPlus(0))), End.NO_PROGRESS, "wrong way"),
        (rule(RegisterPlus(RSP, 8), (RIP, SameValue())), End.NO_PROGRESS, "this frame's own address"),
    ],
)
def test_the_reason_is_told(rule_: Rule, end: End, detail: str) -> None:
    it = target("x86-64", {STACK: words("x86-64", CODE + 0x48, 0)}, [(CODE, CODE + 0x10, rule_)])
    stack = walk(it, CODE + 4, {"rsp": STACK, "rip": CODE + 4})
    assert (stack.end, detail in stack.detail) == (end, True), stack
    assert stack.frames[-1].rule == rule_


def test_no_module_and_no_rule() -> None:
    it = target("x86-64", {STACK: words("x86-64", 0xDEAD000)}, ROWS)
    stack = walk(it, CODE + 4, {"rsp": STACK, "rbp": 8})
    assert (pcs(stack), stack.end) == ([CODE + 4, 0xDEAD000], End.NO_MODULE)
    assert stack.frames[1].module is None
    assert "0xdeacfff" in stack.detail
    assert walk(it, CODE + 0x34, {"rsp": STACK, "rbp": 8}).end is End.NO_RULE
    none = walk(target("x86-64", {STACK: MEMORY}, None), CODE, {"rsp": STACK, "rbp": 8})
    assert (none.end, "/lib/it.so has no unwind table: " in none.detail) == (End.NO_RULE, True)


def test_a_copied_stack_that_is_too_short_says_so() -> None:
    memory = Copy({STACK: MEMORY[:32]}, STACK + 32)
    stack = walk(target("x86-64", memory, ROWS), CODE + 4, START)
    assert (len(stack.frames), stack.end) == (2, End.STACK_COPY_END)
    # What is nowhere near the stack is unreadable for another reason.
    wild = walk(target("x86-64", memory, ROWS), CODE + 0x14, {**START, "rbp": 8})
    assert wild.end is End.UNREADABLE_MEMORY


def test_the_limit() -> None:
    deep = words("x86-64", *[CODE + 4] * 50)
    stack = walk(target("x86-64", {STACK: deep}, ROWS), CODE + 4, START, limit=20)
    assert (len(stack.frames), stack.end) == (20, End.LIMIT)
    assert (len(walk(target("x86-64", {STACK: deep}, ROWS), CODE + 4, START).frames)) == 51


def test_expressions_cannot_make_a_walk_long() -> None:
    # 2,000 frames, whose rule each runs a loop of 10,000 steps.
    loop = expression(Op.skip(-3))
    rows = [(CODE, CODE + 0x10, rule(RegisterPlus(RSP, 8), (RBX, IsExpression(loop)), RA))]
    stack = walk(target("x86-64", {STACK: words("x86-64", *[CODE + 4] * 2000)}, rows), CODE + 4, START)
    assert stack.end is End.LIMIT
    assert len(stack.frames) < 200


def test_going_back_is_no_progress_but_another_stack_is() -> None:
    back = rule(RegisterPlus(RBX, 8), RA)
    rows = [*ROWS, (CODE + 0x60, CODE + 0x70, back)]
    here, there = 0x7FFF_0000_0000, 0x1000_0000
    memory = {here - 64: words("x86-64", CODE + 0x48), there: words("x86-64", CODE + 0x48)}
    it = target("x86-64", memory, rows)
    assert walk(it, CODE + 0x64, {"rsp": here, "rbx": here - 64}).end is End.NO_PROGRESS
    # A function that runs its callee on another stack (split stacks, coroutines).
    assert walk(it, CODE + 0x64, {"rsp": here, "rbx": there}).end is End.ENTRY
    # Where the stack's limits are known, so is what lies on it, however far.
    known = target("x86-64", memory, rows, limits=(there, here + 0x1000))
    assert walk(known, CODE + 0x64, {"rsp": here, "rbx": there}).end is End.NO_PROGRESS
    known = target("x86-64", memory, rows, limits=(here - 32, here + 0x1000))
    assert walk(known, CODE + 0x64, {"rsp": here, "rbx": here - 64}).end is End.ENTRY


def test_an_interrupted_system_call_may_stand_behind_its_function() -> None:
    # musl's and glibc's __restore_rt end with syscall; the next function, or nothing, begins there.
    memory = {STACK: MEMORY}
    assert walk(target("x86-64", memory, ROWS), CODE + 0x30, START).end is End.NO_RULE
    stack = walk(target("x86-64", memory, ROWS), CODE + 0x30, {"rsp": STACK + 40}, interrupted_call=True)
    assert (stack.frames[0].pc, stack.frames[0].rule, stack.end) == (Interrupted(CODE + 0x30), PLAIN, End.ENTRY)


def test_synthesised_rules_are_handed_in() -> None:
    asked: list[int] = []

    def synthesise(module: object, address: int) -> Rule | None:
        asked.append(address)
        return LEAF

    it = target("x86-64", {STACK: words("x86-64", CODE + 0x48)}, ROWS, bias=0x30)
    rows = [(start - 0x30, end - 0x30, what) for start, end, what in ROWS]
    it = target("x86-64", {STACK: words("x86-64", CODE + 0x48)}, rows, bias=0x30)
    stack = walk(it, CODE + 0x3C, START, synthesise=synthesise)
    assert (trusts(stack), stack.end, set(asked)) == (["context", "synthesised"], End.ENTRY, {CODE + 0xC})


def test_numbers_are_as_wide_as_the_machine() -> None:
    # esp + 8 wraps around, as the processor's addition does.
    wrapping = Rule(RegisterPlus(4, 0x20), ((8, AtCfa(-4)),), 8)
    last = Rule(RegisterPlus(4, 4), ((8, Undefined()),), 8)
    it = target(
        "i386",
        {0x10: words("i386", 0, 0, 0, CODE + 0x48)},
        [(CODE, CODE + 4, wrapping), (CODE + 0x40, CODE + 0x50, last)],
    )
    stack = walk(it, CODE, {"esp": (1 << 32) - 0x0, "ebx": -1})
    assert (stack.end, stack.frames[0].registers) == (End.ENTRY, {4: 0, 3: 0xFFFFFFFF})


def test_a_load_has_the_width_of_its_register() -> None:
    saved = rule(RegisterPlus(RSP, 8), (23, AtCfa(0)), RA)  # xmm6, which Windows' functions preserve
    memory = Pieces({STACK: words("x86-64", CODE + 0x48) + bytes(range(16))})
    it = target("x86-64", memory, [*ROWS, (CODE + 0x60, CODE + 0x70, saved)])
    assert walk(it, CODE + 0x64, START).frames[1].registers[23] == int.from_bytes(bytes(range(16)), "little")


def test_stacks_of_go_begin_where_its_runtime_says() -> None:
    """runtime.goexit has an ordinary row; above the address that goroutines return to, there is a zero, or anything."""
    elf = ElfBuilder(machine=62)
    elf.section(".text", bytes(0x100), address=0x100, flags=6)
    elf.section(".gopclntab", b"\0", address=0x300)
    elf.symbol("runtime.goexit.abi0", section=".text", value=0x140, size=0x10)
    elf.segment(1, [".text"], flags=5)
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(code_alignment=1, data_alignment=-4, instructions=[Cfa.def_cfa(RSP, 8), Cfa.offset(RIP, 2)])
    cfi.fde(cie, start=0x100, size=0x60)
    elf.section(".debug_frame", cfi.build())
    image = Image.from_bytes(elf.build())
    module = Module("/bin/go", 0x40000, 0x50000, 0x40000, open_image=lambda: image)
    it = target("x86-64", {STACK: words("x86-64", 0x40141, 0xABCD)}, [], modules=[module])
    stack = walk(it, 0x40104, START)
    assert (pcs(stack), stack.end) == ([0x40104, 0x40141], End.ENTRY)
    assert "runtime.goexit" in stack.detail
    # Interrupted in it is not returned to.
    assert len(walk(it, 0x40140, START).frames) == 2
