"""Frame records and back chains: where each machine has them, and when they are not believed."""

from __future__ import annotations

import pytest
from walking import CODE, STACK, Copy, pcs, target, trusts, walk, words

from clew.arch import machine_named
from clew.image import Image
from clew.read.frames import read_table
from clew.table import AtCfa, RegisterPlus, Rule, Undefined
from clew.target import Module
from clew.testing import Cfa, CfiBuilder, ElfBuilder
from clew.walk import End

CALL = bytes.fromhex("e800000000")
A, B, C = CODE + 0x108, CODE + 0x208, CODE + 0x308
CALLS = {
    # The bytes before a return address: bl, brasl, jal, call.
    "x86-64": "e800000000",
    "i386": "e800000000",
    "aarch64": "00000094",
    "arm": "000000eb",
    "riscv64": "ef000000",
    "riscv32": "ef000000",
    "powerpc64": "01000048",
    "powerpc": "48000001",
    "s390x": "c0e500000000",
    "s390": "c0e500000000",
    "loongarch64": "00000054",
}


def code(machine: str, *returns: int) -> dict[int, bytes]:
    """The module's code: zeroes, with a call before each return address."""
    data = bytearray(0x1000)
    call = bytes.fromhex(CALLS[machine])
    for each in returns:
        data[each - CODE - len(call) : each - CODE] = call
    return {CODE: bytes(data)}


def at(size: int, machine: str, values: dict[int, int]) -> bytes:
    """A stack of zeroes but for these words, by offset from its start."""
    data = bytearray(size)
    for offset, value in values.items():
        word = words(machine, value)
        data[offset : offset + len(word)] = word
    return bytes(data)


CHAINS = [
    # Records of {fp, ra} at fp; the outermost function cleared the frame pointer.
    ("x86-64", "rbp", 0x10, {0x10: STACK + 0x40, 0x18: A, 0x40: STACK + 0x80, 0x48: B, 0x80: 0, 0x88: C}),
    ("i386", "ebp", 0x10, {0x10: STACK + 0x40, 0x14: A, 0x40: STACK + 0x80, 0x44: B, 0x80: 0, 0x84: C}),
    ("aarch64", "x29", 0x10, {0x10: STACK + 0x40, 0x18: A, 0x40: STACK + 0x80, 0x48: B, 0x80: 0, 0x88: C}),
    ("arm", "r11", 0x10, {0x10: STACK + 0x40, 0x14: A, 0x40: STACK + 0x80, 0x44: B, 0x80: 0, 0x84: C}),
    # gcc -fno-omit-frame-pointer: push {fp, lr}; add fp, sp, #4.
    ("arm", "r11", 0x14, {0x10: STACK + 0x44, 0x14: A, 0x40: STACK + 0x84, 0x44: B, 0x80: 0, 0x84: C}),
    # s0 is the CFA; the record is below it.
    ("riscv64", "s0", 0x20, {0x10: STACK + 0x50, 0x18: A, 0x40: STACK + 0x90, 0x48: B, 0x80: 0, 0x88: C}),
    ("riscv32", "s0", 0x18, {0x10: STACK + 0x48, 0x14: A, 0x40: STACK + 0x88, 0x44: B, 0x80: 0, 0x84: C}),
    ("loongarch64", "fp", 0x20, {0x10: STACK + 0x50, 0x18: A, 0x40: STACK + 0x90, 0x48: B, 0x80: 0, 0x88: C}),
]


@pytest.mark.parametrize(("machine", "register", "start", "stack_words"), CHAINS)
def test_records(machine: str, register: str, start: int, stack_words: dict[int, int]) -> None:
    known = machine_named(machine)
    memory = {**code(machine, A, B, C), STACK: at(0x100, machine, stack_words)}
    registers = {register: STACK + start, known.register_name(known.stack_pointer): STACK}
    stack = walk(target(machine, memory, []), CODE + 0x10, registers)
    assert (pcs(stack), stack.end) == ([CODE + 0x10, A, B, C], End.ENTRY)
    assert trusts(stack)[1:] == ["frame_pointer"] * 3
    # Nothing is known but what the record says.
    allowed = {known.register_number(register), known.stack_pointer, known.program_counter}
    assert set(stack.frames[1].registers) <= allowed


