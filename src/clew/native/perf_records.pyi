from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

DONE: int
FULL: int
STOPPED: int
BROKEN: int
MOST_PROBLEMS: int
NONE: int
SAMPLE_COLUMNS: tuple[tuple[str, str], ...]
RECORD_COLUMNS: tuple[tuple[str, str], ...]

class Splitter:
    at: int
    sample_count: int
    record_count: int
    problem_count: int
    unknown: int
    problems: list[tuple[int, str]]
    def __init__(
        self,
        events: Sequence[int] | npt.NDArray[np.uint64],
        ids: Sequence[int] | npt.NDArray[np.uint64],
        owners: Sequence[int] | npt.NDArray[np.uint32],
        big: bool,
        wanted: Iterable[int],
        stops: Iterable[int],
        samples: bool,
        room: int,
    ) -> None: ...
    def split(self, data: Buffer, begin: int, end: int) -> int: ...
    def columns(self) -> tuple[dict[str, npt.NDArray[np.generic]], dict[str, npt.NDArray[np.generic]]]: ...
    def release(self) -> None: ...
