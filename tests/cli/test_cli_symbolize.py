"""``clew symbolize``: the words of addr2line, and what it does not have."""

from __future__ import annotations

import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.cli import main
from clew.cli.symbolize_input import UNKNOWN, AddressReader
from clew.cli.symbolize_names import gnu_demangled
from clew.cli.symbolize_text import Form
from clew.image.elf import EM_386, ET_DYN, STB_GLOBAL, STB_LOCAL, STT_FILE, STT_FUNC, STT_NOTYPE, STT_OBJECT
from clew.symbols import SourceFrame, Symbolizer
from clew.testing import ElfBuilder

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def answer(answer: Run) -> Run:
    """The commands without the warning that there are no lines, which most of the files here earn."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code, out, error = answer(*arguments)
        return code, out, "".join(line for line in error.splitlines(True) if ": no lines: " not in line)

    return run


C = """\
static inline __attribute__((always_inline)) int inner(int value)
{
    return value * value;
}

__attribute__((noinline)) int outer(int value)
{
    return inner(value + 1) + 1;
}

int main(int count, char **arguments)
{
    return outer(count);
}
"""
CPP = """\
namespace {
__attribute__((noinline)) int hidden(int value) { return value * 3 + 1; }
}
template <typename T> struct Box {
    T value;
    __attribute__((noinline)) int get(int more) const { return hidden(value + more); }
};
int main(int count, char **) { return Box<Box<int>*>{nullptr}.get(count) + 1; }
""".replace("hidden(value + more)", "hidden(static_cast<int>(sizeof value) + more)")


def compiled(folder: Path, name: str, text: str, *options: str) -> Path:
    compiler = "gcc" if name.endswith(".c") else "g++"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / name).write_text(text)
    output = folder / f"{name}.out"
    command = [compiler, "-g", "-O1", *options, "-o", str(output), name]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return output


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("symbolize"), "shapes.c", C)


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("symbolize"), "shapes.cc", CPP)


@pytest.fixture(scope="module")
def square(program: Path) -> int:
    """The address of the multiplication that was inlined, as the disassembler has it."""
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--disassemble=outer", program],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for line in listing.splitlines():
        if "mul" in line:
            return int(line.split(":")[0], 16)
    pytest.skip("this compiler does not multiply")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Makes a text the standard input."""

    def give(text: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    return give


# What is printed

CHAIN = (
    SourceFrame("_ZN1a1bEv", "/src/dir/a.h", 7, discriminator=3, inlined=True),
    SourceFrame("main", "./b.c", 12, offset=4),
)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "/src/dir/a.h:7 (discriminator 3)\n"),
        ("s", "a.h:7 (discriminator 3)\n"),
        ("f", "_ZN1a1bEv\n/src/dir/a.h:7 (discriminator 3)\n"),
        ("fC", "a::b()\n/src/dir/a.h:7 (discriminator 3)\n"),
        ("fp", "_ZN1a1bEv at /src/dir/a.h:7 (discriminator 3)\n"),
        ("i", "/src/dir/a.h:7 (discriminator 3)\n./b.c:12 (discriminator 3)\n"),
        ("fi", "_ZN1a1bEv\n/src/dir/a.h:7 (discriminator 3)\nmain\n./b.c:12 (discriminator 3)\n"),
        ("fips", "_ZN1a1bEv at a.h:7 (discriminator 3)\n (inlined by) main at b.c:12 (discriminator 3)\n"),
        ("ip", "/src/dir/a.h:7 (discriminator 3)\n (inlined by) ./b.c:12 (discriminator 3)\n"),
    ],
)
def test_the_form(options: str, text: str) -> None:
    assert form(options).answer(CHAIN) == text


@pytest.mark.parametrize(
    ("frame", "plain", "pretty"),
    [
        (None, "??\n??:0\n", "?? ??:0\n"),
        (SourceFrame("_start", None, 0), "_start\n??:?\n", "_start at ??:?\n"),
        (SourceFrame("_init", "", 0), "_init\n:?\n", "_init at :?\n"),
        (SourceFrame(None, "a.c", 5), "??\na.c:5\n", "?? at a.c:5\n"),
        (SourceFrame("f", "a.c", 0, discriminator=2), "f\na.c:?\n", "f at a.c:?\n"),
        (SourceFrame("b\x1b[2Jell", "a\nb", 1), "b\\x1b[2Jell\na\\nb:1\n", "b\\x1b[2Jell at a\\nb:1\n"),
    ],
)
def test_what_is_not_known(frame: SourceFrame | None, plain: str, pretty: str) -> None:
    frames = [] if frame is None else [frame]
    assert form("f").answer(frames) == plain
    assert form("fp").answer(frames) == pretty


