import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

WHOLE: int
PART: int
OUTSIDE: int
UNNESTED: int

class Nests:
    def __init__(self, depth: U16, first_range: U32, address: U64, last: U64) -> None: ...
    def cut(self, first: U32, end: U32, low: U64, high: U64) -> tuple[U32, U32, U32, U32, U64, U64]: ...
    def unsorted(self) -> U8: ...
    def flaws(self) -> U8: ...
