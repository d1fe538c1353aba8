"""``clew report`` of recordings that are made here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sampled_program import BASE, CALLER, CHAIN, COMMON, KERNEL, MARK_USER, STACK, Made

Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Two whole stacks, one that is cut, and one sample of the kernel's own."""
    made = Made(tmp_path)
    made.sample(0x1004, period=30, time=1)
    made.sample(0x1008, period=20, time=2)
    made.sample(0x1024, stack=bytes(8), period=25, time=3)
    made.sample(0x1004, stack=bytes(4), period=15, time=4)
    made.data.sample(pid=0, misc=KERNEL, period=10, time=5, chain=())
    return made


def test_the_table(made: Made, answer: Answer) -> None:
    made.data.lost(9)
    code, out, error = answer("report", made.write())
    assert (code, error) == (1, "")
    lines = out.splitlines()
    assert "# 5 samples of 'cpu-clock', taken every 1,000 events" in lines
    assert "# 100 events, as samples estimate them, and all shares" in lines
    assert [line.split() for line in lines if not line.startswith("#") and line] == [
        ["65.00%", "3", "work", "it.so", "[.]", "leaf"],
        ["25.00%", "1", "work", "it.so", "[.]", "a::b"],
    ]
    ends = [line[2:].split() for line in lines[lines.index("") :] if line]
    assert ends[0] == ["samples", "5"]
    assert ends[1][:3] == ["complete", "75.00", "%"]
    assert ends[2][:2] == ["outside", "1"]
    assert ends[3][:2] == ["lost", "9"]
    assert ends[4:] == [["entry", "3", "75.00", "%"], ["stack_copy_end", "1", "25.00", "%"]]


def test_with_what_was_called(made: Made, answer: Answer) -> None:
    _, out, _ = answer("report", "--children", made.write())
    assert [line.split() for line in out.splitlines() if not line.startswith("#") and line] == [
        ["75.00%", "25.00%", "3", "work", "it.so", "[.]", "a::b"],
        ["65.00%", "65.00%", "3", "work", "it.so", "[.]", "leaf"],
    ]


def test_callers(made: Made, answer: Answer) -> None:
    _, out, _ = answer("report", "-g", "--limit", "1", made.write())
    lines = out.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("    65.00%"))
    assert lines[first + 1 : first + 7] == [
        "            |",
        "            ---leaf",
        "               |",
        "               |--50.00%--a::b",
        "                --15.00%--(the stack was lost)",
        "",
    ]
    assert "# and 1 more function" in lines


def test_a_function_that_calls_itself_took_its_time_once(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, stack=False)
    made.data.sample(pid=7, chain=(MARK_USER, *(BASE + 0x1004,) * 5), period=10)
    code, out, _ = answer("report", "--children", made.write())
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines() if not line.startswith("#") and line] == [
        ["100.00%", "100.00%", "1"]
    ]
    assert "# chains" in out


def test_stacks_for_flame_graphs(made: Made, answer: Answer) -> None:
    made.data.named(7, "my work;er", time=6)
    made.sample(0x1004, time=7)
    code, out, error = answer("report", "--collapsed", made.write())
    assert code == 1
    assert out.splitlines() == [
        "my_work:er;a::b;leaf 1",
        "swapper 1",
        "work;[unknown];leaf 1",
        "work;a::b 1",
        "work;a::b;leaf 2",
    ]
    assert "1 of 5 stacks are not whole: stack_copy_end 1" in error


def test_the_json_contract(made: Made, answer: Answer) -> None:
    path = made.write()
    code, out, error = answer("report", "--json", path)
    assert (code, error) == (1, "")
    found = json.loads(out)
    assert found["target"] == {"kind": "sample", "machine": "x86-64", "file": path}
    assert found["summary"] == {
        "samples": 5,
        "complete": 3,
        "without_table": 0,
        "lost": 0,
        "outside": 1,
        "chains": 0,
        "bare": 0,
        "ends": {"entry": 3, "stack_copy_end": 1},
    }
    assert found["events"] == [{"name": "cpu-clock", "period": 1000}]
    assert found["problems"] == []
    assert found["stacks"][0] == {
        "count": 2,
        "period": 50,
        "event": "cpu-clock",
        "comm": "work",
        "pid": 7,
        "end": "entry",
        "frames": [{"module": str(made.file), "function": name} for name in ("leaf", "a::b")],
    }
    assert sum(stack["count"] for stack in found["stacks"]) == 5


def test_frames_without_a_name_have_a_place(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, stack=False)
    made.data.sample(pid=7, chain=(MARK_USER, BASE + 0x1058, 0x1234))
    frames = json.loads(answer("report", "--json", made.write())[1])["stacks"][0]["frames"]
    assert frames == [
        {"module": str(made.file), "file_offset": f"{0x1058 + made.shift:#x}"},
        {"pc": "0x1234"},
    ]


def test_only_one_event_is_collapsed(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, COMMON | 1 << 16)
    made.data.events[0].ids = [1]
    made.data.event("other", type=COMMON | 1 << 16, registers=("rsp", "rip"), stack=True, ids=(2,))
    for event in (0, 0, 1):
        made.sample(0x1004, event=event)
    path = made.write()
    code, out, error = answer("report", "--collapsed", path)
    assert (code, out) == (0, "work;a::b;leaf 2\n")
    assert "samples of cpu-clock, the first event, are counted" in error
    assert "other" in error
    assert answer("report", "--collapsed", "--event", "other", path)[1] == "work;a::b;leaf 1\n"
    code, _, error = answer("report", "--collapsed", "--event", "third", path)
    assert (code, "other" in error) == (3, True)


