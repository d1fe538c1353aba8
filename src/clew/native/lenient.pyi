from typing_extensions import Buffer

from clew.native.cursor import Cursor

UNENDED: int
OVERSIZED: int
CUT: int

class Lenient(Cursor):
    address: int
    address_size: int
    def __init__(self, data: Buffer, address: int, address_size: int, big: bool) -> None: ...
