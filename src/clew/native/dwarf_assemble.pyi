import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

class Assembler:
    functions: int
    lines: int
    inlines: int
    ranges: int
    def __init__(self, discriminators: bool = False) -> None: ...
    def add_unit(
        self,
        scopes: tuple[U64, U16, U32, U32, U32, U16],
        names: U32,
        low: U64,
        high: U64,
        rows: tuple[U64, U32, U32, U32 | None],
        file_map: U32,
    ) -> None: ...
    def function_columns(self) -> tuple[U64, U64, U32, U32, U32, U32, U32, U8]: ...
    def line_columns(self) -> tuple[U64, U32, U32, U32, U32 | None]: ...
    def inline_columns(self) -> tuple[U16, U32, U32, U32, U32, U64, U64]: ...
