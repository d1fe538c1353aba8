"""Builds the compiled core: Cython's pure-Python mode, bounds checks on, one abi3 module a file; and the in-process library.

Every extension is optional: without a C compiler the same files run uncompiled (slower, same answers), and there is no
in-process library. ``CLEW_NO_CORE=1`` in the environment leaves them out on purpose.
"""

import os
import runpy
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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

if not os.environ.get("CLEW_NO_CORE"):
    # The one in C: it walks by the headers that the in-process library and the kernel's program share.
    folder = NATIVE / "extension"
    extensions.append(
        Extension(
            "clew.native.packed_walk",
            [str(folder / "packed_walk.c"), str(folder / "packed_walk_module.c")],
            depends=[str(header) for header in [*NATIVE.glob("*.h"), *folder.glob("*.h")]],
            py_limited_api=True,
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-std=c11", "-O2", "-g1", "-Wall", "-Wextra", "-Wno-missing-field-initializers"],
            optional=True,
        )
    )


class BuildAll(build_ext):
    """Builds the in-process library beside the extensions."""

    def run(self) -> None:
        super().run()
        if os.environ.get("CLEW_NO_CORE") or not sys.platform.startswith("linux"):
            return
        directory = NATIVE if self.inplace else Path(self.build_lib) / "clew" / "native"
        try:
            runpy.run_path(str(NATIVE / "unwind" / "compile.py"))["build"](directory)
        except RuntimeError as error:
            print(f"without the in-process library: {error}", file=sys.stderr)


setup(
    cmdclass={"build_ext": BuildAll},
    ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, show_all_warnings=False),
    options={"bdist_wheel": {"py_limited_api": "cp311"}, "build_ext": {"parallel": os.cpu_count()}},
)
