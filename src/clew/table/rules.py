"""The rules of a Table: few, numbered, and made into objects when somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from clew.arch import Machine
from clew.table.rule import (
    NO_INFORMATION,
    AnyExpression,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    CfaRule,
    InRegister,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
    parse_expression,
)


@dataclass(frozen=True, slots=True)
class RuleColumns:
    """Rules as the compiled core gives them: heads, one element a rule, and cells, one element a named register.

    Attributes:
        cfa_kind (u1): 0 none, 1 register plus value, 2 the expression ``value``.
        cfa_register (u4), cfa_value (i8), context (u4: bits, and the return address column above bit 8).
        first, size (u4): the rule's cells.
        cell_register (u4), cell_kind (u1: 1 undefined … 7 is expression), cell_value (i8).
        expressions: bytes by number.
    """

    cfa_kind: npt.NDArray[np.uint8]
    cfa_register: npt.NDArray[np.uint32]
    cfa_value: npt.NDArray[np.int64]
    context: npt.NDArray[np.uint32]
    first: npt.NDArray[np.uint32]
    size: npt.NDArray[np.uint32]
    cell_register: npt.NDArray[np.uint32]
    cell_kind: npt.NDArray[np.uint8]
    cell_value: npt.NDArray[np.int64]
    expressions: Sequence[bytes]

    def numbers(self) -> tuple[npt.NDArray[np.generic], ...]:
        """All columns but the expressions, in this order."""
        heads = (self.cfa_kind, self.cfa_register, self.cfa_value, self.context, self.first, self.size)
        return (*heads, self.cell_register, self.cell_kind, self.cell_value)


class Rules(Sequence[Rule]):
    """A sequence of rules by number; number 0 is *no information*.

    Built from columns (nothing is made before it is asked for) or from :class:`Rule` objects.
    """

    def __init__(self, machine: Machine, columns: RuleColumns | None = None, rules: Iterable[Rule] = ()) -> None:
        self.machine = machine
        self._columns = columns
        self._made: dict[int, Rule] = dict(enumerate(rules)) if columns is None else {}
        self._count = len(self._made) if columns is None else len(columns.cfa_kind)
        self._expressions: dict[int, AnyExpression] = {}

    @property
    def columns(self) -> RuleColumns | None:
        """The columns that they are made from; None for rules that came as objects."""
        return self._columns

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Rule: ...
    @overload
    def __getitem__(self, index: slice) -> list[Rule]: ...
    def __getitem__(self, index: int | slice) -> Rule | list[Rule]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        number = int(index) + self._count if index < 0 else int(index)
        rule = self._made.get(number)
        if rule is None:
            if not 0 <= number < self._count:
                raise IndexError(f"there is no rule {index}")
            rule = self._made[number] = self._make(number)
        return rule

    def __iter__(self) -> Iterator[Rule]:
        return (self[i] for i in range(self._count))

    def _make(self, number: int) -> Rule:
        columns = self._columns
        assert columns is not None
        context = int(columns.context[number])
        if context & 16:
            return NO_INFORMATION
        kind, value = int(columns.cfa_kind[number]), int(columns.cfa_value[number])
        cfa: CfaRule | None = None
        if kind == 1:
            cfa = RegisterPlus(int(columns.cfa_register[number]), value)
        elif kind == 2:
            cfa = CfaExpression(self._expression(value))
        cells = slice(int(columns.first[number]), int(columns.first[number]) + int(columns.size[number]))
        registers = tuple(
            (register, self._cell(cell_kind, cell_value))
            for register, cell_kind, cell_value in zip(
                columns.cell_register[cells].tolist(),
                columns.cell_kind[cells].tolist(),
                columns.cell_value[cells].tolist(),
                strict=True,
            )
        )
        signing = Signing.SIGNED_WITH_PC if context & 4 else Signing.SIGNED if context & 2 else Signing.NONE
        return Rule(cfa, registers, context >> 8, bool(context & 1), signing, bool(context & 8))

    def _cell(self, kind: int, value: int) -> RegisterRule:
        match kind:
            case 1:
                return Undefined()
            case 2:
                return SameValue()
            case 3:
                return AtCfa(value)
            case 4:
                return CfaPlus(value)
            case 5:
                return InRegister(value)
            case 6:
                return AtExpression(self._expression(value))
            case _:
                return IsExpression(self._expression(value))

    def _expression(self, number: int) -> AnyExpression:
        known = self._expressions.get(number)
        if known is None:
            assert self._columns is not None
            data = self._columns.expressions[number]
            known = self._expressions[number] = parse_expression(data, self.machine)
        return known
