"""``clew script`` of recordings that are made here: the text is perf's form, written down by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest
from sampled_program import BASE, CHAIN, COMMON, KERNEL, MARK_KERNEL, MARK_USER, STACK, Made

from clew.cli.script_demangle import perf_name
from clew.cli.script_fields import DEFAULT, chosen_fields
from clew.errors import UsageError

Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_a_walked_stack(made: Made, answer: Answer) -> None:
    made.sample(0x1004, tid=8, time=12_345_678_999, cpu=3, period=500_000)
    code, out, error = answer("script", made.write(), "--no-inline")
    assert (code, error) == (0, "")
    # The thread has no name of its own; a return address is shown by the byte before it, and time is cut.
    head = ":8     8 [003]    12.345678:     500000 cpu-clock: \n"
    assert out == head + made.line(0x1004, "leaf+0x4") + made.line(0x102F, "a::b+0xf") + "\n"


def test_more_frames_than_there_can_be(made: Made, answer: Answer) -> None:
    made.sample(0x1004)
    path = made.write()
    assert answer("script", path, "--max-stack", str(10**20)) == answer("script", path)
    assert answer("report", path, "--max-stack", str(10**20)) == answer("report", path)


def test_a_stack_whose_copy_was_too_short_has_perfs_mark(made: Made, answer: Answer) -> None:
    made.sample(0x1004, stack=bytes(4))
    _, out, _ = answer("script", made.write(), "-F", "comm,ip,sym,dso")
    assert out == "work \n" + made.line(0x1004, "leaf") + "\tffffffffffffffff [unknown] ([unknown])\n\n"


def test_the_kernels_part_comes_first_and_a_sample_without_a_stack_is_only_that(made: Made, answer: Answer) -> None:
    chain = (MARK_KERNEL, 0xFFFF800000001000, 0xFFFF800000002000)
    made.sample(0x1004, misc=KERNEL, chain=chain)
    made.data.sample(pid=7, misc=KERNEL, chain=chain)
    _, out, _ = answer("script", made.write(), "-F", "ip,sym,dso")
    kernel = "".join(f"\t{address:16x} [unknown] ([unknown])\n" for address in chain[1:])
    assert out == "\n" + kernel + made.line(0x1004, "leaf") + made.line(0x102F, "a::b") + "\n" + "\n" + kernel + "\n"


def test_a_chain_of_frame_pointers_is_printed_as_it_is(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, stack=False)
    made.data.sample(pid=7, chain=(MARK_USER, BASE + 0x1004, BASE + 0x1030, 0x1234))
    _, out, _ = answer("script", made.write(), "-F", "comm,ip,sym,symoff,dso")
    frames = made.line(0x1004, "leaf+0x4") + made.line(0x1030, "a::b+0x10") + f"\t{0x1234:16x} [unknown] ([unknown])\n"
    assert out == "work \n" + frames + "\n"


def test_a_chain_with_an_unknown_mark_is_thrown_away(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, stack=False)
    made.data.sample(pid=7, chain=(MARK_USER, BASE + 0x1004, (1 << 64) - 1))
    assert answer("script", made.write(), "-F", "comm,ip,sym")[1] == "work \n\n"


def test_without_call_chains_a_sample_is_one_line(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, COMMON & ~CHAIN, stack=False)
    made.data.sample(pid=7, ip=BASE + 0x1004, time=1_000)
    _, out, _ = answer("script", made.write())
    place = f"{BASE + 0x1004:16x} leaf+0x4 ({made.file})"
    assert out == f"            work     7 [000]     0.000001:          1 cpu-clock:  {place}\n"


def test_samples_come_in_the_order_of_time(made: Made, answer: Answer) -> None:
    for time in (50, 20, 90, 10, 20):
        made.sample(0x1004, time=1000 * time)
    _, out, _ = answer("script", made.write(), "-F", "time")
    assert [float(line.strip(" :")) for line in out.splitlines()] == [1e-5, 2e-5, 2e-5, 5e-5, 9e-5]


def test_marks_of_rounds_let_the_order_be_told_early(made: Made, answer: Answer) -> None:
    for number in range(6):
        made.sample(0x1004, time=1000 * (2 * number + 2))
        made.sample(0x1004, time=1000 * (2 * number + 1))
        made.data.records.append(made.data.record(68, 0, b""))
    _, out, _ = answer("script", made.write(), "-F", "time,ip")
    times = [line for line in out.splitlines() if line.endswith(": ")]
    assert times == sorted(times)
    assert len(times) == 12


def test_what_follows_a_mark_may_be_earlier_than_what_stands_before_it(made: Made, answer: Answer) -> None:
    # perf reads one buffer after another: only what follows the next mark is later than all before this one.
    for each in (10, 30, 0, 20, 40, 0, 35, 50, 0, 45, 60, 0):
        if each:
            made.sample(0x1004, time=1000 * each)
        else:
            made.data.records.append(made.data.record(68, 0, b""))
            # So many that those that follow are read in another batch.
            for _ in range(4100):
                made.data.records.append(made.data.record(1000, 0, b""))
    _, out, _ = answer("script", made.write(), "-F", "time")
    assert [round(1e6 * float(line.strip(" :"))) for line in out.splitlines()] == [10, 20, 30, 35, 40, 45, 50, 60]


def test_which_symbol_of_several(made: Made, answer: Answer) -> None:
    for place in (0x1044, 0x1070, 0x1083, 0x1058):
        made.data.sample(pid=7, ip=BASE + place, registers={"rip": BASE + place, "rsp": STACK}, stack=bytes(8))
    _, out, _ = answer("script", made.write(), "-F", "ip,sym,symoff")
    assert [line.split()[1] for line in out.splitlines() if line.startswith("\t") and "ffff" not in line] == [
        "good+0x4",
        "endless+0x10",
        "thing+0x3",
        "[unknown]",
    ]


def test_nothing_that_a_terminal_would_obey(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, name="e\x1bvent")
    made.data.named(7, "w\x1b[31mork\n")
    made.sample(0x1094, stack=bytes(0))
    made.sample(0x1094, stack=bytes(8))
    _, out, _ = answer("script", made.write())
    assert "\x1b" not in out
    assert "w\\x1b[31mork\\n" in out
    assert "b\\x1b[2Jell+0x4" in out
    assert "e\\x1bvent: " in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--comm", "work"), 2),
        (("--comm", "other,work"), 2),
        (("--comm", "other"), 0),
        (("--pid", "7"), 3),
        (("--tid", "8"), 1),
        (("--tid", "8,9"), 1),
        (("--time", "0.000002,"), 2),
        (("--time", "0.000002,0.000002"), 1),
        (("--time", ",0.000001"), 1),
    ],
)
def test_only_some_samples(made: Made, answer: Answer, options: tuple[str, ...], expected: int) -> None:
    for tid, time in ((7, 1000), (8, 2000), (7, 3000)):
        made.sample(0x1004, tid=tid, time=time)
    code, out, _ = answer("script", made.write(), *options)
    assert code == 0
    assert out.count("cpu-clock") == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-F", "comm,pid,tid"), "            work     7/8     \n"),
        (("-F", "tid,pid,comm"), "            work     7/8     \n"),
        (("-F", "comm,pid"), "            work     7 \n"),
        (("-F", "time", "--ns"), "    1.000000001: \n"),
        (("-F", "period,event"), "         9 cpu-clock: \n"),
        (("-F", "cpu"), "[012] \n"),
        (("-F", "comm,ip", "-G"), "            work      7f0000001004\n"),
        (("-F", "sw:comm,ip", "--max-stack", "1"), None),
    ],
)
def test_fields(made: Made, answer: Answer, options: tuple[str, ...], expected: str | None) -> None:
    made.data.named(7, "work", tid=8)
    made.sample(0x1004, tid=8, time=1_000_000_001, cpu=12, period=9)
    code, out, error = answer("script", made.write(), *options)
    assert (code, error) == (0, "")
    assert out == (expected if expected is not None else f"work \n\t{0x1004 + made.shift:16x}\n\n")


def test_changes_of_the_usual_fields() -> None:
    assert chosen_fields(None, ()) == frozenset(DEFAULT)
    assert chosen_fields("+pid,-period", ()) == (frozenset(DEFAULT) | {"pid"}) - {"period"}
    assert chosen_fields("-ip", ()) == frozenset(DEFAULT) - {"ip", "sym", "symoff", "dso"}


@pytest.mark.parametrize("text", ["comm,bogus", "comm,sym", "ip,symoff", "comm,+pid", "what:comm", ""])
def test_fields_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        chosen_fields(text, ())


def test_a_field_that_the_samples_do_not_have(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path, COMMON & ~(1 << 7 | 1 << 8))
    made.sample(0x1004)
    path = made.write()
    code, _, error = answer("script", path, "-F", "comm,cpu")
    assert code == 2
    assert "CPU" in error
    # The usual ones are left out silently; a period that is always the same is known.
    assert answer("script", path)[1].startswith("work     7     0.000000:       1000 cpu-clock: \n")


@pytest.mark.parametrize(
    "options", [("--time", "x"), ("--time", "5"), ("--time", "2,1"), ("--pid", "x"), ("--max-stack", "0")]
)
def test_options_that_make_no_sense(made: Made, answer: Answer, options: tuple[str, str]) -> None:
    assert answer("script", made.write(), *options)[0] == 2


def test_what_cannot_be_read_has_perfs_code(tmp_path: Path, answer: Answer) -> None:
    assert answer("script", str(tmp_path / "none"))[0] == 255
    other = tmp_path / "other"
    other.write_bytes(b"something else entirely")
    code, out, error = answer("script", "-i", str(other))
    assert (code, out) == (255, "")
    assert error.startswith("clew: error: ")


def test_a_directory(tmp_path: Path, answer: Answer) -> None:
    (tmp_path / "data").write_bytes(b"")
    code, _, error = answer("script", str(tmp_path))
    assert code == 255
    assert "recordings in directories, as of perf record --threads, are not read" in error
    assert "one of the files" not in error


@pytest.mark.parametrize(
    ("option", "given", "there"),
    [
        ("--comm", "bogus", "is work"),
        ("--pid", "99", "is 7"),
        ("--tid", "99", "are 7, 8"),
        ("--tid", "8,99", "are 7, 8"),
    ],
)
def test_what_no_sample_has(made: Made, answer: Answer, option: str, given: str, there: str) -> None:
    made.data.named(7, "work", tid=8)
    made.sample(0x1004)
    made.sample(0x1004, tid=8)
    code, _, error = answer("script", made.write(), option, given)
    assert code == 0
    assert f"no sample is of {option} {given.split(',')[-1]}: there {there}\n" in error


def test_no_more_than_eight_are_told(made: Made, answer: Answer) -> None:
    for tid in range(7, 27):
        made.sample(0x1004, tid=tid)
    error = answer("script", made.write(), "--tid", "99")[2]
    assert error.endswith("there are 7, 8, 9, 10, 11, 12, 13, 14, …\n")


def test_a_program_that_stands_for_none(made: Made, answer: Answer) -> None:
    made.sample(0x1004)
    path = made.write()
    assert "nothing of the name 'perf.data' was loaded" in answer("script", path, "--exe", path)[2]
    assert answer("script", path, "--exe", str(made.file))[2] == ""


def test_changes_of_fields_that_begin_with_a_minus(made: Made, answer: Answer) -> None:
    made.sample(0x1004)
    path = made.write()
    expected = answer("script", path, "--fields=-period,-cpu")
    assert expected[0] == 0
    assert answer("script", path, "-F", "-period,-cpu") == expected
    assert answer("script", path, "--fields", "-period,-cpu") == expected
    assert answer("script", "-F", "--ns", path)[0] == 2


@pytest.mark.parametrize("arguments", [[], ["-i", "-"], ["-"]])
def test_a_recording_on_standard_input(tmp_path: Path, answer: Answer, arguments: list[str]) -> None:
    made = Made(tmp_path)
    made.data.pipe = True
    made.sample(0x1004)
    path = made.write()
    command = [sys.executable, "-m", "clew", "script", *arguments]
    done = subprocess.run(command, input=Path(path).read_bytes(), capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == answer("script", path)[1]


def test_what_is_no_recording_on_standard_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "script", "-i", "-"]
    done = subprocess.run(command, input=b"nothing", capture_output=True, check=False, timeout=60)
    assert done.returncode == 255
    assert done.stderr.startswith(b"clew: error: standard input: this is no perf.data")


def test_a_recording_that_was_not_ended(tmp_path: Path, answer: Answer) -> None:
    made = Made(tmp_path)
    data = bytearray(made.data.build())
    begin = int.from_bytes(data[40:48], "little")
    data[48:56] = bytes(8)
    made.path.write_bytes(data[:begin])
    code, _, error = answer("script", str(made.path))
    assert code == 255
    assert "the recording was not ended properly" in error
    made.path.write_bytes(b"")
    code, _, error = answer("script", str(made.path))
    assert code == 255
    assert "the file is empty: perf record did not come to write to it, or was not ended properly" in error


def test_a_damaged_recording_is_printed_as_far_as_it_goes(made: Made, answer: Answer) -> None:
    for _ in range(3):
        made.sample(0x1004)
    path = Path(made.write())
    whole = answer("script", str(path))[1]
    path.write_bytes(path.read_bytes()[:-400])
    code, out, error = answer("script", str(path))
    assert code == 0
    assert "cut short" in error
    assert out
    assert whole.startswith(out)


def test_code_that_was_made_while_it_ran_is_called_by_its_map(made: Made, answer: Answer) -> None:
    made.data.mapped2(7, "//anon", 0x10000, 0x1000)
    made.data.mapped2(7, "[heap]", 0x20000, 0x1000)
    for address in (0x10010, 0x20010):
        made.data.sample(pid=7, registers={"rip": address, "rsp": STACK}, stack=bytes(8), ip=address)
    _, out, _ = answer("script", made.write(), "-F", "ip,sym,dso")
    lines = out.splitlines()
    assert lines[1].endswith(" 10010 [unknown] (/tmp/perf-7.map)")
    assert next(line for line in lines if "20010" in line).endswith(" 20010 [unknown] ([heap])")


def test_a_reader_that_goes_away_is_no_reason_to_complain(made: Made) -> None:
    for _ in range(2000):
        made.sample(0x1004)
    command = f"{sys.executable} -m clew script {made.write()} | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        ("main", "main"),
        ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"),
        ("_ZNSs5beginEv", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::begin"),
        ("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_c", "std::operator<< <std::char_traits<char> >"),
        ("_ZNSolsEd", "std::basic_ostream<char, std::char_traits<char> >::operator<<"),
        ("_Z3fooIiEvT_", "foo<int>"),
        ("_Z3foov.cold", "foo"),
        ("_ZZ4mainE1x", "main::x"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("_Z", "_Z"),
        ("_Z99999999999999999999a", "_Z99999999999999999999a"),
    ],
)
def test_names_are_demangled_as_gnus_demangler_does_it_without_parameters(mangled: str, expected: str) -> None:
    # The expected names are those of `c++filt -p` (binutils 2.40), but for Rust's hash.
    assert perf_name(mangled) == expected


KERNEL_TEXT = 0xFFFFFFFF81000000
KALLSYMS = """\
0000000000000010 A counted
{0:016x} T _text
{0:016x} T startup
{1:016x} t work
{2:016x} T late
{3:016x} t inside\t[some_module]
"""


@pytest.mark.parametrize("moved", [0, 0x200000])
def test_the_kernels_names_are_those_of_perfs_copy(
    made: Made, answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """The kernel may have been somewhere else when it was recorded."""
    build_id = bytes(range(20))
    text = KERNEL_TEXT + moved
    copy = tmp_path / "cache" / "[kernel.kallsyms]" / build_id.hex() / "kallsyms"
    copy.parent.mkdir(parents=True)
    copy.write_text(KALLSYMS.format(text, text + 0x1000, text + 0x9000, text + 0x3F000000))
    monkeypatch.setenv("PERF_BUILDID_DIR", str(tmp_path / "cache"))
    name = b"[kernel.kallsyms]\0".ljust(24, b"\0")
    body = pack("<i", -1) + build_id + bytes(4) + name
    made.data.feature(2, pack("<IHH", 0, KERNEL, 8 + len(body)) + body)
    for path, start, size in (
        ("[kernel.kallsyms]_text", KERNEL_TEXT, 0x8000),
        ("/lib/modules/6.1.0/kernel/some-module.ko", KERNEL_TEXT + 0x3F000000, 0x1000),
    ):
        made.data.mapped(-1, path, start, size, start, misc=KERNEL)
    places = (0, 0x1004, 0x9008, 0x3F000010, 0x20000000)
    made.data.sample(pid=7, misc=KERNEL, chain=(MARK_KERNEL, *(KERNEL_TEXT + place for place in places)))
    _, out, _ = answer("script", made.write(), "-F", "ip,sym,symoff,dso")
    assert [line.split(None, 1)[1] for line in out.splitlines() if line] == [
        # Of several without a size, perf takes the last.
        "startup+0x0 ([kernel.kallsyms])",
        "work+0x4 ([kernel.kallsyms])",
        "late+0x8 ([kernel.kallsyms])",
        "inside+0x10 ([some_module])",
        "[unknown] ([unknown])",
    ]
