"""The operators of DWARF expressions (DWARF 5 §2.5 and §7.7.1): those with a meaning in unwind rules, and the others.

DWARF 5 §6.4.2 says which operators an expression in call frame information may not have. Those that describe a location
rather than compute a number (§2.6) cannot give a CFA, an address or a value either.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Operand = Literal["address", "u1", "s1", "u2", "s2", "u4", "s4", "u8", "s8", "uleb", "sleb"]
"""How an operand is encoded: an address, a fixed width in bytes (unsigned or signed), or a LEB128 number."""

FIXED_SIZE = {"u1": 1, "s1": 1, "u2": 2, "s2": 2, "u4": 4, "s4": 4, "u8": 8, "s8": 8}
"""The width in bytes of the operands that have one in every file."""


class Operator(NamedTuple):
    """One operator: its name, and how its operands are encoded."""

    name: str
    operands: tuple[Operand, ...] = ()


DEREF, PICK, DUP, OVER = 0x06, 0x15, 0x12, 0x14
PLUS, PLUS_UCONST, BRA, SKIP, NOP = 0x22, 0x23, 0x28, 0x2F, 0x96
LIT0, BREG0, BREGX, DEREF_SIZE = 0x30, 0x70, 0x92, 0x94

_CONSTANTS: tuple[tuple[str, Operand], ...] = (
    ("const1u", "u1"),
    ("const1s", "s1"),
    ("const2u", "u2"),
    ("const2s", "s2"),
    ("const4u", "u4"),
    ("const4s", "s4"),
    ("const8u", "u8"),
    ("const8s", "s8"),
    ("constu", "uleb"),
    ("consts", "sleb"),
)

PLAIN: dict[int, str] = {
    0x13: "drop",
    0x16: "swap",
    0x17: "rot",
    0x19: "abs",
    0x1A: "and",
    0x1B: "div",
    0x1C: "minus",
    0x1D: "mod",
    0x1E: "mul",
    0x1F: "neg",
    0x20: "not",
    0x21: "or",
    PLUS: "plus",
    0x24: "shl",
    0x25: "shr",
    0x26: "shra",
    0x27: "xor",
    0x29: "eq",
    0x2A: "ge",
    0x2B: "gt",
    0x2C: "le",
    0x2D: "lt",
    0x2E: "ne",
}
"""Operators without operands whose canonical form is their own name."""

OPERATORS: dict[int, Operator] = {
    0x03: Operator("DW_OP_addr", ("address",)),
    DEREF: Operator("DW_OP_deref"),
    **{0x08 + index: Operator(f"DW_OP_{name}", (kind,)) for index, (name, kind) in enumerate(_CONSTANTS)},
    DUP: Operator("DW_OP_dup"),
    OVER: Operator("DW_OP_over"),
    PICK: Operator("DW_OP_pick", ("u1",)),
    **{opcode: Operator(f"DW_OP_{name}") for opcode, name in PLAIN.items()},
    PLUS_UCONST: Operator("DW_OP_plus_uconst", ("uleb",)),
    BRA: Operator("DW_OP_bra", ("s2",)),
    SKIP: Operator("DW_OP_skip", ("s2",)),
    **{LIT0 + number: Operator(f"DW_OP_lit{number}") for number in range(32)},
    **{BREG0 + number: Operator(f"DW_OP_breg{number}", ("sleb",)) for number in range(32)},
    BREGX: Operator("DW_OP_bregx", ("uleb", "sleb")),
    DEREF_SIZE: Operator("DW_OP_deref_size", ("u1",)),
    NOP: Operator("DW_OP_nop"),
}
"""Every operator that has a meaning in call frame information, by opcode."""

_LOCATION = "it describes where something is, and call frame information needs a number"
_UNIT = "it refers to a debugging information entry, and call frame information belongs to no compilation unit"

_REJECTED: tuple[tuple[str, dict[int, str]], ...] = (
    (
        _LOCATION,
        {
            **{0x50 + number: f"reg{number}" for number in range(32)},
            0x90: "regx",
            0x93: "piece",
            0x9D: "bit_piece",
            0x9E: "implicit_value",
            0x9F: "stack_value",
            0xA0: "implicit_pointer",
            0xF2: "GNU_implicit_pointer",
        },
    ),
    (
        _UNIT,
        {
            0x98: "call2",
            0x99: "call4",
            0x9A: "call_ref",
            0xA1: "addrx",
            0xA2: "constx",
            0xA4: "const_type",
            0xA5: "regval_type",
            0xA6: "deref_type",
            0xA7: "xderef_type",
            0xA8: "convert",
            0xA9: "reinterpret",
            0xF4: "GNU_const_type",
            0xF5: "GNU_regval_type",
            0xF6: "GNU_deref_type",
            0xF7: "GNU_convert",
            0xF9: "GNU_reinterpret",
            0xFA: "GNU_parameter_ref",
            0xFB: "GNU_addr_index",
            0xFC: "GNU_const_index",
            0xFD: "GNU_variable_value",
        },
    ),
    ("it names an address space other than memory", {0x18: "xderef", 0x95: "xderef_size"}),
    ("it asks for a thread-local variable", {0x9B: "form_tls_address", 0xE0: "GNU_push_tls_address"}),
    (
        "it asks for a value at the function's entry, which unwinding does not have",
        {0xA3: "entry_value", 0xF3: "GNU_entry_value"},
    ),
    ("there is no frame base: it belongs to a function's debugging information entry", {0x91: "fbreg"}),
    ("there is no object", {0x97: "push_object_address"}),
    ("the CFA is what call frame information is there to compute", {0x9C: "call_frame_cfa"}),
    ("it says that a variable is not initialised", {0xF0: "GNU_uninit"}),
    ("its operand is encoded as a pointer of exception handling data", {0xF1: "GNU_encoded_addr"}),
    ("its type is that of a scalable vector, and an unwind rule's is an address", {0xEA: "AARCH64_operation"}),
)

MEANINGLESS: dict[int, tuple[str, str]] = {
    opcode: (f"DW_OP_{name}", reason) for reason, names in _REJECTED for opcode, name in names.items()
}
"""Every other known operator, by opcode: its name, and why it has no meaning here."""