@pytest.mark.parametrize(
    ("machine", "register", "slot"),
    [("powerpc64", "r1", 16), ("powerpc", "r1", 4), ("s390x", "r15", 112), ("s390", "r15", 56)],
)
def test_back_chains(machine: str, register: str, slot: int) -> None:
    """The stack pointer points to the caller's; each function saves its return address in its caller's frame."""
    values = {0: STACK + 0x100, 0x100: STACK + 0x200, 0x200: STACK + 0x300}
    values |= {0x100 + slot: A, 0x200 + slot: B, 0x300 + slot: C}
    memory = {**code(machine, A, B, C), STACK: at(0x400, machine, values)}
    stack = walk(target(machine, memory, []), CODE + 0x10, {register: STACK})
    assert pcs(stack) == [CODE + 0x10, A, B, C]
    # A null back chain is the end by Power's ABI; on s390x the word may be anything, as back chains are an option.
    assert stack.end is (End.ENTRY if machine.startswith("powerpc") else End.NO_RULE)


def test_signed_addresses_are_always_stripped() -> None:
    values = {0x10: 0, 0x18: 0x7F00_0000_0000_0000 & 0x007F_0000_0000_0000 | A}
    memory = {**code("aarch64", A), STACK: at(0x100, "aarch64", values)}
    stack = walk(target("aarch64", memory, []), CODE + 0x10, {"x29": STACK + 0x10, "sp": STACK})
    assert (pcs(stack), stack.end) == ([CODE + 0x10, A], End.ENTRY)


@pytest.mark.parametrize(
    ("what", "values", "registers"),
    [
        ("not on the stack", {0x10: 0, 0x18: A}, {"x29": STACK + 0x10, "sp": STACK + 0x20}),
        ("beyond the stack's end", {0x90: 0, 0x98: A}, {"x29": STACK + 0x90, "sp": STACK}),
        ("not aligned", {0x14: 0, 0x1C: A}, {"x29": STACK + 0x14, "sp": STACK}),
        ("no code address", {0x10: STACK + 0x20, 0x18: 0x1234}, {"x29": STACK + 0x10, "sp": STACK}),
        ("no call before it", {0x10: STACK + 0x20, 0x18: A + 4}, {"x29": STACK + 0x10, "sp": STACK}),
        ("unknown", {}, {"sp": STACK}),
    ],
)
def test_a_record_that_cannot_be_one_is_not_followed(
    what: str, values: dict[int, int], registers: dict[str, int]
) -> None:
    memory = {**code("aarch64", A), STACK: at(0x100, "aarch64", values)}
    it = target("aarch64", memory, [], limits=(STACK, STACK + 0x90))
    stack = walk(it, CODE + 0x10, registers)
    assert (pcs(stack), stack.end) == ([CODE + 0x10], End.NO_RULE), what


def test_what_does_not_go_outward_needs_a_call_as_proof() -> None:
    # The caller has no frame pointer: rbp is 3 there.
    values = {0x10: 3, 0x18: A}
    rows = [(A - 8, A + 8, Rule(RegisterPlus(7, 8), ((16, Undefined()),), 16))]
    memory = {STACK: at(0x100, "x86-64", values)}
    registers = {"rbp": STACK + 0x10, "rsp": STACK}
    assert walk(target("x86-64", {**code("x86-64", A), **memory}, rows), CODE + 0x10, registers).end is End.ENTRY
    assert walk(target("x86-64", {**code("x86-64"), **memory}, rows), CODE + 0x10, registers).end is End.NO_RULE
    assert walk(target("x86-64", memory, rows), CODE + 0x10, registers).end is End.NO_RULE


def test_a_chain_that_turns_back_ends() -> None:
    values = {0x10: STACK + 0x40, 0x18: A, 0x40: STACK + 0x10, 0x48: B}
    memory = {**code("aarch64", A, B), STACK: at(0x100, "aarch64", values)}
    stack = walk(target("aarch64", memory, []), CODE + 0x10, {"x29": STACK + 0x10, "sp": STACK})
    assert (pcs(stack), stack.end) == ([CODE + 0x10, A, B], End.NO_RULE)


def test_the_end_of_a_copied_stack_and_of_memory() -> None:
    values = {0x10: STACK + 0x40, 0x18: A, 0x40: STACK + 0x100, 0x48: B}
    pieces = {**code("x86-64", A, B), STACK: at(0x100, "x86-64", values)}
    registers = {"rbp": STACK + 0x10, "rsp": STACK}
    stack = walk(target("x86-64", Copy(pieces, STACK + 0x100), []), CODE + 0x10, registers)
    assert (pcs(stack), stack.end) == ([CODE + 0x10, A, B], End.STACK_COPY_END)
    assert walk(target("x86-64", pieces, []), CODE + 0x10, registers).end is End.UNREADABLE_MEMORY