def form(options: str) -> Form:
    return Form(
        addresses="a" in options,
        functions="f" in options,
        inlines="i" in options,
        demangle="C" in options,
        pretty="p" in options,
        basenames="s" in options,
    )


def test_addresses() -> None:
    assert form("").address(0x1F) == ""
    assert form("a").address(0x1F) == "0x000000000000001f\n"
    assert form("ap").address(0x1F) == "0x000000000000001f: "
    assert Form(addresses=True, digits=8).address(0x1F) == "0x0000001f\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main", "main"),
        ("_Z3fooi.cold", "foo(int) [clone .cold]"),
        ("_Z3fooi.constprop.0.isra.1", "foo(int) [clone .constprop.0] [clone .isra.1]"),
        ("_Z3fooi@@V_1", "foo(int)@@V_1"),
        ("_Z3fooSt6vectorIS_IiEE", "foo(std::vector<std::vector<int> >)"),
        ("_ZN1arsIiEEvT_", "void a::operator>><int>(int)"),
        ("_ZN1alsIiEEvT_", "void a::operator<< <int>(int)"),
        ("_ZN1altIiEEvT_", "void a::operator< <int>(int)"),
        ("_ZN1alsEi", "a::operator<<(int)"),
        ("_ZZ4mainENKUlicE_clEic", "main::{lambda(int, char)#1}::operator()(int, char) const"),
        ("_ZZ4mainENKUlPFivEE0_clES0_", "main::{lambda(int (*)())#2}::operator()(int (*)()) const"),
        ("_ZZ4mainENUt_1fEv", "main::{unnamed type#1}::f()"),
        ("_RNvC6_123foo3bar", "123foo::bar"),
        ("_Zwrong", "_Zwrong"),
    ],
)
def test_names_in_the_style_of_libiberty(name: str, text: str) -> None:
    assert gnu_demangled(name) == text


# Compiled programs


def test_a_program(program: Path, square: int, answer: Run) -> None:
    path = str(program)
    folder = program.parent
    assert answer("symbolize", "-e", path, f"{square:x}") == (0, f"{folder}/shapes.c:3\n", "")
    text = f"{square:#018x}: inner at shapes.c:3\n (inlined by) outer at shapes.c:8\n"
    assert answer("symbolize", "-afips", "-e", path, f"{square:#x}") == (0, text, "")
    assert answer("symbolize", f"{square:x}", "-fsi", f"--exe={path}", "0") == (
        0,
        "inner\nshapes.c:3\nouter\nshapes.c:8\n??\n??:0\n",
        "",
    )


def test_functions_with_offsets(program: Path, square: int, answer: Run) -> None:
    path = str(program)
    code, text, error = answer("symbolize", "-e", path, "-fs", "outer", "main")
    assert (code, error) == (0, "")
    # A compiler may say that the function begins at any of its first lines.
    assert re.fullmatch(r"outer\nshapes.c:[678]\nmain\nshapes.c:1[123]\n", text)
    start = json.loads(answer("symbolize", "-e", path, "--json", "outer")[1])["addresses"][0]["address"]
    distance = square - int(start, 16)
    text = f"{square:#018x}\nshapes.c:3\n"
    for place in (f"outer+{distance}", f"outer+{distance:#x}", f"outer + {distance:#o}".replace("0o", "0")):
        assert answer("symbolize", "-as", "-e", path, place) == (0, text, "")
    assert answer("symbolize", "-af", "-e", path, "nothing+4") == (0, f"{0:#018x}\n??\n??:0\n", "")


def test_sections(program: Path, square: int, answer: Run) -> None:
    path = str(program)
    start = next(each.address for each in Symbolizer.open(path).image.sections if each.name == ".text")
    assert answer("symbolize", "-sj.text", "-e", path, f"{square - start:x}") == (0, "shapes.c:3\n", "")
    assert answer("symbolize", "-sj", ".text", "-e", path, f"{square:x}", "ffffffffffffffff") == (0, "??:0\n??:0\n", "")
    assert answer("symbolize", "--section=.comment", "-e", path, "1") == (0, "??:0\n", "")


