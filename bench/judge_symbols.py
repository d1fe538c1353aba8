"""Judges names, lines and inlined calls: clew's beside those of addr2line, llvm-symbolizer and symbolic.

    python bench/judge_symbols.py FILE [--debug FILE] [--count N] [--seed N] [--sym FILE.sym] [--code functions] [--examples N]

Random addresses of all of ``.text`` are asked of all three judges, and of clew. ``--sym`` asks a Breakpad symbol file in clew's
place, with a reader of the tests' own. Two percentages are printed: for how many addresses clew says what at least two of
the three say of the *leaf* (file and line of the innermost frame), and of the whole *chain* (functions, files and lines of all
frames; the outermost function under any name that it has). Then the classes of what is left, with examples. ``--code functions``
takes only addresses that a symbol with a size covers; the padding between functions is no code, but has lines all the same.

Exit code: 0 for at least 99.8 % of the leaves and 99 % of the chains, else 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from clew.symbols import demangle

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "peers"))

from symbols_judges import (
    JUDGES,
    Chain,
    Comparison,
    JudgedFrame,
    Unusable,
    chain_of,
    kind,
    load_base,
    path_of,
    same_leaf,
    show,
    text_range,
)
from symbols_sym_file import SymFile

LEAF, CHAIN = 99.8, 99.0


def clew(path: Path, addresses: Sequence[int]) -> list[Chain]:
    """clew's answers, one look-up at a time."""
    from clew.symbols import Symbolizer

    symbolizer = Symbolizer.open(path)
    return [
        chain_of(
            [JudgedFrame(frame.function, path_of(frame.file), frame.line or 0) for frame in symbolizer.lookup(address)]
        )
        for address in addresses
    ]


def drawn(path: Path, count: int, seed: int, wanted: Callable[[int], bool]) -> list[int]:
    """Random addresses of ``.text``, ascending."""
    low, high = text_range(path)
    dice = random.Random(seed)
    addresses: list[int] = []
    for _ in range(100 * count):
        if len(addresses) == count:
            break
        address = dice.randrange(low, high)
        if wanted(address):
            addresses.append(address)
    return sorted(addresses)


def verdicts(
    addresses: list[int],
    mine: list[Chain],
    judged: dict[str, list[Chain]],
    same: Callable[[Chain, Chain], bool],
) -> tuple[int, int, dict[str, list[int]]]:
    """How many agree with two, for how many two agree at all, and the places of the others by class."""
    agreed = decided = 0
    left: dict[str, list[int]] = defaultdict(list)
    for place in range(len(addresses)):
        answers = {name: chains[place] for name, chains in judged.items()}
        friends = [name for name, answer in answers.items() if same(mine[place], answer)]
        pairs = [pair for pair in combinations(answers, 2) if same(answers[pair[0]], answers[pair[1]])]
        decided += bool(pairs)
        if len(friends) >= 2:
            agreed += 1
        elif pairs:
            left[f"{' and '.join(pairs[0])} agree: {kind(mine[place], answers[pairs[0][0]])}"].append(place)
        else:
            left[f"all differ; clew says what {friends[0]} says" if friends else "all differ"].append(place)
    return agreed, decided, left


def main() -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--debug", type=Path, help="the separate debug file, which the judges are given")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sym", type=Path, help="a symbol file to judge, instead of clew's own answers")
    parser.add_argument("--code", choices=["text", "functions"], default="text")
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--judge", choices=JUDGES, help="let this judge stand in clew's place")
    options = parser.parse_args()
    asked: Path = options.debug or options.file
    comparison = Comparison(asked, demangle if options.sym else None)
    addresses = drawn(
        asked, options.count, options.seed, comparison.covers if options.code == "functions" else lambda _: True
    )
    contestants = dict(JUDGES)
    if options.sym:
        contestants["clew"] = lambda path, places: SymFile(options.sym, load_base(path)).answers(places)
    else:
        contestants["clew"] = JUDGES[options.judge] if options.judge else clew
    answers: dict[str, list[Chain]] = {}
    for name, judge in contestants.items():
        before = time.perf_counter()
        try:
            chains = judge(options.file if name == "clew" and not options.judge else asked, addresses)
        except Unusable as reason:
            print(f"Without {reason}", file=sys.stderr)
            continue
        print(f"{name}: {time.perf_counter() - before:.2f} s", file=sys.stderr)
        answers[name] = [
            comparison.tidy(address, comparison.speak(chain)) for address, chain in zip(addresses, chains, strict=True)
        ]
    mine = answers.pop("clew")
    uncovered = sum(not comparison.covers(address) for address in addresses)
    print(f"{options.file}: {len(addresses):,} addresses; {uncovered:,} between functions")
    good = True
    for title, same, least in (("leaf", same_leaf, LEAF), ("chain", comparison.same_chain, CHAIN)):
        agreed, decided, left = verdicts(addresses, mine, answers, same)
        share = 100 * agreed / len(addresses)
        good &= share >= least
        print(
            f"  {title}: {share:.2f} % agree with two of three (of {100 * decided / len(addresses):.2f} % where two agree)"
        )
        for text, places in sorted(left.items(), key=lambda each: -len(each[1])):
            print(f"    {len(places):6,}  {text}")
            for place in random.Random(1).sample(places, min(options.examples, len(places))):
                print(f"            {addresses[place]:#x}  clew: {show(mine[place])}")
                for name, chains in answers.items():
                    print(f"              {name}: {show(chains[place])}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