def test_the_first_event_is_that_of_the_file_not_of_the_first_sample(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, COMMON | 1 << 16)
    made.data.events[0].ids = [1]
    made.data.event("other", type=COMMON | 1 << 16, registers=("rsp", "rip"), stack=True, ids=(2,))
    for event in (1, 1, 0):
        made.sample(0x1004, event=event)
    path = made.write()
    code, out, error = answer("report", "--collapsed", path)
    assert (code, out) == (0, "work;a::b;leaf 1\n")
    assert "only samples of cpu-clock, the first event, are counted" in error


def test_one_event_in_every_form(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, COMMON | 1 << 16)
    made.data.events[0].ids = [1]
    made.data.event("other", type=COMMON | 1 << 16, registers=("rsp", "rip"), stack=True, ids=(2,))
    for event in (0, 0, 1):
        made.sample(0x1004, event=event)
    path = made.write()
    code, out, _ = answer("report", "--event", "other", path)
    assert (code, "# samples          1" in out, "cpu-clock" in out) == (0, True, False)
    found = json.loads(answer("report", "--json", "--event", "other", path)[1])
    assert (found["summary"]["samples"], {each["event"] for each in found["stacks"]}) == (1, {"other"})
    for form in ("--stdio", "--collapsed", "--json"):
        code, out, error = answer("report", form, "--event", "third", path)
        assert (code, out) == (3, "")
        assert "it has cpu-clock, other" in error


@pytest.mark.parametrize("form", ["--collapsed", "--json"])
@pytest.mark.parametrize("option", [("--limit", "1"), ("--percent-limit", "1"), ("-g",), ("--children",)])
def test_options_of_the_table_are_refused_elsewhere(
    made: Made, answer: Answer, form: str, option: tuple[str, ...]
) -> None:
    code, out, error = answer("report", form, *option, made.write())
    assert (code, out) == (2, "")
    assert "is for the table" in error


def frame_pointers(tmp_path: Path) -> Made:
    """Two stacks that only a frame pointer leads out of, for the table has nothing there; the third is whole by the table."""
    made = Made(tmp_path)
    made.data.events.clear()
    made.data.event("cpu-clock", type=COMMON, registers=("rbp", "rsp", "rip"), stack=True)
    stack = (STACK + 32).to_bytes(8, "little") + CALLER + bytes(32)
    for place in (0x1058, 0x1058, 0x1024):
        made.sample(place, stack, registers={"rip": BASE + place, "rsp": STACK, "rbp": STACK})
    return made


def test_frames_that_were_found_without_a_table_are_counted(tmp_path: Path, answer: Answer) -> None:
    path = frame_pointers(tmp_path).write()
    found = json.loads(answer("report", "--json", path)[1])
    assert found["summary"]["without_table"] == 2
    line = next(line for line in answer("report", path)[1].splitlines() if line.startswith("# without_table"))
    assert " ".join(line.split()[2:]) == "2 stacks have frames that were found without an unwind table"


def test_the_file_of_a_module_is_gone(tmp_path: Path, answer: Answer) -> None:
    made = frame_pointers(tmp_path)
    path = made.write()
    made.file.unlink()
    code, out, error = answer("report", "--json", path)
    assert code == 1
    [problem] = json.loads(out)["problems"]
    assert problem["message"].startswith(
        f"{made.file}: no file of it was found that fits: for the frames of 3 samples in it"
    )
    for command, expected in (("report", 1), ("script", 0)):
        code, _, error = answer(command, path)
        assert code == expected
        assert error.count(str(made.file)) == 1
        assert "frames of 3 samples" in error
        assert f"`clew doctor {path}`" in error


def test_samples_that_only_say_where_they_were(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, COMMON & ~CHAIN, stack=False)
    for place in (0x1004, 0x1008, 0x1058):
        made.data.sample(pid=7, ip=BASE + place)
    code, out, _ = answer("report", made.write())
    assert code == 0
    assert "# bare     3" in out
    assert f"{0x1058 + made.shift:#018x}" in out


def test_nothing_that_a_terminal_would_obey(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, name="e\x1bvent")
    made.data.named(7, "w\x1b[31mork\n")
    made.data.command("perf", "\x1b[2J")
    made.sample(0x1094, stack=CALLER + bytes(8))
    path = made.write()
    for form in ("--stdio", "--collapsed", "--json", "-g"):
        out = answer("report", form, path)[1]
        assert "\x1b" not in out


@pytest.mark.parametrize("form", ["--stdio", "--collapsed", "--json"])
def test_a_recording_without_samples(tmp_path: Path, answer: Answer, form: str) -> None:
    code, _, error = answer("report", form, Made(tmp_path).write())
    assert (code, error) == (0, "")


def test_what_cannot_be_read(tmp_path: Path, answer: Answer) -> None:
    assert answer("report", str(tmp_path / "none"))[0] == 3
    assert answer("report", "a", "-i", "b")[0] == 2


def test_no_file_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "report"]
    done = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3
    assert "record one: perf record -g COMMAND, or name a file" in done.stderr