def test_objects(tmp_path: Path, answer: Run) -> None:
    path = str(compiled(tmp_path, "shapes.c", C, "-c", "-ffunction-sections"))
    # outer is the first section with something at 0.
    assert answer("symbolize", "-fse", path, "0")[1].startswith("outer\nshapes.c:")
    assert answer("symbolize", "-fse", path, "-j", ".text.main", "0")[1].startswith("main\nshapes.c:1")
    # Nothing is known of what is not there; it is not what is at 0.
    assert answer("symbolize", "-fse", path, "nothing") == (0, "??\n??:0\n", "")


def test_names_of_cpp(cpp: Path, answer: Run) -> None:
    path = str(cpp)
    hidden, get = "_ZN12_GLOBAL__N_16hiddenEi", "_ZNK3BoxIPS_IiEE3getEi"
    code, text, _ = answer("symbolize", "-fse", path, hidden)
    assert (code, text.split("\n")[0]) == (0, hidden)
    names = {"-fCs": "(anonymous namespace)::hidden(int)\nshapes.cc:2\n", "-fs": f"{hidden}\nshapes.cc:2\n"}
    for options, text in names.items():
        assert answer("symbolize", options, "-e", path, hidden) == (0, text, "")
    assert answer("symbolize", "-fs", "--demangle=none", "-e", path, hidden) == (0, names["-fs"], "")
    assert answer("symbolize", "-fs", "--demangle=gnu-v3", "-e", path, hidden) == (0, names["-fCs"], "")
    assert answer("symbolize", "-Cpfse", path, get)[1].startswith("Box<Box<int>*>::get(int) const at shapes.cc:6")


def test_json(program: Path, cpp: Path, square: int, answer: Run) -> None:
    code, text, error = answer("symbolize", "--json", "-e", str(program), f"{square:x}", "0")
    assert (code, error) == (0, "")
    found = json.loads(text)
    known, unknown = found["addresses"]
    assert unknown == {"address": "0x0", "frames": []}
    assert known["address"] == f"{square:#x}"
    file = f"{program.parent}/shapes.c"
    assert known["frames"][0] == {"inlined": True, "function": "inner", "file": file, "line": 3}
    outer = known["frames"][1]
    assert (outer["inlined"], outer["function"], outer["file"], outer["line"]) == (False, "outer", file, 8)
    assert int(outer["function_offset"], 16) < 32
    assert (found["file"], found["problems"]) == (str(program), [])
    frame = json.loads(answer("symbolize", "--json", "-e", str(cpp), "_ZN12_GLOBAL__N_16hiddenEi")[1])["addresses"][0][
        "frames"
    ][0]
    assert frame["demangled"] == "(anonymous namespace)::hidden(int)"


def test_many_at_once_are_answered_like_one_by_one(cpp: Path, answer: Run, given: Callable[[bytes], None]) -> None:
    image = Symbolizer.open(cpp).image
    addresses = [
        at for each in image.sections if each.executable for at in range(each.address, each.address + each.size)
    ]
    assert len(addresses) > 256
    single = "".join(
        answer("symbolize", "-afiCp", "-e", str(cpp), *map(hex, addresses[at : at + 200]))[1]
        for at in range(0, len(addresses), 200)
    )
    given("".join(f"{each:x}\n" for each in addresses).encode())
    assert answer("symbolize", "-afiCp", "-e", str(cpp)) == (0, single, "")
    # One line that is no number changes nothing but its own answer.
    given("".join(f"{each:x}\n" for each in [*addresses, 0]).encode() + b"nothing\n")
    rest = f"{0:#018x}: ?? ??:0\n"
    assert answer("symbolize", "-afiCp", "-e", str(cpp)) == (0, single + rest + rest, "")
    given("".join(f"{each:x}\n" for each in addresses).encode())
    found = json.loads(answer("symbolize", "--json", "-e", str(cpp))[1])["addresses"]
    assert [int(each["address"], 16) for each in found] == addresses


