"""Re-creates tables 1 and 2 of the paper "Reliable and Fast DWARF-Based Stack Unwinding" (OOPSLA 2019) with today's unwinders.

    python bench/paper.py [PROGRAM…] [--scale X] [--rounds N] [--samples N] [--cold] [--keep DIR] [--json OUT]

Programs are recorded by perf with copies of their stacks; then all engines unwind the same samples, in turn, in one process.
*errors* are stacks whose last frame is not one that nothing called, as the tables have it: copies that were too short, mostly.
*gave up* are those of which the engine says so itself, *same* those equal to libunwind's; *speed-up* is libunwind's time for
a frame in proportion to the engine's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import paper_export
import paper_record
import paper_sizes
from contenders import Unavailable
from paper_replay import REFERENCE, Outcome, Replay, Replayed


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Rows as a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def times(name: str, replayed: Replayed) -> str:
    """A program's part of table 1."""
    reference = next((each for each in replayed.outcomes if each.name == REFERENCE), None)
    samples = replayed.outcomes[0].samples if replayed.outcomes else 0
    rows: list[tuple[str, ...]] = [("", "frames", "total us", "ns/frame", "errors", "gave up", "same", "speed-up")]
    for each in replayed.outcomes:
        ratio = f"{each.ratio(reference):.2f}" if reference else "-"
        rows.append(
            (
                each.name,
                f"{each.frames:,}",
                f"{each.ns / 1e3:,.0f}",
                f"{each.ns_a_frame:.1f}",
                f"{each.lost:,}",
                f"{each.failed:,}",
                f"{each.same:,}",
                ratio,
            )
        )
    text = f"\n{name}: {samples:,} samples\n{aligned(rows)}"
    for peer, reason in replayed.reasons.items():
        text += f"\n  without {peer}: {reason}"
    return text


def as_json(each: Outcome, reference: Outcome | None) -> dict[str, Any]:
    """An outcome for the file of figures."""
    ratio = each.ratio(reference) if reference else None
    return {**asdict(each), "median_ns": each.ns, "ns_a_frame": each.ns_a_frame, "ratio": ratio}


def measure(name: str, replay: Replay, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Records a program, unwinds its samples, and prints what came out."""
    recording = paper_record.record(name, folder, scale=options.scale, stack=options.stack, frequency=options.frequency)
    exported = paper_export.export(recording, folder / f"{name}.play", options.samples)
    paper_sizes.make_forms(exported, folder)
    exported.write()
    replayed = replay.run(exported.out, options.rounds, cold=options.cold)
    print(times(name, replayed), flush=True)
    if exported.missing:
        print(f"  files that could not be had: {', '.join(sorted(exported.missing))}")
    reference = next((each for each in replayed.outcomes if each.name == REFERENCE), None)
    if not options.keep:
        for path in folder.glob(f"{name}.*"):
            path.unlink()
    return {
        "engines": [as_json(each, reference) for each in replayed.outcomes],
        "without": replayed.reasons,
        "sizes": [paper_sizes.as_json(each) for each in exported.objects],
        "objects": exported.objects,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choices = list(paper_record.PROGRAMS)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(choices)}; all")
    parser.add_argument("--scale", type=float, default=1, help="how long the programs run; 1 is some seconds each")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--samples", type=int, default=10_000, help="the most samples of a program")
    parser.add_argument(
        "--stack",
        type=int,
        default=32768,
        help="bytes of stack in a sample; perf's own default, 8192, cuts most of them",
    )
    parser.add_argument(
        "--cold", action="store_true", help="do not fetch stacks into the cache before the clock starts"
    )
    parser.add_argument("--frequency", type=int, default=1999, help="samples a second")
    parser.add_argument("--keep", type=Path, help="a directory to leave recordings and programs in")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    if unknown := set(options.programs) - set(choices):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(choices)}")
    outcomes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            replay = Replay(folder)
        except Unavailable as reason:
            sys.exit(f"Without the replay: {reason}")
        print("Table 1. Unwinding the same samples; processor time, median of the rounds")
        for name in options.programs or choices:
            try:
                outcomes[name] = measure(name, replay, options, folder)
            except Unavailable as reason:
                print(f"Without {reason}", file=sys.stderr)
        print("\nTable 2. Size of each form beside .eh_frame (with .eh_frame_hdr), bytes")
        print(aligned(paper_sizes.table({name: each.pop("objects") for name, each in outcomes.items()})))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(outcomes, indent=1) + "\n")


if __name__ == "__main__":
    main()
