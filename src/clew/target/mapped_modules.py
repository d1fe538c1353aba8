"""Modules from a list of mapped files: ``/proc/PID/maps``, or ``NT_FILE`` of a core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from clew.errors import Error
from clew.image import Image
from clew.memory import BytesMemory, Mapping, Memory
from clew.target.loaded_file import LoadedFile, bias_of, reaches, read_loaded_file
from clew.target.model import Module
from clew.target.module_files import ModuleFiles, opened

_MAXIMUM_VDSO = 1 << 17

More = Callable[[Sequence[Mapping]], Sequence[str]]
"""Further places where the file behind some mappings can be opened."""


def mapped_modules(
    mappings: Sequence[Mapping],
    memory: Memory,
    files: ModuleFiles,
    is_main: Callable[[int, int, str], bool],
    more: More = lambda members: (),
) -> list[Module]:
    """The modules that mappings make up: files of which code is mapped.

    A file may be loaded more than once; its program headers in memory tell which mappings belong together.

    Args:
        mappings: sorted by address.
        is_main: whether the module with these addresses and this path is the program.
    """
    by_path: dict[str, list[Mapping]] = {}
    for mapping in mappings:
        # Other names in brackets are no files; shared memory and devices hold no code that was loaded.
        if mapping.path.startswith("/") and not mapping.path.startswith(("/dev/", "/SYSV")):
            by_path.setdefault(mapping.path, []).append(mapping)
    modules: list[Module] = []
    for path, members in by_path.items():
        if not any(member.executable for member in members):
            continue
        for loaded, group in _groups(members, memory):
            if any(member.executable for member in group):
                main = is_main(group[0].start, max(member.end for member in group), path)
                modules.append(_module(path, loaded, group, memory, files, main, more))
    return modules


def _groups(members: list[Mapping], memory: Memory) -> Iterator[tuple[LoadedFile | None, list[Mapping]]]:
    """The mappings of one file, those of one loading together."""
    index = 0
    while index < len(members):
        first = members[index]
        loaded = read_loaded_file(memory, first.start) if first.offset == 0 else None
        end = index + 1
        if loaded is not None:
            while end < len(members) and members[end].start < loaded.end:
                end += 1
        else:
            # Without its headers: as far as the offsets rise.
            while end < len(members) and members[end].offset > members[end - 1].offset:
                end += 1
        yield loaded, members[index:end]
        index = end


def _module(
    path: str,
    loaded: LoadedFile | None,
    group: list[Mapping],
    memory: Memory,
    files: ModuleFiles,
    main: bool,
    more: More,
) -> Module:
    start, end = group[0].start, max(member.end for member in group)
    build_id = loaded.build_id if loaded is not None else None
    opener = partial(
        files.open,
        path,
        build_id,
        main=main,
        more=more(group),
        loaded=(memory, start) if loaded is not None else None,
        check=partial(_misfit, group, loaded.bias if loaded is not None else None),
    )
    if loaded is not None:
        return Module(path, start, end, loaded.bias, build_id, opener)
    # Only the file knows how far it was moved.
    found: Image | Error
    try:
        found = opener()
    except Error as error:
        found = error
    bias = None if isinstance(found, Error) else _bias_by_offsets(found, group)
    return Module(path, start, end, start - group[0].offset if bias is None else bias, None, partial(opened, found))


def _bias_by_offsets(image: Image, group: Sequence[Mapping]) -> int | None:
    """How far a file was moved, given which parts of it are where; None where it is not this file."""
    for mapping in sorted(group, key=lambda each: not each.executable):
        bias = bias_of(image, mapping.start, mapping.offset, code=mapping.executable)
        if bias is not None:
            return bias
    return None


def _misfit(group: Sequence[Mapping], bias: int | None, image: Image) -> str | None:
    """Why a file is not the one that is mapped so, or None."""
    if bias is None:
        return None if _bias_by_offsets(image, group) is not None else "has no segment where one is mapped"
    if image.build_id is not None:
        return None
    # Without a build id, at least its code has to be where code is.
    if bias_of(image, group[0].start) != bias:
        return "does not begin where it is mapped"
    edges = [edge for each in group for edge in (each.start, each.end, each.offset)]
    whole = reaches(image, bias, max(each.end for each in group), edges)
    return None if whole else "is smaller than what is mapped of it"


def vdso_module(memory: Memory, base: int) -> Module | None:
    """The code that the kernel puts into every process, read from memory; None where there is none at ``base``."""
    loaded = read_loaded_file(memory, base)
    if loaded is None:
        return None
    size = loaded.end - base
    # It has no file, so its few pages are kept: its table and its names can be asked for when the target is gone.
    data = memory.read(base, size) if size <= _MAXIMUM_VDSO else None
    kept = BytesMemory(data, base) if data is not None else memory
    opener = partial(Image.from_memory, kept, base, "[vdso]")
    return Module("[vdso]", base, loaded.end, loaded.bias, loaded.build_id, opener)
