import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.cies import CieReader, CieRecord

MOST_PROBLEMS: int

class Entries(CieReader):
    eh: bool
    cies: list[CieRecord]
    problems: list[tuple[int, str]]
    problem_count: int
    terminators: list[tuple[int, int]]
    count: int
    rising: bool
    empty: int
    program_bytes: int
    least: int
    most: int
    columns: tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32],
        npt.NDArray[np.int32],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
    ]
    def __init__(
        self,
        data: Buffer,
        address: int,
        eh: bool,
        big: bool,
        address_size: int,
        text_base: int | None = None,
        data_base: int | None = None,
    ) -> None: ...
