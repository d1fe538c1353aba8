import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.pointers import Pointers

MOST_PROBLEMS: int

class CieRecord:
    offset: int
    end: int
    program: int
    address_size: int
    segment_size: int
    version: int
    fde_encoding: int
    lsda_encoding: int
    personality_encoding: int
    sized: bool
    signal: bool
    key_b: bool
    tagged: bool
    opaque: bool
    code_alignment: int
    data_alignment: int
    personality: int
    return_address: int
    augmentation: bytes
    augmentation_data: bytes
    error: str | None

class Entries(Pointers):
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
