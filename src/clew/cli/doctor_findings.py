"""What is wrong with a target's stacks, and what to do about each thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.cli.doctor_debug import servers_advice
from clew.cli.doctor_stacks import file_key
from clew.walk.model import End

if TYPE_CHECKING:
    from clew.cli.doctor_modules import ModuleFacts, Tried
    from clew.cli.doctor_stacks import Broken, Observed
    from clew.cli.stack_names import FrameName
    from clew.target import Target

_BY_END = {
    End.NULL_RETURN_ADDRESS: (
        "null_return_address",
        "the return address is 0",
        "the stack was overwritten, or its outermost function (assembly, a coroutine) should say "
        ".cfi_undefined of the return address",
    ),
    End.NO_PROGRESS: (
        "no_progress",
        "the caller's frame is one that was walked already, or lies below it",
        "the stack was overwritten, or this function's row is wrong: `clew stack --why` shows the rule and what was read",
    ),
    End.LIMIT: (
        "limit",
        "the stack has more frames than were walked",
        "look for recursion without end: the function that repeats is in `clew stack`; raise --limit there to see all",
    ),
    End.STACK_COPY_END: (
        "stack_copy_end",
        "the stack goes on behind what was copied of it",
        "record a larger part: perf record --call-graph dwarf,65528",
    ),
    End.UNKNOWN_REGISTER: (
        "unknown_register",
        "the rule needs a register that is not known any more",
        "the row of this function, or of one that it called, is wrong: `clew stack --why --registers` shows where it got lost",
    ),
    End.BAD_RULE: (
        "bad_rule",
        "the row makes no sense here",
        "build the module again with a newer toolchain; `clew explain` shows the row and the instructions that made it",
    ),
}


@dataclass(slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: what, in a word.
        message: what, in a sentence.
        advice: what to do about it.
        module, function, address: where, as far as known; the address is the file's own, or the pc where there is no file.
        stacks: how many stacks end because of it.
        threads: whose those are.
        tried: paths that did not serve, where that is the point.
    """

    kind: str
    message: str
    advice: str
    module: str | None = None
    function: str | None = None
    address: int | None = None
    stacks: int = 0
    threads: list[int] = field(default_factory=list)
    tried: Tried = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values; what is absent is unknown."""
        out: dict[str, Any] = {"kind": self.kind, "message": self.message, "advice": self.advice}
        out |= {key: value for key in ("module", "function") if (value := getattr(self, key)) is not None}
        if self.address is not None:
            out["address"] = f"{self.address:#x}"
        if self.stacks:
            out["stacks"], out["threads"] = self.stacks, self.threads
        if self.tried:
            out["tried"] = [{"path": path, "reason": reason} for path, reason in self.tried]
        return out


def findings(target: Target, observed: Observed, modules: Sequence[ModuleFacts]) -> list[Finding]:
    """What is wrong: what ends stacks first, then what is wrong with modules that they go through.

    Args:
        target: what was walked, or one of the samples' processes.
        modules: what is known of the modules, see :func:`clew.cli.doctor_modules.examine`.
    """
    found: dict[tuple[str, str | None, str | None, int | None], Finding] = {}
    facts = {each.module: each for each in modules}
    for broken in observed.broken.values():
        module = broken.module
        use = None if module is None else observed.uses.get(file_key(module))
        finding = _of_end(target, broken, None if use is None else facts.get(use.module))
        # Of a module without a file, or without a table, the addresses say nothing.
        place = finding.address if finding.function is None else None
        kept = found.setdefault((finding.kind, finding.module, finding.function, place), finding)
        kept.stacks += broken.count
        kept.threads = list(dict.fromkeys([*kept.threads, *broken.threads]))
    ended = sorted(found.values(), key=lambda each: -each.stacks)
    known = {(each.kind, each.module) for each in ended}
    beside = (finding for each in modules for finding in _of_module(target, each))
    return ended + [finding for finding in beside if (finding.kind, finding.module) not in known]


def _of_end(target: Target, broken: Broken, facts: ModuleFacts | None) -> Finding:
    """Why stacks are not whole."""
    end, name = broken.end, broken.name
    if end is End.NO_RULE and facts is not None:
        if facts.file is None:
            return _missing_file(target, facts)
        if facts.module.table is None:
            return _no_table(facts)
        function = name.function or f"the code at {name.address:#x}"
        return _located(
            name,
            "no_row",
            f"{function} has no row in the unwind table of {name.module}",
            "if it is C or C++, compile its file with -fasynchronous-unwind-tables; if it is assembly, "
            "add .cfi_startproc, .cfi_endproc and what moves the CFA between them",
        )
    if end is End.NO_MODULE:
        return _no_module(target, broken)
    # These say something of the recording, and nothing of the function where the stack ends.
    if end is End.STACK_COPY_END:
        return Finding(*_BY_END[end])
    if end is End.UNKNOWN_REGISTER and broken.innermost and target.kind == "sample":
        return Finding(
            "no_registers",
            "the samples have neither registers nor copies of the stack",
            "record them: perf record --call-graph dwarf",
        )
    if end is End.UNREADABLE_MEMORY:
        advice = "the stack was overwritten, or this row is wrong: `clew stack --why` shows the rule and what was read"
        if target.kind == "sample":
            advice = (
                "a recording has no memory but a part of the stack, and of files what nobody can write to: if the rule "
                "needs other memory, stop the process and walk that; else the stack was overwritten"
            )
        elif target.kind != "process":
            advice = (
                "if the file was cut short, raise `ulimit -c` and look for a full disk; else see what "
                "/proc/PID/coredump_filter leaves out; else the stack was overwritten"
            )
        return _located(name, "unreadable_memory", broken.detail, advice)
    kind, message, advice = _BY_END.get(
        end, (end.value, "the stack ends here", "`clew stack --why` shows how it was walked")
    )
    return _located(name, kind, broken.detail or message, advice)


def _located(name: FrameName, kind: str, message: str, advice: str) -> Finding:
    return Finding(kind, message, advice, name.module, name.function, name.address)


def _no_module(target: Target, broken: Broken) -> Finding:
    name, address = broken.name, broken.pc
    if name.function is not None:
        return Finding(
            "jit",
            f"{name.function} was made by a JIT compiler, and has no unwind table",
            "have the compiler keep frame pointers (java -XX:+PreserveFramePointer, node --interpreted-frames-native-stack)",
            function=name.function,
            address=address,
        )
    if target.kind not in ("process", "sample") and not len(target.modules):
        advice = "name the program with --exe; what else was loaded follows from it"
    elif broken.innermost:
        advice = "the program jumped there, through a bad pointer to a function, unless a JIT compiler made code there"
    else:
        advice = (
            "if a JIT compiler makes code there, have it keep frame pointers; else the stack was overwritten, or the "
            "row of the frame before is wrong"
        )
    return Finding("no_module", f"nothing that is loaded is at {address:#x}", advice, address=address)


def _of_module(target: Target, facts: ModuleFacts) -> Iterator[Finding]:
    """What is wrong with a module, whatever became of the stacks."""
    name = facts.module.name
    if facts.file is None:
        yield _missing_file(target, facts)
        return
    if facts.matches is False:
        yield Finding(
            "build_id_mismatch",
            f"{facts.file} has another build id than what was loaded as {name}",
            f"give the file with build id {_build_id(facts)}: frames that this one leads to may never have been",
            module=name,
        )
    if facts.replaced:
        yield Finding(
            "replaced",
            f"{name.removesuffix(' (deleted)')} was removed or replaced since the process started",
            "start the process again; until then, tools that open the file by its name see another one or none",
            module=name,
        )
    elif facts.from_memory and not facts.is_kernels:
        yield Finding(
            "from_memory",
            f"no file of {name} fits; what memory holds of it is used",
            f"{_where(target)}, or install the package whose file has build id {_build_id(facts)}",
            module=name,
        )
    table = facts.module.table
    if table is None:
        yield _no_table(facts)
    elif table.lost:
        yield Finding(
            "damaged_table",
            f"{table.lost:,} entries of the unwind table of {name} cannot be read",
            f"`clew table {facts.file}` says which; install the module again, or build it with a newer toolchain",
            module=name,
        )
    if facts.unnamed and not facts.is_kernels:
        addresses = ", ".join(f"{address:#x}" for address in facts.unnamed[:4])
        more = f" and {len(facts.unnamed) - 4:,} more" if len(facts.unnamed) > 4 else ""
        advice = "build it without -s and do not strip it"
        if facts.build_id is not None:
            advice = (
                f"install the debug package with build id {_build_id(facts)}, or name its directory with --debug-dir"
                f"{servers_advice(facts)}"
            )
        yield Finding(
            "no_symbols",
            f"no symbol names {addresses}{more} of {name}",
            advice,
            module=name,
            tried=facts.debug_tried,
        )
    if facts.debug is not None and facts.debug.dwarf is not None and facts.lacks_supplement:
        yield Finding(
            "no_supplement",
            f"the DWARF of {name} in {facts.debug.dwarf.name} refers to a supplementary file that was not found",
            "install its debug package whole, or name the directory that has .dwz/ with --debug-dir"
            f"{servers_advice(facts)}",
            module=name,
            tried=facts.debug.alternate_tried,
        )


def _missing_file(target: Target, facts: ModuleFacts) -> Finding:
    name = facts.module.name
    other = any("has build id" in reason for _, reason in facts.tried)
    if other:
        message = f"the file at the place of {name} is another build"
        kind = "build_id_mismatch"
    else:
        message = f"the file of {name} was not found"
        kind = "missing_file"
    if facts.replaced:
        message = f"{name.removesuffix(' (deleted)')} was removed or replaced since the process started"
        kind, advice = "replaced", "start the process again, or run clew as root, who may read the file that is mapped"
    else:
        advice = _where(target)
        if facts.module.build_id is not None:
            advice += f", or install the package whose file has build id {_build_id(facts)}"
    return Finding(kind, message, advice, module=name, tried=facts.tried)


def _where(target: Target) -> str:
    return (
        "give --debug-dir" if target.kind == "process" else "give --sysroot (or --exe for the program, or --debug-dir)"
    )


def _no_table(facts: ModuleFacts) -> Finding:
    name = facts.module.name
    image = facts.module.image
    trouble = facts.trouble
    message = f"{name} has no unwind table" + (f": {trouble.message}" if trouble is not None else "")
    if image is not None and image.section(".text") is not None and not image.code_ranges():
        advice = "this file holds only what was stripped from another: give the one that is loaded, with --sysroot"
    else:
        advice = "compile it with -fasynchronous-unwind-tables, or give a debug file with .debug_frame in --debug-dir"
    return Finding("no_table", message, advice, module=name)


def _build_id(facts: ModuleFacts) -> str:
    return facts.build_id.hex() if facts.build_id is not None else "(none)"
