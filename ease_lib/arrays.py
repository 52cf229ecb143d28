"""Types of arrays, by what they hold. Docstrings say the shapes."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
"""Of whatever precision."""
IntArray = NDArray[np.integer]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
