from typing_extensions import Buffer

from clew.native.entries import Entries
from clew.native.pointers import Pointers

class Census(Pointers):
    counts: memoryview
    broken: int
    def __init__(self, entries: Entries, data: Buffer) -> None: ...
