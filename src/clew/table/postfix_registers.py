"""What registers are called in Breakpad symbol files: as the processors that read them expect it.

Breakpad's walkers know the registers of x86, MIPS, PowerPC and others with a ``$`` in front, and those of ARM, ARM64 and
RISC-V without (src/processor/stackwalker_*.cc). Numbers without a name of their own are ``r`` and the number, as clew's are.
"""

from __future__ import annotations

import re
from functools import lru_cache

from clew.arch import Machine

_BARE = ("arm", "aarch64", "aarch64-ilp32", "riscv32", "riscv64")

#: Breakpad's name for a register that its dumper has none for (src/common/dwarf_cfi_to_module.cc).
_UNNAMED = re.compile(r"unnamed_register(0|[1-9][0-9]{0,18})")


@lru_cache(maxsize=256)
def _particular(machine: Machine) -> dict[int, str]:
    """The names that differ from the field's own."""
    if machine.name.startswith("riscv"):
        # x0 is "pc" in Breakpad's table, but no rule names it.
        return {32 + number: f"f{number}" for number in range(32)}
    if machine.name == "mips64":
        return {8 + number: f"t{number}" for number in range(8)}
    return {}


@lru_cache(maxsize=1 << 12)
def register_name(machine: Machine, number: int) -> str:
    """What a symbol file calls a register.

    >>> from clew.arch import machine_named
    >>> register_name(machine_named("x86-64"), 7), register_name(machine_named("aarch64"), 31)
    ('$rsp', 'sp')
    """
    name = _particular(machine).get(number) or machine.register_name(number)
    return name if machine.name in _BARE else f"${name}"


@lru_cache(maxsize=1 << 12)
def register_number(machine: Machine, name: str) -> int | None:
    """The register that a symbol file means, with or without a ``$``; None where the machine has none of this name."""
    name = name.removeprefix("$")
    for particular, known in _particular(machine).items():
        if name == known:
            return particular
    number = machine.register_number(name)
    if number is None and (match := _UNNAMED.fullmatch(name)):
        return int(match[1])
    return number
