"""Where the DWARF of split units is: in a package beside the program, ``FILE.dwp``, or in a ``.dwo`` file for each unit.

The program has only skeletons, which name the files (DWARF 5, section 7.3.2; before that, gcc's and clang's
``-gsplit-dwarf``). Compilers write the ``.dwo`` beside the object file; ``dwp`` collects them (section 7.3.5).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from clew.errors import Error
from clew.image import Image
from clew.symbols.debug_checks import cut
from clew.symbols.found import DebugFile, Tried

Accept = Callable[[Image], str | None]
"""Says why a file is not the one, or None where it is."""


def find_split_package(
    images: Sequence[Image], directories: Iterable[str] = (), *, path: str | None = None
) -> DebugFile:
    """The package with all split units of a program, and the paths that did not serve.

    Whether a unit in it is the one of a skeleton, their ids tell.

    Args:
        images: the program, and its debug file if there is another.
        directories: where debug files are installed.
        path: where the program was when it ran, if that is another place than now.
    """
    names = [name for image in images for name in (image.name, _real(image.name))]
    # Of a.debug and of a there is one package, a.dwp.
    names += [name.removesuffix(".debug") for name in names]
    ran_as = [os.path.normpath("/" + name.lstrip("/")) for name in ([path] if path else dict.fromkeys(names))]
    places = [place for whole in ran_as for place in (whole, f"/{os.path.basename(whole)}")]
    names += [f"{directory}{place}" for directory in directories for place in places]
    return _first((f"{name}.dwp" for name in names), _package)


def find_split_file(
    name: str,
    directory: str | None,
    images: Sequence[Image],
    directories: Iterable[str] = (),
    *,
    accept: Accept | None = None,
) -> DebugFile:
    """The ``.dwo`` file of a split unit, and the paths that did not serve.

    Args:
        name: its name in the skeleton, ``DW_AT_dwo_name``: absolute, or from the directory of the compilation.
        directory: that directory, ``DW_AT_comp_dir``, if it is known.
        images: the program, and its debug file if there is another: the file may have been moved with them.
        directories: where else to look: for the whole path under them, and for its last part.
        accept: what else tells whether a file is the one, such as the id of the unit in it.
    """

    def wrong(image: Image) -> str | None:
        return _split(image) or (accept(image) if accept is not None else None)

    return _first(_paths(name, directory or "", images, directories), wrong)


def _paths(name: str, directory: str, images: Sequence[Image], directories: Iterable[str]) -> Iterator[str]:
    last = os.path.basename(name)
    if last in ("", ".", ".."):
        return
    whole = os.path.join(directory, name)
    folders = list(dict.fromkeys(os.path.dirname(each) for image in images for each in (image.name, _real(image.name))))
    if whole.startswith("/"):
        yield os.path.normpath(whole)
    else:
        # From a directory that is not known, or relative itself: then it was relative to where the program was built.
        yield from (os.path.normpath(os.path.join(folder, whole)) for folder in folders)
    for folder in folders:
        if not name.startswith("/"):
            yield os.path.normpath(os.path.join(folder, name))
        yield os.path.join(folder, last)
    for each in directories:
        yield f"{each}{os.path.normpath('/' + whole.lstrip('/'))}"
        yield f"{each}/{last}"


def _first(paths: Iterable[str], wrong: Accept) -> DebugFile:
    """The first file that serves."""
    tried: list[Tried] = []
    for path in dict.fromkeys(paths):
        try:
            image = Image.open(path)
        except Error as error:
            tried.append(Tried(path, error.message))
            continue
        try:
            reason = wrong(image)
        except Error as error:
            reason = error.message
        if reason is None:
            return DebugFile(image, tuple(tried))
        tried.append(Tried(path, reason))
        image.close()
    return DebugFile(None, tuple(tried))


def _package(image: Image) -> str | None:
    if image.section(".debug_cu_index") is None and image.section(".debug_tu_index") is None:
        return cut(image) or "is no package: it has no index of units"
    return cut(image)


def _split(image: Image) -> str | None:
    if image.section(".debug_info.dwo") is None and image.section(".debug_types.dwo") is None:
        return cut(image) or "has no split units"
    return cut(image)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
