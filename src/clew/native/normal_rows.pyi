import numpy as np
import numpy.typing as npt

def normal_rows(
    start: npt.NDArray[np.uint64], rule: npt.NDArray[np.uint32], padding: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]: ...
