"""The unwind table and what it is made of. Knows no file format.

.. code-block:: text

    Table = rows    start (u8, sorted), rule (u4: index of the rule in force from there on)
          + ranges  start, end, entry, source, LSDA, personality: one per function
          + rules   the different ones; a few hundred immutable objects
"""

from clew.table.build import merge, no_ranges, table_of
from clew.table.compare import Difference, compare, differ, meaning
from clew.table.evaluate import UnknownRegisterError, UnreadableMemoryError, evaluate
from clew.table.expression import Expression, Operation
from clew.table.normalise import normalise
from clew.table.rule import (
    NO_INFORMATION,
    Architectural,
    AtCfa,
    AtExpression,
    CfaExpression,
    CfaPlus,
    InRegister,
    InvalidExpression,
    IsExpression,
    RegisterPlus,
    RegisterRule,
    Rule,
    SameValue,
    Signing,
    Undefined,
)
from clew.table.rules import RuleColumns, Rules
from clew.table.table import Range, RangeColumns, Ranges, Row, Table

__all__ = [
    "NO_INFORMATION",
    "Architectural",
    "AtCfa",
    "AtExpression",
    "CfaExpression",
    "CfaPlus",
    "Difference",
    "Expression",
    "InRegister",
    "InvalidExpression",
    "IsExpression",
    "Operation",
    "Range",
    "RangeColumns",
    "Ranges",
    "RegisterPlus",
    "RegisterRule",
    "Row",
    "Rule",
    "RuleColumns",
    "Rules",
    "SameValue",
    "Signing",
    "Table",
    "Undefined",
    "UnknownRegisterError",
    "UnreadableMemoryError",
    "compare",
    "differ",
    "evaluate",
    "meaning",
    "merge",
    "no_ranges",
    "normalise",
    "table_of",
]
