import numpy as np
import numpy.typing as npt

NOWHERE: int
KERNEL: int
ALONE: int

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

class FrameNumbers:
    def __init__(self, odd: int, big: bool) -> None: ...
    def __len__(self) -> int: ...
    def known(self, since: int) -> tuple[U32, U64]: ...
    def samples(
        self,
        data: memoryview,
        space: U32,
        chained: U8,
        misc: U16,
        ip: U64,
        chain_offset: U64,
        chain_count: U32,
        first: U32,
        size: U32,
        pc: U64,
        exact: U8,
        cut: U8,
        most: int,
    ) -> tuple[U64, U32, U8]: ...
