from typing_extensions import Buffer

from clew.native.cursor import Cursor

class LineProgram(Cursor):
    version: int
    width: int
    address_size: int
    min_instruction: int
    most_operations: int
    line_range: int
    line_base: int
    opcode_base: int
    lengths: int
    tables: int
    program: int
    unit_end: int
    cut: bool
    def __init__(self, data: Buffer, big: bool = False) -> None: ...
