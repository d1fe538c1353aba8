from typing_extensions import Buffer

from clew.native.cursor import Cursor

class Pointers(Cursor):
    address: int
    address_size: int
    def __init__(
        self,
        data: Buffer,
        address: int,
        big: bool,
        address_size: int,
        text_base: int | None = None,
        data_base: int | None = None,
    ) -> None: ...
    def read_encoded(self, encoding: int, size: int = 0) -> int: ...
