"""The modules of a minidump, and how far their files were moved.

A module's range begins where the file was mapped first (Breakpad's writers on Linux take its lowest mapping), so its first
byte is the file's unless the mappings say otherwise. How far it was moved only the file's headers tell: in the dumped
memory, which seldom holds them, or in the file itself, which is therefore opened at once. Without either, the
difference is taken to be the module's beginning, as it is for everything but programs at fixed addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from clew.arch import Machine
from clew.errors import Error, Problem
from clew.image import Image
from clew.memory import Mapping, Memory
from clew.target.loaded_file import bias_of, reaches, read_loaded_file
from clew.target.minidump.records import CodeView, ModuleRecord
from clew.target.model import Module
from clew.target.module_files import ModuleFiles, opened
from clew.target.parts import mapping_at

MAXIMUM_MODULES = 1 << 14
"""How many modules are taken. Each may have its file looked for in several places."""

_HASHED = 4096


def minidump_modules(
    records: Sequence[ModuleRecord],
    mappings: Sequence[Mapping],
    memory: Memory,
    machine: Machine,
    files: ModuleFiles,
    report: Callable[[Problem], None],
) -> list[Module]:
    """What was loaded. ``memory`` is what the dump itself holds; the mappings are sorted, or none."""
    modules = []
    limit = 1 << machine.bits
    if len(records) > MAXIMUM_MODULES:
        report(Problem(f"of {len(records)} modules, {MAXIMUM_MODULES} are taken"))
    for index, record in enumerate(records[:MAXIMUM_MODULES]):
        if not record.size or record.base + record.size > limit:
            report(Problem(f"the module {record.name!r} is left out: {record.size:#x} bytes at {record.base:#x}"))
            continue
        modules.append(_module(record, index == 0, mappings, memory, machine, files))
    return modules


def _module(
    record: ModuleRecord,
    main: bool,
    mappings: Sequence[Mapping],
    memory: Memory,
    machine: Machine,
    files: ModuleFiles,
) -> Module:
    code_view = record.code_view
    build_id = code_view.build_id if code_view is not None else None
    first = mapping_at(mappings, record.base)
    offset = first.offset + record.base - first.start if first is not None and first.path.startswith("/") else 0
    start, end, name = record.base, record.base + record.size, record.name or f"<unknown at {record.base:#x}>"
    loaded = read_loaded_file(memory, start) if offset == 0 else None
    if loaded is not None and build_id is None:
        build_id = loaded.build_id
    opener = partial(
        files.open,
        record.name,
        build_id,
        main=main,
        loaded=(memory, start) if loaded is not None else None,
        check=partial(_misfit, record, offset, build_id is not None),
    )
    stored = _debug_id(record, machine)
    if loaded is not None:
        return Module(name, start, end, loaded.bias, build_id, opener, stored)
    found: Image | Error
    try:
        found = opener()
    except Error as error:
        found = error
    bias = bias_of(found, start, offset) if isinstance(found, Image) else None
    bias = start - offset if bias is None else bias
    return Module(name, start, end, bias, build_id, partial(opened, found), stored)


def _debug_id(record: ModuleRecord, machine: Machine) -> tuple[str, str] | None:
    """What the module's symbol file is found by: the name of its debug file, and the id."""
    if record.code_view is None or not any(record.code_view.identity):
        return None
    found = record.code_view.debug_id(machine.byte_order)
    return None if found is None else (record.code_view.file or record.name, found)


def _misfit(record: ModuleRecord, offset: int, known: bool, image: Image) -> str | None:
    """Why a file is not the one that was loaded, as far as the dump tells, or None."""
    bias = bias_of(image, record.base, offset)
    if bias is None:
        return "has no segment where one is mapped"
    if known and image.build_id is not None:
        return None
    if record.code_view is not None and record.code_view.kind == "pdb70" and any(record.code_view.identity):
        return _other_identity(record.code_view, image)
    end = record.base + record.size
    return None if reaches(image, bias, end, (record.base, end, offset)) else "is smaller than what was loaded"


def _other_identity(code_view: CodeView, image: Image) -> str | None:
    """Why a file has not the identity that Breakpad made of it before records held build ids, or None.

    It is the first 16 bytes of the build id, zeros where that is shorter; without one, the first page of the code, its
    pieces of 16 bytes combined by exclusive or.
    """
    own = image.build_id
    if own is None:
        own = _hash_of_code(image)
    if own is None or own[:16].ljust(16, b"\0") == code_view.identity:
        return None
    return f"has the identity {own[:16].hex()}, but what was loaded has {code_view.identity.hex()}"


def _hash_of_code(image: Image) -> bytes | None:
    for section in image.sections:
        if section.name == ".text" and section.has_data:
            try:
                code = bytes(section.data[:_HASHED])
            except Error:
                return None
            combined = 0
            for at in range(0, len(code) - 15, 16):
                combined ^= int.from_bytes(code[at : at + 16], "little")
            return combined.to_bytes(16, "little")
    return None