def test_code_of_no_module_is_followed_where_calls_are_seen() -> None:
    """Code that a JIT compiler made, with frame pointers, called from a library with rows, and calling one."""
    jit = 0x66_0000
    made = bytes(0x100) + bytes.fromhex("e800000000") + bytes(0x100)
    back = jit + 0x105
    rows = [(A - 8, A + 8, Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)),
            (C - 8, C + 8, Rule(RegisterPlus(7, 8), ((16, Undefined()),), 16))]  # fmt: skip
    values = {0: back, 0x40: STACK + 0x80, 0x48: C}
    memory = {**code("x86-64", C), jit: made, STACK: at(0x100, "x86-64", values)}
    stack = walk(target("x86-64", memory, rows), A, {"rbp": STACK + 0x40, "rsp": STACK})
    assert (pcs(stack), stack.end) == ([A, back, C], End.ENTRY)
    assert trusts(stack) == ["context", "cfi", "frame_pointer"]
    assert stack.frames[1].module is None


def test_no_row_and_a_frame_pointer_of_zero_is_the_outermost_frame() -> None:
    assert walk(target("x86-64", {STACK: bytes(64)}, []), CODE + 0x10, {"rbp": 0, "rsp": STACK}).end is End.ENTRY
    assert walk(target("aarch64", {}, []), CODE + 0x10, {"x29": 0, "sp": STACK}).end is End.ENTRY
    # But not where nothing is loaded, or where a call has just been made: code without frame pointers may clear them.
    assert walk(target("x86-64", {STACK: bytes(64)}, []), 0x10, {"rbp": 0, "rsp": STACK}).end is End.NO_MODULE
    memory = {**code("x86-64", A), STACK: words("x86-64", A)}
    assert walk(target("x86-64", memory, []), CODE + 0x10, {"rbp": 0, "rsp": STACK}).end is End.NO_RULE
    memory = code("aarch64", A)
    stack = walk(target("aarch64", memory, []), CODE + 0x20, {"x29": 0, "sp": STACK, "x30": A})
    assert (pcs(stack), trusts(stack), stack.end) == ([CODE + 0x20, A], ["context", "link_register"], End.ENTRY)


def test_the_entry_point_is_the_outermost_frame_whatever_the_frame_pointer() -> None:
    """glibc before 2.34 on AArch64: ``mov x29, #0; mov x30, #0; mov x29, sp``."""
    elf = ElfBuilder(machine=183, entry=0x100)
    elf.section(".text", bytes(0x200), address=0x100, flags=6)
    elf.symbol("_start", section=".text", value=0x100, size=0x30)
    elf.segment(1, [".text"], flags=5)
    image = Image.from_bytes(elf.build())
    module = Module("/bin/it", 0x40000, 0x50000, 0x40000, open_image=lambda: image)
    it = target("aarch64", {STACK: bytes(64)}, [], modules=[module])
    stack = walk(it, 0x40000 + 0x12C, {"x29": STACK, "sp": STACK})
    assert (stack.end, "entry point" in stack.detail) == (End.ENTRY, True)
    assert walk(it, 0x40000 + 0x130, {"x29": STACK, "sp": STACK}).end is not End.ENTRY


@pytest.mark.parametrize(
    ("prologue", "name", "end"),
    [
        ("4883ec18", "pause", End.NO_RULE),  # sub $24,%rsp
        ("4883ec18", "pause.cold", End.ENTRY),  # a part of a function, whose prologue is elsewhere
        ("53554889e54883ec18", "pause", End.ENTRY),  # push %rbx; push %rbp; mov %rsp,%rbp; sub $24,%rsp
        ("55488d6c2408", "pause", End.ENTRY),  # push %rbp; lea 8(%rsp),%rbp
    ],
)
def test_a_function_of_x86_that_makes_no_record_is_not_left_by_that_of_its_caller(
    prologue: str, name: str, end: End
) -> None:
    """musl's pause has neither table nor frame pointer: the record is its caller's, whose own pc is not in it."""
    body = bytes.fromhex(prologue) + CALL + b"\x90" * 8
    elf = ElfBuilder(machine=62)
    elf.section(".text", bytes(0x200), address=0x100, flags=6)
    elf.symbol(name, section=".text", value=0x200, size=len(body))
    elf.segment(1, [".text"], flags=5)
    image = Image.from_bytes(elf.build())
    module = Module("/lib/musl.so", 0x40000, 0x50000, 0x40000, open_image=lambda: image)
    back = 0x40200 + len(bytes.fromhex(prologue) + CALL)
    records = at(0x100, "x86-64", {0x20: STACK + 0x40, 0x28: back, 0x40: 0, 0x48: A})
    memory = {**code("x86-64", A), 0x40200: body, STACK: records}
    stack = walk(target("x86-64", memory, [], modules=[module]), CODE + 0x10, {"rbp": STACK + 0x20, "rsp": STACK})
    assert (pcs(stack)[:2], stack.end) == ([CODE + 0x10, back], end)
    assert ("does not set rbp up" in stack.detail) == (end is End.NO_RULE)


