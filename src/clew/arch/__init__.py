"""What a machine is: register numbers and names, ABI defaults, dialect of call frame instructions."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from clew.arch.machine import ByteOrder, Default, Dialect, Machine, vendor_instruction
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

#: Machines by the module that has them, in the order in which they are listed.
_MODULES = {
    "x86_64": ("X86_64", "X32"),
    "i386": ("I386", "IAMCU"),
    "aarch64": ("AARCH64", "AARCH64_ILP32"),
    "arm": ("ARM",),
    "riscv": ("RISCV64", "RISCV32"),
    "powerpc": ("POWERPC64", "POWERPC"),
    "s390": ("S390X", "S390"),
    "mips": ("MIPS64", "MIPS"),
    "loongarch": ("LOONGARCH64", "LOONGARCH32"),
    "sparc": ("SPARC64", "SPARC"),
    "m88k": ("M88K", "DWARF_EXAMPLE"),
}
#: The module of the machines of an ``e_machine``: a program mostly has to do with one.
_MODULE_OF = {
    **dict.fromkeys((62, 180, 181), "x86_64"),
    **dict.fromkeys((3, 6), "i386"),
    183: "aarch64",
    40: "arm",
    243: "riscv",
    **dict.fromkeys((20, 21), "powerpc"),
    22: "s390",
    **dict.fromkeys((8, 10), "mips"),
    258: "loongarch",
    **dict.fromkeys((2, 18, 43), "sparc"),
    5: "m88k",
}

if TYPE_CHECKING:
    ALL: tuple[Machine, ...]
    """Every machine that clew knows, each in its usual byte order."""


def _of_module(name: str) -> list[Machine]:
    module = import_module(f"clew.arch.{name}")
    return [getattr(module, machine) for machine in _MODULES[name]]


@lru_cache(maxsize=1)
def _all() -> tuple[Machine, ...]:
    return tuple(machine for name in _MODULES for machine in _of_module(name))


def __getattr__(name: str) -> tuple[Machine, ...]:
    # PEP 562: all of them are loaded when somebody asks for all.
    if name == "ALL":
        return _all()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    module = _MODULE_OF.get(e_machine)
    family = [] if module is None else [each for each in _of_module(module) if e_machine in each.elf_machines]
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
    for machine in _all():
        if wanted == machine.name or wanted in machine.synonyms:
            return replace(machine, byte_order=byte_order) if byte_order not in (None, machine.byte_order) else machine
    raise UsageError(f"no machine is called {name!r}", hint="known: " + ", ".join(machine.name for machine in _all()))
