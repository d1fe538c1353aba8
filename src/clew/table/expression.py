"""DWARF expressions as unwind rules use them (DWARF 5 §2.5.1, §6.4.2): read, compared, written and shown.

An :class:`Expression` only has operators with a meaning in call frame information, all its operands are whole, and its
branches land on operations; so the evaluators need not check any of this again. What the operators do is said in
:mod:`clew.table.evaluate`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from clew.arch import ByteOrder, Machine
from clew.errors import FormatError
from clew.native.cursor import Cursor, Malformed
from clew.table import expression_text, operators
from clew.table.expression_code import encode
from clew.table.operators import MEANINGLESS, OPERATORS

MAXIMUM_LENGTH = 1 << 14
"""Bytes in the longest expression that clew reads. The longest that a compiler is known to make have a few dozen."""

Step = tuple[str] | tuple[str, int] | tuple[str, int, int]
"""One step of a canonical expression: its name, and numbers. See :attr:`Expression.canonical`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator in an expression, with its operands.

    Attributes:
        offset: bytes from the start of the expression.
        opcode: the operator's code.
        operands: as they are written; a branch has its displacement.
    """

    offset: int
    opcode: int
    operands: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The operator's name in the standard, such as ``DW_OP_breg7``."""
        return OPERATORS[self.opcode].name


