import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

def kernel_symbols(text: bytes) -> tuple[U64, U64, U64]: ...
