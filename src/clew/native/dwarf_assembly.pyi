import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

class Assembly:
    functions: int
    lines: int
    inlines: int
    ranges: int
    def __init__(self, discriminators: bool = False, most: int = 0) -> None: ...
    def function_columns(self) -> tuple[U64, U64, U32, U32, U32, U32, U32, U8]: ...
    def line_columns(self) -> tuple[U64, U32, U32, U32, U32 | None]: ...
    def inline_columns(self) -> tuple[U16, U32, U32, U32, U32, U64, U64]: ...
