"""Compiled unwinders: what a Table becomes before it becomes C or machine code, and where the result is put."""

from clew.write.compiled.abi import FULL, PAPER, Abi, AbiName, Information, Outcome, abi_of
from clew.write.compiled.files import find_compiled, read_information
from clew.write.compiled.planning import Body, Plan, plan

__all__ = [
    "FULL",
    "PAPER",
    "Abi",
    "AbiName",
    "Body",
    "Information",
    "Outcome",
    "Plan",
    "abi_of",
    "find_compiled",
    "plan",
    "read_information",
]
