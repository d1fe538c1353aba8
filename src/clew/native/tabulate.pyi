import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from clew.native.entries import Entries
from clew.native.program import Interpreter

class Tabulator(Interpreter):
    overlaps: bool
    failed: list[int]
    problems: list[tuple[int, str]]
    problem_count: int
    def __init__(
        self,
        entries: Entries,
        data: Buffer,
        dialect: int,
        order: npt.NDArray[np.int64] | None,
        note_first: bool = False,
    ) -> None: ...
    def run(
        self,
    ) -> tuple[
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint32] | None,
        npt.NDArray[np.uint32],
    ]: ...
    def rules_of_rows(self) -> npt.NDArray[np.uint32]: ...
