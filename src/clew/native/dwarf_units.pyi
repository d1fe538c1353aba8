import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

NONE: int
ROOT_ATTRIBUTES: tuple[str, ...]

class UnitTable:
    info: Buffer
    big: bool
    count: int
    problems: list[tuple[int, str]]
    def __init__(self, info: Buffer, abbrev: Buffer, big: bool) -> None: ...
    def unit_at(self, offset: int) -> int: ...
    def header(self, unit: int) -> tuple[int, int, int, int, int, int, int]: ...
    def root_of(self, unit: int) -> list[tuple[int, int] | None]: ...
    def columns(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]: ...
