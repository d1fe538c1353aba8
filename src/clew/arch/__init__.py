"""What a machine is: register numbers and names, ABI defaults, dialect of call frame instructions."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from clew.arch.aarch64 import AARCH64, AARCH64_ILP32
from clew.arch.arm import ARM
from clew.arch.i386 import I386, IAMCU
from clew.arch.loongarch import LOONGARCH32, LOONGARCH64
from clew.arch.m88k import DWARF_EXAMPLE, M88K
from clew.arch.machine import ByteOrder, Default, Dialect, Machine, vendor_instruction
from clew.arch.mips import MIPS, MIPS64
from clew.arch.powerpc import POWERPC, POWERPC64
from clew.arch.riscv import RISCV32, RISCV64
from clew.arch.s390 import S390, S390X
from clew.arch.sparc import SPARC, SPARC64
from clew.arch.x86_64 import X32, X86_64
from clew.errors import UsageError

__all__ = [
    "ALL",
    "NO_REGISTER",
    "ByteOrder",
    "Default",
    "Dialect",
    "Machine",
    "machine_for",
    "machine_named",
    "vendor_instruction",
]

ALL: tuple[Machine, ...] = (
    X86_64,
    X32,
    I386,
    IAMCU,
    AARCH64,
    AARCH64_ILP32,
    ARM,
    RISCV64,
    RISCV32,
    POWERPC64,
    POWERPC,
    S390X,
    S390,
    MIPS64,
    MIPS,
    LOONGARCH64,
    LOONGARCH32,
    SPARC64,
    SPARC,
    M88K,
    DWARF_EXAMPLE,
)
"""Every machine that clew knows, each in its usual byte order."""

NO_REGISTER = (1 << 64) - 1
"""The number in the place of a register that an unknown machine may have, but of which nothing is known."""


@lru_cache(maxsize=64)
def machine_for(e_machine: int, bits: int, byte_order: ByteOrder) -> Machine:
    """The machine that an ELF header names.

    A known machine with a class that it does not have keeps its registers, and takes the file's address size. An
    unknown one has no register names, no defaults but *unknown*, and is called ``machine 0x…``. Never raises.

    Args:
        e_machine: the header's field.
        bits: 32 or 64, from the class of the file.
        byte_order: ``little`` or ``big``, from the header.
    """
    family = [machine for machine in ALL if e_machine in machine.elf_machines]
    if not family:
        return Machine(
            name=f"machine {e_machine:#x}",
            elf_machines=(e_machine,),
            bits=bits,
            byte_order=byte_order,
            names={},
            stack_pointer=NO_REGISTER,
            return_address=NO_REGISTER,
            callee_saved=frozenset(),
            sp_default=Default.UNKNOWN,
        )
    machine = next((machine for machine in family if machine.bits == bits), family[0])
    if (machine.bits, machine.byte_order) == (bits, byte_order):
        return machine
    return replace(machine, bits=bits, byte_order=byte_order)


def machine_named(name: str, byte_order: ByteOrder | None = None) -> Machine:
    """The machine of that name or synonym, whatever its case; in its usual byte order if none is given.

    >>> machine_named("ARM64").name
    'aarch64'

    Raises:
        UsageError: no machine has that name; the hint lists those there are.
    """
    wanted = name.lower()
    for machine in ALL:
        if wanted == machine.name or wanted in machine.synonyms:
            return replace(machine, byte_order=byte_order) if byte_order not in (None, machine.byte_order) else machine
    raise UsageError(f"no machine is called {name!r}", hint="known: " + ", ".join(machine.name for machine in ALL))
