import numpy as np
import numpy.typing as npt

class Overlay:
    def __init__(
        self,
        start: npt.NDArray[np.uint64],
        stop: npt.NDArray[np.uint64],
        first: npt.NDArray[np.uint32],
        row_start: npt.NDArray[np.uint64],
        row_rule: npt.NDArray[np.uint32],
        row_args: npt.NDArray[np.uint32],
    ) -> None: ...
    def run(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