# --- AArch64, from a chain back to the table -----------------------------------------------------------------------------

SETS_FRAME_POINTER = bytes.fromhex("fd7bbea9 fd030091 00000094 00000000")  # stp x29, x30, [sp, #-32]!; mov x29, sp; bl
LEAVES_IT = bytes.fromhex("fd7bbea9 1f2003d5 00000094 00000000")  # stp x29, x30, [sp, #-32]!; nop; bl


@pytest.mark.parametrize(("function", "end"), [(SETS_FRAME_POINTER, End.ENTRY), (LEAVES_IT, End.UNKNOWN_REGISTER)])
def test_a_table_takes_over_where_the_record_tells_the_cfa(function: bytes, end: End) -> None:
    """The chain leads into a function with a row, but not to its stack pointer. Where that function pointed x29 to the pair
    that it saved, x29 tells the CFA; where it did not, x29 is another's, and the walk must not pass over frames."""
    start = CODE + 0x400
    cfi = CfiBuilder("debug_frame")
    cie = cfi.cie(code_alignment=4, data_alignment=-8, return_address=30, instructions=[Cfa.def_cfa(31, 0)])
    saved = [Cfa.advance(1), Cfa.def_cfa_offset(32), Cfa.offset(29, 4), Cfa.offset(30, 3), Cfa.offset(19, 1)]
    cfi.fde(cie, start=start, size=16, instructions=saved)
    cfi.fde(cie, start=A - 8, size=16, instructions=[Cfa.undefined(30)])
    elf = ElfBuilder(machine=183)
    elf.section(".debug_frame", cfi.build())
    table = read_table(Image.from_bytes(elf.build()))
    text = bytearray(code("aarch64", A)[CODE])
    text[0x400:0x410] = function
    values = {0x10: STACK + 0x40, 0x18: start + 12, 0x40: STACK + 0x90, 0x48: A, 0x58: 0x19, 0x90: 0, 0x98: B}
    memory = {CODE: bytes(text), STACK: at(0x100, "aarch64", values)}
    stack = walk(target("aarch64", memory, table), CODE + 0x10, {"x29": STACK + 0x10, "sp": STACK})
    assert stack.end is end
    if end is End.ENTRY:
        assert pcs(stack) == [CODE + 0x10, start + 12, A]
        assert trusts(stack) == ["context", "frame_pointer", "frame_pointer"]
        assert (stack.frames[2].registers[31], stack.frames[2].registers[19]) == (STACK + 0x60, 0x19)


def test_a_handler_on_another_stack_returns_to_its_trampoline() -> None:
    """What was interrupted used the frame pointer for something else, so that the record's previous one leads nowhere."""
    trampoline = CODE + 0x400
    memory = code("x86-64", A)
    data = bytearray(memory[CODE])
    data[0x400:0x409] = bytes.fromhex("48c7c00f0000000f05")
    # From where the handler's return leaves the stack pointer: the ucontext, whose registers begin at 40.
    frame = {0x10: 7, 0x18: trampoline, 0x20 + 40 + 8 * 10: 7, 0x20 + 40 + 8 * 15: 0x7F00, 0x20 + 40 + 8 * 16: A}
    it = target("x86-64", {CODE: bytes(data), STACK: at(0x200, "x86-64", frame)}, None)
    stack = walk(it, CODE + 0x500, {"rbp": STACK + 0x10, "rsp": STACK})
    assert (pcs(stack), trusts(stack)) == ([CODE + 0x500, trampoline, A], ["context", "frame_pointer", "signal"])


@pytest.mark.parametrize(("code", "end"), [("31ed4989d1e800000000", End.ENTRY), ("4883ec08e80000000090", End.NO_RULE)])
def test_a_frame_pointer_of_zero_is_the_end_on_x86_only_where_the_code_clears_it(code: str, end: End) -> None:
    """glibc starts threads with rbp = 0: functions without tables or records still have it, and are not the outermost."""
    # 31 ed is xor %ebp,%ebp; 48 83 ec 08 is sub $8,%rsp. Both call at the end, from where the leaf with a row was called.
    pushed = Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)
    memory = {
        CODE - 0x100: bytes(0x100) + bytes.fromhex(code).ljust(0x200, b"\xcc"),
        STACK: words("x86-64", CODE + 9, 0, 0),
    }
    stack = walk(
        target("x86-64", memory, [(CODE + 0x100, CODE + 0x110, pushed)]), CODE + 0x104, {"rsp": STACK, "rbp": 0}
    )
    assert (len(stack.frames), stack.end) == (2, end), stack.detail
