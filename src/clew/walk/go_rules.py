"""What Go's tables leave to the reader: which registers its functions keep.

Go's linker writes ``.debug_frame`` with the CFA and nothing else. By its own ABI (cmd/compile/abi-internal.md, "Architecture
specifics", amd64) a function keeps no register but the frame pointer, and each with a frame saves that first, right below the
return address; so it has since Go 1.7, in other words since 1.21. Code of C in the same file has ``.eh_frame``, and C's ABI.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from clew.table import AtCfa, RegisterPlus, RegisterRule, Row, Rule, SameValue, Table, Undefined
from clew.target.model import Module
from clew.walk.go_files import go_functions, is_go

_RBP, _RSP, _KEPT_BY_C = 6, 7, (3, 12, 13, 14, 15)

# runtime/cgo/asm_amd64.s: C calls it, so that it saves what C wants kept: rbx, r12 to r15, from 64 bytes below the CFA on.
_SAVED_FOR_C = {register: AtCfa(-64 + 8 * index) for index, register in enumerate(_KEPT_BY_C)}

# These are assembly and push in an order of their own, or none at all.
_OWN_WAYS = frozenset({"runtime.rt0_go", "runtime.sigtramp", "runtime.cgoSigtramp", "crosscall2"})


def go_row(module: Module, address: int, row: Row) -> Row:
    """A row with what Go's ABI adds to its rule; the same row for other code.

    Args:
        module: the file.
        address: the one that the row was looked up for, as the file has it.
        row: what its table says there.
    """
    if module.table is None or not is_go(module):
        return row
    rule = go_rule(module, module.table, address, row.rule)
    return row if rule is row.rule else replace(row, rule=rule)


def go_rule(module: Module, table: Table, address: int, rule: Rule) -> Rule:
    """As :func:`go_row`, for the rule alone, in a file that is known to be Go's."""
    if table.machine.name != "x86-64":
        return rule
    function = table.range_at(address)
    if function is None or "debug_frame" not in function.source or (rule.registers and len(rule.registers) > 1):
        return rule
    own = go_functions(module, _OWN_WAYS).at(function.start)
    return _completed(rule, None if own is None else own[1])


@lru_cache(maxsize=4096)
def _completed(rule: Rule, name: str | None) -> Rule:
    terms: dict[int, RegisterRule] = {register: Undefined() for register in _KEPT_BY_C}
    base = rule.cfa
    if not isinstance(base, RegisterPlus) or base.register != _RSP or (name is not None and name != "crosscall2"):
        terms[_RBP] = Undefined()
    elif base.offset < 16:
        terms[_RBP] = SameValue()
    else:
        terms[_RBP] = AtCfa(-16)
        if name == "crosscall2" and base.offset == 88:
            terms.update(_SAVED_FOR_C)
    return replace(rule, registers=tuple(sorted({**terms, **dict(rule.registers)}.items())))
