"""Types of arrays. Docstrings give the shapes."""

import numpy as np

np.ndarray  # noqa: B018  # DSPy puts a stand-in for numpy in sys.modules, and numpy.typing loads only behind the real one

from numpy.typing import NDArray  # noqa: E402

FloatArray = NDArray[np.floating]
"""A float array of any precision."""
IntArray = NDArray[np.integer]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
