"""Where ``doctor`` says that a module's symbols and lines come from, why other places did not serve, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clew.symbols.debug_links import alternate_link
from clew.symbols.found import merged

if TYPE_CHECKING:
    from clew.cli.doctor_modules import ModuleFacts, Tried
    from clew.image import Image

#: Places that are listed of each module, unless all are asked for.
_MOST = 4

_SERVERS = "set DEBUGINFOD_URLS, for example to https://debuginfod.elfutils.org"


def debug_rows(facts: ModuleFacts, *, every: bool) -> Iterator[tuple[str, str]]:
    """What is printed of a module's lines, and of the places that did not serve, by headings.

    Args:
        every: whether all places are listed, and also those of modules that have everything.
    """
    debug = facts.debug
    if debug is None:
        return
    if debug.dwarf is None:
        yield "lines", "none"
    else:
        where = "" if debug.dwarf.name == facts.file else f" of {debug.dwarf.name}"
        common = "" if debug.alternate is None else f", with {debug.alternate.name}"
        missing = ", without its supplementary file" if facts.lacks_supplement else ""
        yield "lines", f"{dwarf_section(debug.dwarf)}{where}{common}{missing}"
    if debug.symbol_file is not None:
        yield "", f"symbol file {debug.symbol_file}"
    tried = debug.tried if every else merged(_vain(facts))
    shown = tried if every else tried[:_MOST]
    yield from (("", f"{path}: {reason}") for path, reason in shown)
    if len(tried) > len(shown):
        yield "", f"and {len(tried) - len(shown):,} more: --all lists them"
    if debug.dwarf is None:
        yield "", f"→ {lines_advice(facts)}"


def lines_advice(facts: ModuleFacts) -> str:
    """What to do so that a module has lines."""
    image = facts.module.image
    if facts.build_id is None and (image is None or image.section(".gnu_debuglink") is None):
        return "compile it with -g, and link it with -Wl,--build-id: nothing says which debug file is its own"
    # What was stripped had more once, and mostly somebody has it.
    stripped = not any(source.file == facts.file and source.section == ".symtab" for source in facts.symbols)
    package = "install its debug package (NAME-dbgsym or NAME-dbg of Debian and Ubuntu, NAME-debuginfo of Fedora)"
    directory = "name the directory of its debug file with --debug-dir"
    return f"{package}, or {directory}{servers_advice(facts)}" if stripped else f"compile it with -g, or {directory}"


def servers_advice(facts: ModuleFacts) -> str:
    """What to add to advice, as long as no server is named."""
    return "" if facts.servers or facts.build_id is None else f", or {_SERVERS}"


def dwarf_section(image: Image) -> str:
    """The section for which a file counts as one with DWARF."""
    section = image.section(".debug_info") or image.section(".debug_line")
    return "none" if section is None else section.name


def debug_json(facts: ModuleFacts) -> dict[str, Any]:
    """The same as JSON values."""
    debug = facts.debug
    if debug is None:
        return {}
    out: dict[str, Any] = {}
    if debug.symbols_tried:
        out["debug_file"] = {"found": debug.symbols is not None}
        if debug.symbols is not None:
            out["debug_file"]["path"] = debug.symbols.name
        out["debug_file"] |= tried_json(debug.symbols_tried)
    lines: dict[str, Any] = {"found": debug.dwarf is not None}
    if debug.dwarf is None:
        lines["advice"] = lines_advice(facts)
    else:
        lines |= {"path": debug.dwarf.name, "section": dwarf_section(debug.dwarf)}
        if debug.alternate is not None or facts.lacks_supplement:
            lines["supplement"] = {"found": debug.alternate is not None}
            if debug.alternate is not None:
                lines["supplement"]["path"] = debug.alternate.name
            lines["supplement"] |= tried_json(debug.alternate_tried)
    out["lines"] = lines | tried_json(debug.dwarf_tried)
    if debug.symbol_file is not None or debug.symbol_file_tried:
        out["symbol_file"] = {"found": debug.symbol_file is not None}
        if debug.symbol_file is not None:
            out["symbol_file"]["path"] = debug.symbol_file
        out["symbol_file"] |= tried_json(debug.symbol_file_tried)
    return out


def tried_json(tried: Tried) -> dict[str, Any]:
    """Places that did not serve, where there are any."""
    return {"tried": [{"path": path, "reason": reason} for path, reason in tried]} if tried else {}


def lacks_supplement(debug: Image | None, alternate: Image | None) -> bool:
    """Whether DWARF refers to a supplementary file that was not found."""
    return debug is not None and alternate is None and alternate_link(debug) is not None


def _vain(facts: ModuleFacts) -> Tried:
    """The places that did not serve, of what was not found anywhere."""
    debug = facts.debug
    if debug is None:
        return ()
    found: Tried = ()
    if debug.symbols is None:
        found += debug.symbols_tried
    if debug.dwarf is None:
        found += debug.dwarf_tried
    if facts.lacks_supplement:
        found += debug.alternate_tried
    # A symbol file has symbols and lines both; where there are others, it is not missed.
    return found + debug.symbol_file_tried if found and debug.symbol_file is None else found