class Expression:
    """An expression of a rule. Immutable; two are equal when their canonical forms and address sizes are.

    Attributes:
        data: the bytes.
        operations: what they say, in order.
        address_size: bytes in an address: numbers are computed modulo 2 to the power of 8 times this.
        byte_order: of the numbers in ``data``, and of the memory that the expression reads.
        canonical: what the expression does, however it is written: steps ``("push", n)`` with 0 <= n < 2^width,
            ``("register", number, offset)`` with a signed offset, ``("deref", size)``, ``("pick", n)``,
            ``("bra", step)`` and ``("skip", step)`` with the index of the step they go to, which may be the end; and
            the operators without operands by name: ``("plus",)``. There is no ``nop``, ``dup``, ``over`` or
            ``plus_uconst``.
    """

    __slots__ = ("_hash", "address_size", "byte_order", "canonical", "data", "operations")

    data: bytes
    operations: tuple[Operation, ...]
    address_size: int
    byte_order: ByteOrder
    canonical: tuple[Step, ...]

    def __init__(self, data: bytes, *, address_size: int, byte_order: ByteOrder) -> None:
        """As :meth:`parse`, without a place to name in errors."""
        if address_size not in (2, 4, 8):
            raise FormatError(f"no machine has addresses of {address_size} bytes", offset=0)
        self.data = bytes(data)
        self.address_size = address_size
        self.byte_order = byte_order
        self.operations = _read(self.data, address_size, byte_order)
        self.canonical = _canonical(self.operations, len(self.data), address_size)
        self._hash = hash((address_size, self.canonical))

    @classmethod
    def parse(
        cls,
        data: bytes,
        *,
        address_size: int,
        byte_order: ByteOrder,
        section: str | None = None,
        offset: int | None = None,
    ) -> Expression:
        """The expression in ``data``, all of it.

        Args:
            data: at most :data:`MAXIMUM_LENGTH` bytes.
            address_size: 2, 4 or 8, from the CIE or the file.
            byte_order: of the file.
            section, offset: where ``data`` starts, to be named in errors; without them they name the place in ``data``.

        Raises:
            FormatError: the data is cut or too long, an operator is unknown or has no meaning in call frame
                information, a number has more than 64 bits, or a branch goes astray. It names the operator.
        """
        try:
            return cls(data, address_size=address_size, byte_order=byte_order)
        except FormatError as error:
            place = (offset or 0) + (error.offset or 0)
            raise FormatError(error.message, section=section, offset=place, hint=error.hint) from None

    @classmethod
    def from_canonical(cls, steps: Iterable[Step], *, address_size: int, byte_order: ByteOrder) -> Expression:
        """The expression that does these steps, written in the shortest form that DWARF 2 has for each.

        Raises:
            UsageError: a step is unknown, a number does not fit, or a branch is longer than its operand can say.
            FormatError: the result is longer than :data:`MAXIMUM_LENGTH`.
        """
        data = encode(tuple(steps), address_size, byte_order)
        return cls(data, address_size=address_size, byte_order=byte_order)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self.address_size == other.address_size and self.canonical == other.canonical

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Expression({self.data.hex(' ')!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.data, self.address_size, self.byte_order)

    def dwarf(self, machine: Machine) -> str:
        """The operators as they are written, such as ``DW_OP_breg7 (rsp): 8; DW_OP_deref``."""
        return expression_text.postfix(
            ((operation.name, operation.opcode, operation.operands) for operation in self.operations), machine
        )

    def infix(self, machine: Machine, initial: tuple[str, ...] = ("cfa",)) -> str:
        """The expression as an equation, such as ``*(rsp + 8) & -16``; as :meth:`dwarf` writes it where it has none.

        ``*(a)`` is the address-sized value in memory at ``a`` and ``*4(a)`` the one of four bytes, zero-extended.
        Numbers wrap around; ``/``, comparisons (1 or 0) and ``shra`` are signed, ``%`` and ``>>`` unsigned. Whatever
        nests other than in sums and products has its parentheses. There is no equation for branches, for an
        expression that finds too little on its stack, and for one that grows beyond reading.

        Args:
            machine: whose register names to use.
            initial: what is on the stack at the start; nothing for the CFA's own expression.
        """
        text = expression_text.infix(self.canonical, self.address_size, machine, initial)
        return self.dwarf(machine) if text is None else text

    def to_json(self) -> list[list[str | int]]:
        """The canonical steps as lists; pushed numbers, which may be addresses, are strings ``0x…``."""
        return [
            ["push", f"{step[1]:#x}"] if step[0] == "push" and len(step) == 2 else list(step) for step in self.canonical
        ]


def _rebuild(data: bytes, address_size: int, byte_order: ByteOrder) -> Expression:
    return Expression(data, address_size=address_size, byte_order=byte_order)


def _read(data: bytes, address_size: int, byte_order: ByteOrder) -> tuple[Operation, ...]:
    if len(data) > MAXIMUM_LENGTH:
        raise FormatError(f"an expression of {len(data)} bytes is longer than any that clew reads", offset=0)
    cursor = Cursor(data, 0, len(data), byte_order == "big")
    operations: list[Operation] = []
    while cursor.pos < len(data):
        offset = cursor.pos
        opcode = data[offset]
        operator = OPERATORS.get(opcode)
        if operator is None:
            raise _unusable(opcode, offset)
        cursor.pos = offset + 1
        try:
            operands = tuple(_operand(cursor, kind, address_size) for kind in operator.operands)
        except Malformed as error:
            raise FormatError(f"the operand of {operator.name} cannot be read: {error}", offset=offset) from None
        if opcode == operators.DEREF_SIZE and not 1 <= operands[0] <= address_size:
            # DWARF 5 §2.5.1.3: the size "may not be larger than the size of the generic type".
            raise FormatError(f"DW_OP_deref_size cannot load {operands[0]} bytes", offset=offset)
        operations.append(Operation(offset, opcode, operands))
    return tuple(operations)


def _unusable(opcode: int, offset: int) -> FormatError:
    name, reason = MEANINGLESS.get(opcode, (None, None))
    if name is None:
        return FormatError(f"unknown operator {opcode:#04x}", offset=offset)
    return FormatError(f"{name} has no meaning in call frame information", offset=offset, hint=reason)


def _operand(cursor: Cursor, kind: operators.Operand, address_size: int) -> int:
    if kind == "uleb":
        return cursor.read_uleb()
    if kind == "sleb":
        return cursor.read_sleb()
    size = address_size if kind == "address" else operators.FIXED_SIZE[kind]
    value = cursor.read_fixed(size)
    return value - (1 << 8 * size) if kind[0] == "s" and value >> (8 * size - 1) else value


def _canonical(operations: tuple[Operation, ...], length: int, address_size: int) -> tuple[Step, ...]:
    modulus = 1 << 8 * address_size
    steps: list[Step] = []
    # The index of the step that an operation's first step has or, for a nop, that follows it.
    starts: list[int] = []
    branches: list[tuple[int, Operation]] = []
    for operation in operations:
        opcode, operands = operation.opcode, operation.operands
        starts.append(len(steps))
        if opcode in operators.PLAIN:
            steps.append((operators.PLAIN[opcode],))
        elif operators.LIT0 <= opcode < operators.LIT0 + 32:
            steps.append(("push", opcode - operators.LIT0))
        elif operators.BREG0 <= opcode < operators.BREG0 + 32:
            steps.append(("register", opcode - operators.BREG0, _signed(operands[0], modulus)))
        elif opcode == operators.BREGX:
            steps.append(("register", operands[0], _signed(operands[1], modulus)))
        elif opcode == operators.PLUS_UCONST:
            steps += ("push", operands[0] % modulus), ("plus",)
        elif opcode in (operators.DUP, operators.OVER, operators.PICK):
            steps.append(("pick", {operators.DUP: 0, operators.OVER: 1}[opcode] if not operands else operands[0]))
        elif opcode in (operators.DEREF, operators.DEREF_SIZE):
            steps.append(("deref", operands[0] if operands else address_size))
        elif opcode in (operators.BRA, operators.SKIP):
            branches.append((len(steps), operation))
            steps.append(("bra" if opcode == operators.BRA else "skip", 0))
        elif opcode != operators.NOP:
            steps.append(("push", operands[0] % modulus))
    offsets = [operation.offset for operation in operations] + [length]
    starts.append(len(steps))
    for index, operation in branches:
        # DWARF 5 §2.5.1.5: counted from after the two-byte operand.
        target = operation.offset + 3 + operation.operands[0]
        place = bisect_left(offsets, target)
        if place == len(offsets) or offsets[place] != target:
            raise FormatError(f"{operation.name} does not go to the start of an operation", offset=operation.offset)
        steps[index] = (steps[index][0], starts[place])
    return tuple(steps)


def _signed(value: int, modulus: int) -> int:
    value %= modulus
    return value - modulus if value >= modulus // 2 else value
