"""A known mistake in tables: where the caller's stack pointer is not what they say.

What a function saves lies below its CFA, and its stack pointer is never above. The rows of glibc's ``_dl_runtime_resolve``
on AArch64 (sysdeps/aarch64/dl-trampoline.S) say both: they leave the 16 bytes out that the PLT's head pushed, with the
return address in the upper 8 of them, and that it takes off with its last instruction but one.
"""

from __future__ import annotations

from clew.arch import Machine
from clew.table.rule import AtCfa, CfaPlus, RegisterPlus, RegisterRule, Rule, SameValue


def forgets_the_plt(machine: Machine, rule: Rule) -> bool:
    """Whether a rule is one of those of ``_dl_runtime_resolve`` whose CFA is not the caller's stack pointer."""
    if machine.name != "aarch64" or rule.signal_frame:
        return False
    below = isinstance(rule.cfa, RegisterPlus) and rule.cfa.register == machine.stack_pointer and rule.cfa.offset < 0
    return below or rule[rule.return_address] == AtCfa(8)


def stack_pointer_term(machine: Machine, rule: Rule) -> RegisterRule:
    """What the caller's stack pointer is by a rule that does not name it, on a machine where that is the CFA."""
    if not forgets_the_plt(machine, rule):
        return CfaPlus(0)
    return CfaPlus(16) if rule[rule.return_address] == AtCfa(8) else SameValue()
