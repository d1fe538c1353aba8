"""A thread's registers as minidumps hold them: the ``CONTEXT`` of each processor, to DWARF numbers.

That of x86, AMD64 and ARM64 is Windows' (``winnt.h``); the others are Breakpad's (``minidump_cpu_*.h``), which also has an
older form for ARM64. Flags tell which processor a context is for and which of its parts are filled in: what is not is
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from clew.arch import ByteOrder, Machine, machine_named
from clew.target.register_layouts import Registers, register_names

CONTROL = 1
INTEGER = 2


@dataclass(frozen=True, slots=True)
class Run:
    """Registers that stand side by side.

    Attributes:
        offset: where the first is.
        code: how wide each is, as in :mod:`struct`.
        names: their names.
        part: the flag that says that they are filled in; 0 where none does.
    """

    offset: int
    code: str
    names: tuple[str, ...]
    part: int = 0


@dataclass(frozen=True, slots=True)
class ContextLayout:
    """One processor's context.

    Attributes:
        machine: its name in :mod:`clew.arch`.
        flags: offset and form of the flags.
        processor: bits of the flags, of which at least one says that it is for this processor.
        size: how many bytes it has at least, with its floating-point registers or without.
        runs: the registers. ``pc`` is the program counter where that has another name.
        whole: the size with everything, for who writes one.
    """

    machine: str
    flags: tuple[int, str]
    processor: int
    size: int
    runs: tuple[Run, ...]
    whole: int


def _run(offset: int, code: str, names: str, part: int = 0) -> Run:
    """A run from names as of :func:`clew.target.register_layouts.register_names`."""
    return Run(offset, code, tuple(register_names(names)), part)


_POWERPC_REST = "cr xer lr ctr"

LAYOUTS: tuple[ContextLayout, ...] = (
    # Six debug registers and the x87 state (112 bytes) come first.
    ContextLayout(
        "i386",
        (0, "I"),
        0x10000,
        204,
        (
            _run(156, "I", "edi esi ebx edx ecx eax", INTEGER),
            _run(180, "I", "ebp eip", CONTROL),
            _run(192, "I", "eflags esp", CONTROL),
        ),
        716,
    ),
    # The homes of six parameters come first; then flags, mxcsr, segments, and debug registers.
    ContextLayout(
        "x86-64",
        (48, "I"),
        0x100000,
        256,
        (
            _run(68, "I", "rflags", CONTROL),
            _run(120, "Q", "rax rcx rdx rbx", INTEGER),
            _run(152, "Q", "rsp", CONTROL),
            _run(160, "Q", "rbp rsi rdi r8-15", INTEGER),
            _run(248, "Q", "rip", CONTROL),
        ),
        1232,
    ),
    # Breakpad's own ARM context tells of its floating-point registers alone; so does the older ARM64.
    ContextLayout("arm", (0, "I"), 0x40000000, 72, (_run(4, "I", "r0-12 sp lr pc"),), 368),
    # Windows keeps fp and lr with the control registers (ARM64_NT_CONTEXT); Breakpad's writers say INTEGER alone, and
    # fill in everything.
    ContextLayout("aarch64", (0, "I"), 0x400000, 272, (_run(8, "Q", "x0-30 sp pc"),), 912),
    ContextLayout("aarch64", (0, "Q"), 0x80000000, 276, (_run(8, "Q", "x0-30 sp pc"),), 796),
    ContextLayout("mips", (0, "I"), 0xC0000, 320, (_run(8, "Q", "r0-31 hi lo"), _run(312, "Q", "pc")), 600),
    ContextLayout("mips64", (0, "I"), 0xC0000, 320, (_run(8, "Q", "r0-31 hi lo"), _run(312, "Q", "pc")), 600),
    ContextLayout(
        "powerpc",
        (0, "I"),
        0x20000000,
        156,
        (_run(4, "I", "pc"), _run(12, "I", "r0-31"), _run(140, "I", _POWERPC_REST)),
        1004,
    ),
    ContextLayout(
        "powerpc64",
        (0, "Q"),
        0x1000000,
        312,
        (_run(8, "Q", "pc"), _run(24, "Q", "r0-31"), _run(280, "Q", _POWERPC_REST)),
        1160,
    ),
    # Words of eight bytes also for programs of 32 bits.
    ContextLayout("sparc", (0, "I"), 0x10000000, 288, (_run(8, "Q", "r0-31"), _run(272, "Q", "pc")), 584),
    ContextLayout("riscv32", (0, "I"), 0x800000, 132, (_run(4, "I", "pc x1-31"),), 264),
    ContextLayout("riscv64", (0, "I"), 0x8000000, 264, (_run(8, "Q", "pc x1-31"),), 528),
)

# ``MINIDUMP_SYSTEM_INFO.ProcessorArchitecture``; above 0x8000 Breakpad's own.
PROCESSORS: Mapping[int, str] = {
    0: "i386",
    1: "mips",
    3: "powerpc",
    5: "arm",
    9: "x86-64",
    10: "i386",
    12: "aarch64",
    0x8001: "sparc",
    0x8002: "powerpc64",
    0x8003: "aarch64",
    0x8004: "mips64",
    0x8005: "riscv32",
    0x8006: "riscv64",
}


def machine_of(processor: int, byte_order: ByteOrder) -> Machine | None:
    """The machine that a processor's number means, or None where clew does not know it."""
    name = PROCESSORS.get(processor)
    return None if name is None else machine_named(name, byte_order)


def place_of(machine: Machine, name: str) -> int | None:
    """The DWARF number of a register by its name in a layout, or None for a pc that has none."""
    number = machine.register_number(name)
    # What is only called by its number here has another name of its own there.
    return int(name[1:]) if number is None and name[:1] == "r" and name[1:].isdigit() else number


@lru_cache(maxsize=64)
def _plan(
    machine: Machine, layout: ContextLayout
) -> tuple[Struct, list[tuple[Struct, int, int, list[tuple[str, int | None]]]]]:
    prefix = "<" if machine.byte_order == "little" else ">"
    runs = []
    for run in layout.runs:
        record = Struct(prefix + run.code * len(run.names))
        runs.append((record, run.offset, run.part, [(name, place_of(machine, name)) for name in run.names]))
    return Struct(prefix + layout.flags[1]), runs


def layouts_of(machine: Machine) -> list[ContextLayout]:
    """The contexts that a machine has."""
    return [layout for layout in LAYOUTS if layout.machine == machine.name]


def read_context(machine: Machine, data: memoryview | bytes) -> Registers | str:
    """The registers in a context, or, in words, why they cannot be had."""
    for layout in layouts_of(machine):
        record, runs = _plan(machine, layout)
        if len(data) < layout.size:
            continue
        (flags,) = record.unpack_from(data, layout.flags[0])
        if not flags & layout.processor:
            continue
        # Some writers name no part at all and fill in every one (that of Rust, on macOS).
        parts = flags & (CONTROL | INTEGER) or CONTROL | INTEGER
        values: dict[int, int] = {}
        # MIPS and SPARC have words of eight bytes for registers of four, too.
        word = (1 << machine.bits) - 1
        pc = None
        for form, offset, part, names in runs:
            if part and not parts & part:
                continue
            for (name, number), value in zip(names, form.unpack_from(data, offset), strict=True):
                if name in ("pc", "rip", "eip"):
                    pc = value
                if number is not None:
                    values[number] = value & word
        if pc is None:
            return f"its flags, {flags:#x}, say that it holds no program counter"
        return Registers(values, pc & machine.address_mask & word, False)
    if not data:
        return "there is none"
    return f"its {len(data)} bytes are not registers of {machine.name}"
