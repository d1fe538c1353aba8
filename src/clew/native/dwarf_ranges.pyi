import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

class RangeReader:
    count: int
    budget: int
    address_size: int
    offset_size: int
    base: int
    addr_base: int
    rnglists_base: int
    ranges_base: int
    def __init__(
        self,
        ranges: Buffer,
        rnglists: Buffer,
        addresses: Buffer,
        big: bool,
        code_start: npt.NDArray[np.uint64],
        code_end: npt.NDArray[np.uint64],
    ) -> None: ...
    def clear(self) -> None: ...
    def columns(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]: ...
    def list_at(self, form: int, value: int, version: int) -> None: ...
    def add_range(self, low: int, high: int) -> None: ...
    def address_of(self, index: int) -> int: ...
