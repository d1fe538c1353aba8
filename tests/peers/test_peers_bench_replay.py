"""The benchmark's replay: on stacks that are known, every engine that can be built here finds the same frames as the walker."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.target import open_process
from clew.walk import End, Walker

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64",
    reason="gcc on x86-64 is what the replay is built with",
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[int]:
    """A program whose twenty threads wait, 45 frames deep."""
    program = tmp_path / "deep"
    source = BENCH / "programs" / "deep.c"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-pthread", "-o", program, source], check=True)
    process = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("bench")
def test_every_engine_finds_the_walker_s_frames(standing: int, tmp_path: Path) -> None:
    import paper_export
    from paper_build import PEERS
    from paper_export import REGISTERS, Exported, Exporter, counted, word
    from paper_replay import ENGINES, Replay
    from paper_sizes import compile_with, pack

    exporter = Exporter(tmp_path)
    frames = samples = 0
    out = tmp_path / "standing.play"
    with open_process(standing) as target, open(out.with_suffix(".samples"), "wb") as file:
        space = exporter.space(list(target.modules))
        walker = Walker(target)
        for thread in target.threads:
            stack = walker.walk(thread)
            assert stack.end is End.ENTRY
            frames += len(stack.frames)
            samples += 1
            sp = thread.registers[7]
            # As much of the stack as there is.
            size = next(size for size in range(1 << 14, 0, -8) if target.memory.read(sp, size) is not None)
            copy = target.memory.read(sp, size)
            assert copy is not None
            registers = [*(thread.registers.get(number, 0) for number in range(REGISTERS - 1)), thread.pc]
            file.write(word(space, *registers, sp) + counted(copy))
    exporter.write_spaces(out)
    exported = Exported(out, exporter.listed(), exporter.missing, 1, samples)
    for each in exported.objects:
        packed, assembled = (tmp_path / f"{each.path.name}.{kind}" for kind in ("packed", "so"))
        assert pack(each.path, packed)
        assert compile_with("asm", each.path, assembled)
        each.forms = paper_export.Forms(packed=packed, assembler=assembled)
    exported.write()

    # What cargo has to fetch and build first is measured, not tested.
    have_crates = (PEERS / "target" / "release" / "libclew_bench_framehop.a").exists()
    engines = [engine for engine in ENGINES if have_crates or not engine.crate]
    replayed = Replay(tmp_path, engines).run(out, rounds=1)
    outcomes = {outcome.name: outcome for outcome in replayed.outcomes}
    assert {"libgcc", "clew packed table", "clew packed table, no cache", "clew asm backend"} <= set(outcomes), (
        replayed.reasons
    )
    for outcome in outcomes.values():
        assert (outcome.samples, outcome.frames) == (21, frames), outcome
        assert (outcome.same, outcome.lost, outcome.failed) == (21, 0, 0), outcome


@pytest.mark.usefixtures("bench")
def test_a_missing_engine_says_why(tmp_path: Path) -> None:
    from paper_build import Plugin, build

    built = build([Plugin("none", ["replay/engine_libgcc.c"], ["-lnone-such"], apt="none")], tmp_path)
    assert not built.paths
    assert "none-such" in built.reasons["none"]
    assert "apt-get install none" in built.reasons["none"]


@pytest.mark.usefixtures("bench")
def test_look_ups_agree_with_rows(tmp_path: Path) -> None:
    """On 100,000 addresses of libc, in memory that tells which words were loaded."""
    import inputs
    from inprocess_lookup import ENGINES, ROWS, race

    # What takes a C compiler half a minute is measured, not tested here.
    outcome = race(inputs.libc(), 1, tmp_path, tmp_path, engines=ENGINES[:2], wanted=())
    assert outcome.different == {ROWS: 0, "clew packed table": 0}


@pytest.mark.slow
@pytest.mark.usefixtures("bench")
def test_walks_of_this_process_agree(tmp_path: Path) -> None:
    from inprocess import MODES, Stacks

    race = Stacks(tmp_path).race(rounds=1, processes=1)
    assert {"libgcc _Unwind_Backtrace", "glibc backtrace", "frame pointers"} <= set(race.checked), race.reasons
    assert set(race.checked.values()) == {"equal"}
    for mode in MODES:
        assert set(race.rounds[mode]) == set(race.checked)
