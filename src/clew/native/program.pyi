from typing_extensions import Buffer

from clew.native.cies import CieRecord
from clew.native.entries import Entries
from clew.native.expressionbook import ExpressionBook
from clew.native.pointers import Pointers
from clew.native.rulebook import Rulebook

GENERIC: int
AARCH64: int
SPARC: int
MIPS: int

class Interpreter(Pointers):
    rules: Rulebook
    expressions: ExpressionBook
    location: int
    args_size: int
    def __init__(self, entries: Entries, data: Buffer, dialect: int, rows: int) -> None: ...
    def begin(self, record: CieRecord, index: int, start: int) -> int: ...
    def step(self, at: int, end: int, rule: int) -> int: ...