def test_as_a_coprocess(program: Path) -> None:
    """Each line is answered before the next is asked."""
    command = [sys.executable, "-m", "clew", "symbolize", "-fs", "-e", str(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in ("outer", "main", "outer", "nothing"):
            process.stdin.write(f"{name}\n".encode())
            read = b""
            while read.count(b"\n") < 2:
                assert select.select([process.stdout], [], [], 60)[0]
                more = os.read(process.stdout.fileno(), 4096)
                assert more, "it has ended"
                read += more
            known = f"{name}\nshapes.c:".encode()
            assert read == b"??\n??:0\n" if name == "nothing" else read.startswith(known)
        process.stdin.write(b"main")
        process.stdin.close()
        # The last line needs no end.
        assert process.stdout.read().startswith(b"main\nshapes.c:1")
        assert process.wait(timeout=60) == 0


def test_a_debug_file_of_its_own(program: Path, square: int, tmp_path: Path, answer: Run) -> None:
    if shutil.which("objcopy") is None:
        pytest.skip("objcopy is not installed")
    identity = Symbolizer.open(program).image.build_id
    if identity is None:
        pytest.skip("this compiler makes no build ids")
    digits = identity.hex()
    place = tmp_path / "debug" / ".build-id" / digits[:2]
    place.mkdir(parents=True)
    stripped = tmp_path / "stripped"
    subprocess.run(["objcopy", "--only-keep-debug", program, place / f"{digits[2:]}.debug"], check=True)
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    assert answer("symbolize", "-fse", str(stripped), f"{square:x}") == (0, "??\n??:0\n", "")
    text = "inner\nshapes.c:3\n"
    assert answer("symbolize", "-fse", str(stripped), "--debug-dir", str(tmp_path / "debug"), f"{square:x}") == (
        0,
        text,
        "",
    )


# Symbols only


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A program of which only symbols are known: two files' functions, a global one, data, padding, and an open end."""
    elf = ElfBuilder(type=ET_DYN)
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.section(".data", bytes(0x100), address=0x2000)
    elf.symbol("one.c", type=STT_FILE, binding=STB_LOCAL)
    elf.symbol("first", 0x1000, size=0x10, section=".text", type=STT_FUNC, binding=STB_LOCAL)
    elf.symbol("two.c", type=STT_FILE, binding=STB_LOCAL)
    elf.symbol("second", 0x1020, size=0x10, section=".text", type=STT_FUNC, binding=STB_LOCAL)
    elf.symbol("third", 0x1030, size=0x10, section=".text", type=STT_FUNC, binding=STB_GLOBAL)
    elf.symbol("open", 0x1080, section=".text", type=STT_NOTYPE, binding=STB_GLOBAL)
    elf.symbol("data", 0x2000, size=0x10, section=".data", type=STT_OBJECT, binding=STB_GLOBAL)
    path = tmp_path / "bare"
    path.write_bytes(elf.build())
    return str(path)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("1000", "first\none.c:?\n"),
        ("100f", "first\none.c:?\n"),
        ("1010", "??\n??:0\n"),
        ("1020", "second\ntwo.c:?\n"),
        ("1030", "third\n??:?\n"),
        ("1080", "open\n??:?\n"),
        ("10ff", "open\n??:?\n"),
        ("1100", "??\n??:0\n"),
        ("2000", "??\n??:0\n"),
        ("ffffffffffffffff", "??\n??:0\n"),
    ],
)
def test_symbols(bare: str, address: str, text: str, answer: Run, given: Callable[[bytes], None]) -> None:
    assert answer("symbolize", "-fe", bare, address) == (0, text, "")
    given(f"{address}\n".encode() * 300)
    assert answer("symbolize", "-fe", bare) == (0, text * 300, "")


def test_32_bits(tmp_path: Path, answer: Run) -> None:
    elf = ElfBuilder(bits=32, machine=EM_386, type=ET_DYN)
    elf.section(".text", bytes(0x100), address=0x1000, executable=True)
    elf.symbol("first", 0x1000, size=0x10, section=".text", type=STT_FUNC)
    path = tmp_path / "small"
    path.write_bytes(elf.build())
    assert answer("symbolize", "-afpe", str(path), "f00001001") == (0, "0x00001001: first at ??:?\n", "")


# Input


