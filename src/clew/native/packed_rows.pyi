from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

PAGE_BITS: int
BUCKET_BITS: int
ROW_PADDING: int
PAGE_BUCKETS: int

def pages_of(size: int) -> int: ...
def tally(rule: npt.NDArray[np.uint32], first: int, last: int, count: npt.NDArray[np.uint64]) -> None: ...

class RowPacker:
    def __init__(
        self,
        start: npt.NDArray[np.uint64],
        rule: npt.NDArray[np.uint32],
        number: npt.NDArray[np.uint32],
        rows: int,
        sizes: Iterable[int],
    ) -> None: ...
    def pack(self, first: int, address: int, size: int) -> None: ...
    def columns(
        self,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16], npt.NDArray[np.uint32], list[tuple[int, int]]]: ...
