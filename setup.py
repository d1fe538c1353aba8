"""Builds the compiled core: Cython's pure-Python mode, bounds checks on, one abi3 module a file.

Every extension is optional: without a C compiler the same files run uncompiled (slower, same answers).
``CLEW_NO_CORE=1`` in the environment leaves them out on purpose.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
}

NATIVE = Path("src/clew/native")

extensions = [
    Extension(
        f"clew.native.{source.stem}",
        [str(source)],
        py_limited_api=True,
        define_macros=[("Py_LIMITED_API", "0x030b0000")],
        extra_compile_args=["-O3", "-g1", "-fno-semantic-interposition", "-fno-plt", "-Wno-unused-function"],
        optional=True,
    )
    for source in sorted(NATIVE.glob("*.py"))
    if not source.stem.startswith("_") and not os.environ.get("CLEW_NO_CORE")
]

setup(
    ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, show_all_warnings=False),
    options={"bdist_wheel": {"py_limited_api": "cp311"}, "build_ext": {"parallel": os.cpu_count()}},
)