def reader(path: str) -> AddressReader:
    return AddressReader(Symbolizer.open(path))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (b"0x1f", 0x1F),
        (b"1F\n", 0x1F),
        (b" \t\r1f kg", 0x1F),
        (b"0X10zz", 0x10),
        (b"add", 0xADD),
        (b"", 0),
        (b"\n", 0),
        (b"0x", 0),
        (b"1_0", 1),
        (b"5+5", 5),
        (b"1f\x00ff", 0x1F),
        (b"10000000000000000", (1 << 64) - 1),
        (b"9" * 90, (1 << 64) - 1),
        (b"second", 0x1020),
        (b"first", 0xF),
        (b" first + 010 ", 0x1008),
        (b"first+0x10", 0x1010),
        (b"first+10", 0x100A),
        (b"first+" + b"9" * 80, 0xFFF),
        (b"data+1", 0x2001),
        (b"one.c", UNKNOWN),
        (b"zz", UNKNOWN),
        (b"-1", UNKNOWN),
        (b"\xff\xfe", UNKNOWN),
    ],
)
def test_addresses_that_are_read(text: bytes, address: int, bare: str) -> None:
    assert reader(bare).address(text) == address


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_lines_are_the_same_however_they_come(size: int, bare: str) -> None:
    class Slow(io.BytesIO):
        def read1(self, count: int | None = -1, /) -> bytes:
            return super().read1(size)

    # A line of 98 characters is one, of 99 two, of 199 three.
    lines = ["10", "0x20", "", "zz", "1".zfill(98), "2".zfill(99), "3" * 199]
    expected = [0x10, 0x20, 0, UNKNOWN, 1, 2, 0, (1 << 64) - 1, (1 << 64) - 1, 3, 0x40]
    text = ("\n".join(lines) + "\n40").encode()
    assert [address for block in reader(bare).blocks(Slow(text)) for address in block] == expected


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-e", "{dir}/missing"], "missing"),
        (["-e", "{dir}"], "director"),
        (["-e", "{dir}/text"], "ELF"),
        (["-e", "{bare}", "-j", ".nothing"], ".nothing"),
    ],
)
def test_errors(arguments: list[str], message: str, bare: str, answer: Run) -> None:
    """As addr2line: 1 for what cannot be read, and nothing on standard output."""
    folder = Path(bare).parent
    (folder / "text").write_text("hello, this is no ELF file at all, but long enough to look like one" * 2)
    code, out, error = answer("symbolize", *(each.format(dir=folder, bare=bare) for each in arguments), "1000")
    assert (code, out) == (1, "")
    assert message in error


def test_the_file_is_a_out(bare: str, answer: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(bare).parent)
    assert answer("symbolize", "1000")[0] == 1
    os.rename(bare, "a.out")
    assert answer("symbolize", "-f", "1000") == (0, "first\none.c:?\n", "")


def test_usage(bare: str, answer: Run) -> None:
    assert answer("symbolize", "-e", bare, "-q")[0] == 2
    assert answer("symbolize", "-e", bare, "--demangle=nothing", "1000")[0] == 2
    # What addr2line takes and clew does not need.
    assert answer("symbolize", "-b", "elf64-little", "-R", "-re", bare, "-f", "1000") == (0, "first\none.c:?\n", "")


def test_broken_debugging_information(program: Path, tmp_path: Path, answer: Run) -> None:
    image = Symbolizer.open(program).image
    section = next(each for each in image.sections if each.name == ".debug_info")
    data = bytearray(program.read_bytes())
    data[section.offset : section.offset + section.size] = b"\xff" * section.size
    broken = tmp_path / "broken"
    broken.write_bytes(data)
    code, out, error = answer("symbolize", "-fe", str(broken), "main")
    assert code == 0
    assert out.startswith("main\n")
    assert "warning" in error
    assert ".debug_info" in error


def test_without_an_input(bare: str) -> None:
    command = ["sh", "-c", '"$0" -m clew symbolize -e "$1" <&-', sys.executable, bare]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


# How it starts


def test_other_commands_are_not_loaded(bare: str) -> None:
    code = (
        "import os, sys; from clew.cli import main; main(['symbolize', '-e', sys.argv[1], '1000']);"
        "print(sorted(name for name in sys.modules if name.startswith(('clew.cli.', 'clew.walk', 'clew.target')) "
        "and not name.startswith('clew.cli.symbolize')));"
        "print('OPENBLAS_NUM_THREADS' in os.environ, len(os.listdir('/proc/self/task')))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code, bare], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    expected = "['clew.cli.commands', 'clew.cli.output', 'clew.cli.target']"
    assert done.stdout.splitlines()[1:] == [expected, "False 1"]


def test_threads_that_somebody_asked_for(bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert main(["symbolize", "-e", bare, "1000"]) == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
