"""Damaged ``STACK CFI`` text, and text of damaged frame sections, for as long as CLEW_FUZZ_SECONDS says."""

from __future__ import annotations

import hashlib
import os
from random import Random

import fuzz_breakpad_cfi_inputs
import fuzz_cfi_layers
import pytest
from run_fuzz import fuzz
from uncompiled import said_uncompiled

from clew.arch import machine_named
from clew.native import compiled
from clew.read.breakpad.cfi import read_cfi
from clew.write.breakpad.cfi import stack_cfi


@pytest.mark.parametrize("subject", ["breakpad_cfi", "breakpad_cfi_tables"])
def test_damaged_text_and_tables(subject: str) -> None:
    tally = fuzz(subject, seconds=float(os.environ.get("CLEW_FUZZ_SECONDS", "2")), seed=1)
    print(tally)
    assert tally.good, (tally.failures.most_common(5), str(tally))


def digests() -> str:
    """What becomes of the same texts in every process: the table, what is wrong, and the text that it makes again."""
    random = Random(9)
    good = fuzz_breakpad_cfi_inputs.seeds(random, 60)
    # One with more lines and more different rules than the columns begin with room for.
    lines = [b"STACK CFI INIT 0 fffff .cfa: $rsp 8 + .ra: .cfa -8 + ^"]
    lines += [b"STACK CFI %x .cfa: $rsp %d +" % (turn, turn % 700) for turn in range(1, 1500)]
    blobs = [*good, b"\0" + b"\n".join(lines)]
    for _ in range(300):
        blobs.append(fuzz_breakpad_cfi_inputs.mutated(random, random.choice(good), random.choice(good)))
    out = []
    for blob in blobs:
        table = read_cfi(blob[1:], machine_named(fuzz_cfi_layers.MACHINES[blob[0] & 7]))
        text = b"".join(stack_cfi(table))
        said = repr([*map(str, table.problems), table.lost, table.start.tolist(), table.rule.tolist()])
        out.append(hashlib.sha256(said.encode() + text).hexdigest())
    return "\n".join(out)


@pytest.mark.skipif(not compiled(), reason="the core is not compiled here, so there is nothing to compare it with")
def test_compiled_and_uncompiled_agree_on_stack_cfi() -> None:
    pure = said_uncompiled(__file__)
    ours, theirs = digests().split("\n"), pure.strip().split("\n")
    assert len(ours) == len(theirs) > 300
    assert [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]] == []


if __name__ == "__main__":
    print(digests())
