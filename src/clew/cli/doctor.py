"""``clew doctor``: what breaks stacks, and what to do about it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.cli.output import Palette, add_json, counted, palette, print_json, printable, problems_json, report
from clew.cli.target import debug_directories
from clew.cli.walking import (
    add_stopped,
    is_recording,
    let_go,
    open_recording,
    open_stopped,
    title,
    walk_samples,
    walk_threads,
)
from clew.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clew.cli.doctor_findings import Finding
    from clew.cli.doctor_modules import ModuleFacts, Tried
    from clew.cli.doctor_stacks import Observed
    from clew.target import Target

DESCRIPTION = """\
Walks every thread, and says how the stacks ended; of each module that they go through where its
file, its unwind table and its symbols come from; and of everything that breaks stacks or leaves
functions without a name, what to do about it. Where no symbols or no lines were found, the places are
listed that were tried, and why each did not serve. Exit code 1 when there is such a thing, or part of the
target could not be read.
"""

_MOST_THREADS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_stopped(parser, "the number of a process, or the file of a core, a minidump or a recording of perf")
    parser.add_argument(
        "--all", action="store_true", help="every place where symbols and lines were looked for, not only the first few"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if is_recording(options.target):
        return _run_recording(options)
    with open_stopped(options) as target:
        stacks = walk_threads(target, target.threads)
        for module in {frame.module for each in stacks for frame in each.stack.frames}:
            # While the target is open, what has no file can be read from its memory.
            _ = module.image if module is not None else None
        let_go(target)
    if not stacks:
        report(title(options, target), target.problems)
        raise Error("no thread of it is known", file=title(options, target))
    observed = _observed(options, target)
    for each in stacks:
        observed.add(each.thread.id, each.stack, in_call=each.thread.interrupted_call)
    return _print(options, target, observed, len(target.modules))


def _run_recording(options: argparse.Namespace) -> int:
    """All samples of a recording, as if each were a thread."""
    with open_recording(options) as data:
        observed: Observed | None = None
        for sample, stack in walk_samples(data):
            if stack is not None and sample.thread is not None:
                target = sample.process.target
                observed = observed or _observed(options, target)
                observed.add(sample.thread_id, stack, in_call=sample.thread.interrupted_call)
        if observed is None:
            report(options.target, data.problems)
            raise Error("no sample of it was in a program", file=options.target)
        # Of the many processes none is meant.
        return _print(options, replace(target, process_id=None, command=data.command), observed, 0)


def _observed(options: argparse.Namespace, target: Target) -> Observed:
    from clew.cli.doctor_stacks import Observed
    from clew.cli.stack_names import FrameNames, name_places

    places = name_places(debug_directories(options), options.sysroot, options.symbols)
    return Observed(FrameNames(target, places, dwarf=True))


def _print(options: argparse.Namespace, target: Target, observed: Observed, loaded: int) -> int:
    from clew.cli.doctor_findings import findings
    from clew.cli.doctor_modules import examine, module_json

    modules = examine(observed)
    found = findings(target, observed, modules)
    if options.json:
        from clew.cli.stack_json import target_json

        document = {
            "target": target_json(target, options.target),
            "stacks": {end.value: count for end, count in observed.ends.most_common()},
            "modules": [module_json(facts) for facts in modules],
            "findings": [finding.to_json() for finding in found],
        }
        print_json(document | {"problems": problems_json(target.problems)})
    else:
        from clew.cli.stack_text import heading

        colours = palette()
        print(heading(target, options.target, colours))
        for line in _text(observed, modules, max(loaded - len(modules), 0), found, colours, every=options.all):
            print(line)
    return report(title(options, target), target.problems) | bool(found)


def _text(
    observed: Observed,
    modules: Sequence[ModuleFacts],
    rest: int,
    found: Sequence[Finding],
    colours: Palette,
    *,
    every: bool,
) -> Iterator[str]:
    yield ""
    yield colours.bold(f"{counted(observed.stacks, 'stack')}")
    width = max(len(end.value) for end in observed.ends)
    for end, count in observed.ends.most_common():
        whole = end.value == "entry"
        colour = colours.green if whole else colours.red
        yield f"  {colour(end.value.ljust(width))}  {count:,}" + (
            "" if whole else f"  {_threads(observed.threads[end])}"
        )
    yield ""
    yield colours.bold(f"{counted(len(modules), 'module')} in them") + (f", {rest:,} more loaded" if rest else "")
    for facts in modules:
        yield f"  {colours.bold(printable(facts.module.name))}  {counted(facts.frames, 'frame')}"
        for key, value in _module(facts, every=every):
            yield f"    {key.ljust(8)}  {printable(value)}"
    yield ""
    if not found:
        yield colours.green("nothing to complain of")
        return
    yield colours.bold(counted(len(found), "finding"))
    for finding in found:
        ended = f"  ({counted(finding.stacks, 'stack')}: {_threads(finding.threads)})" if finding.stacks else ""
        yield f"  {colours.red(printable(finding.message))}{ended}"
        yield from (f"      {printable(line)}" for line in _tried(finding.tried))
        yield f"    {colours.cyan('→')} {printable(finding.advice)}"


def _threads(threads: Iterable[int]) -> str:
    numbers = list(threads)
    more = len(numbers) - _MOST_THREADS
    return "TID " + " ".join(map(str, numbers[:_MOST_THREADS])) + (f" and {more:,} more" if more > 0 else "")


def _tried(tried: Tried) -> Iterator[str]:
    for path, reason in tried:
        yield f"{path}: {reason}"


def _module(facts: ModuleFacts, *, every: bool) -> Iterator[tuple[str, str]]:
    """What is known of a module, by headings."""
    from clew.cli.doctor_debug import debug_rows

    build_id = facts.build_id.hex() if facts.build_id is not None else "none"
    said = {True: " (the same in the target)", False: " (another than in the target)", None: ""}[facts.matches]
    if facts.file is None:
        yield "file", "not found" + (f", build id {build_id}" if facts.build_id is not None else "")
    elif facts.from_memory:
        yield "file", f"read from memory, build id {build_id}"
    else:
        image = facts.module.image
        own = image.build_id.hex() if image is not None and image.build_id is not None else "none"
        yield "file", f"{facts.file}, build id {own}{said}"
    table = facts.module.table
    if table is not None:
        share = "" if facts.covered is None else f", rows for {100 * facts.covered:.1f} % of the code"
        lost = f", {table.lost:,} unreadable" if table.lost else ""
        yield "table", f"{' '.join(table.ranges.sources)}, {len(table.ranges):,} FDEs{lost}{share}"
    elif facts.file is not None:
        yield "table", f"none: {facts.trouble.message if facts.trouble is not None else 'there is none'}"
    for source in facts.symbols:
        where = "" if source.file == facts.file else f" of {source.file}"
        yield "symbols", f"{source.section}{where}, {len(source.table):,}"
    if facts.file is not None and not facts.symbols:
        yield "symbols", "none"
    yield from debug_rows(facts, every=every)
    if facts.guessed:
        yield "", f"{counted(facts.guessed, 'frame')} without a row, left by other means"
