"""``clew symbolize`` prints what ``addr2line`` of binutils prints, byte for byte, with every combination of its options.

Where they differ, the difference is of a kind that is named here, and counted. In all of them addr2line guesses:

- ``beyond``: no symbol reaches to the address, by its size, and no function of the DWARF does: padding, mostly, or a function
  of a stripped file. addr2line names the symbol before it.
- ``unlinked``: an inlined function has no name for the linker, as in anonymous namespaces. addr2line takes the symbol of the
  function around it, sometimes.
- ``plain``: the function has no such name in the DWARF, but a symbol has it. addr2line says one or the other, by what it was
  asked before.
- ``file``: the names and the lines are the same, and llvm-symbolizer has clew's file. addr2line takes the wrong entry of a
  DWARF 5 file table.
- ``alias``: the code has several names in the symbol table. addr2line takes another one than the DWARF, for assembler's code.
"""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from symbols_builds import addresses_of, built, tool
from symbols_judges import Comparison, bare, llvm_symbolizer, path_of, sections

from clew.cli import main
from clew.cli.symbolize_names import gnu_demangled

OPTIONS = ["-" + "".join(each) if each else "" for count in range(7) for each in combinations("afiCps", count)]
ASKED = 400

Answer = list[tuple[str, str]]
"""What is said of an address: name and place of each function, the innermost first."""


@cache
def version() -> str:
    return subprocess.run([tool("addr2line"), "--version"], check=True, capture_output=True, text=True).stdout


def asked(command: Sequence[str], path: Path, options: str, addresses: Sequence[int]) -> str:
    """The output for addresses from standard input."""
    words = [*command, *([options] if options else []), "-e", str(path)]
    given = "".join(f"{address:#x}\n" for address in addresses)
    done = subprocess.run(
        words, check=False, input=given, capture_output=True, text=True, errors="backslashreplace", timeout=300
    )
    assert (done.returncode, done.stderr) == (0, ""), words
    return done.stdout


def addr2line(path: Path, options: str, addresses: Sequence[int]) -> str:
    if "2.40" not in version():
        pytest.skip("this addr2line is not that of binutils 2.40")
    return asked([tool("addr2line")], path, options, addresses)


def clew(path: Path, options: str, addresses: Sequence[int]) -> str:
    """In this process, which is many times faster."""
    given = io.TextIOWrapper(io.BytesIO("".join(f"{address:#x}\n" for address in addresses).encode()))
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", given)
        code = main(["symbolize", *([options] if options else []), "-e", str(path)])
    # addr2line says nothing of a file without debugging information.
    assert (code, [line for line in error.getvalue().splitlines() if ": no lines: " not in line]) == (0, []), options
    return out.getvalue()


def split(text: str) -> list[Answer]:
    """The answers in what ``-afi`` prints."""
    answers: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("0x") and len(line) in (10, 18):
            answers.append([])
        else:
            answers[-1].append(line)
    return [list(zip(lines[::2], lines[1::2], strict=True)) for lines in answers]


def kind(address: int, theirs: Answer, ours: Answer, path: Path, symbols: Comparison) -> str:
    """Which difference it is; ``wrong`` for none of those that are known."""
    if ours[0][0] == "??" and not symbols.covers(address):
        theirs_line, our_line = theirs[0][1], ours[0][1]
        if our_line == "??:0" or our_line.rpartition(":")[2] == theirs_line.rpartition(":")[2]:
            return "beyond"
    if len(theirs) != len(ours):
        return "wrong"
    names = [number for number, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one[0] != other[0]]
    places = [number for number, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one[1] != other[1]]
    if not names:
        said = llvm_symbolizer(path, [address])[0]
        expected = [f"{frame.file}:{frame.line}" for frame in said]
        given = [
            f"{path_of(place.rpartition(':')[0])}:{place.partition(' ')[0].rpartition(':')[2]}" for _, place in ours
        ]
        return "file" if given == expected else "wrong"
    last = len(ours) - 1
    if places and not (places == [last] and ours[last][1].endswith(":?")):
        return "wrong"
    outer = ours[last][0]
    for number in names:
        if number < last:
            mangled = ours[number][0].startswith(("_Z", "_R"))
            if mangled or not symbols.same_name(theirs[number][0], outer):
                return "wrong"
        elif not (simple_name(theirs[last][0], outer) or symbols.same_name(theirs[last][0], outer)):
            return "wrong"
    if names[0] < last:
        return "unlinked"
    return "plain" if simple_name(theirs[last][0], outer) else "alias"


def simple_name(name: str, mangled: str) -> bool:
    """Whether a name is that of the source, without namespaces and arguments, for what has another name for the linker."""
    if mangled.startswith("_Z"):
        return name.partition("<")[0] in gnu_demangled(mangled)
    return bare(name) == bare(mangled)


def steady(answer: Answer) -> bool:
    """Whether addr2line names these functions of C++ alike whatever it was asked before: not those without a linkage name in
    the DWARF, which are those that other files do not see."""
    return all(name.startswith("_Z") and not re.match("_ZL|_ZZ|.*(_GLOBAL__N_|Ul)", name) for name, _ in answer)


def debug_file(path: Path) -> Path:
    """Where the symbols of an installed file are."""
    for name, _, size, offset in sections(path, lambda name, _: name == ".note.gnu.build-id"):
        digits = path.read_bytes()[offset + 16 : offset + size].hex() if name else ""
        found = Path(f"/usr/lib/debug/.build-id/{digits[:2]}/{digits[2:]}.debug")
        if found.exists():
            return found
    return path


def compare(path: Path, addresses: Sequence[int], most: dict[str, float], options: Sequence[str] = OPTIONS) -> None:
    """Compares the answers for addresses; of each kind of difference there may be so much of the whole."""
    theirs, ours = (split(program(path, "-afi", addresses)) for program in (addr2line, clew))
    assert len(theirs) == len(ours) == len(addresses)
    symbols = Comparison(debug_file(path))
    kinds: Counter[str] = Counter()
    same = []
    cpp = path.name.startswith("program") and "_Z" in str(ours)
    for address, one, other in zip(addresses, theirs, ours, strict=True):
        if one == other:
            if not cpp or steady(other):
                same.append(address)
            continue
        what = kind(address, one, other, path, symbols)
        assert what != "wrong", (hex(address), one, other)
        kinds[what] += 1
    for what, count in kinds.items():
        assert count <= most.get(what, 0) * len(addresses), kinds
    assert len(same) > len(addresses) // 4
    for each in options:
        assert clew(path, each, same) == addr2line(path, each, same), each


def chosen(path: Path, count: int) -> list[int]:
    """Random addresses of a program that is built here."""
    everything = addresses_of(path)
    return random.Random(1).sample(everything, min(count, len(everything)))


def installed(path: Path, count: int) -> list[int]:
    """Random addresses of the code of a program of the system."""
    if not path.exists():
        pytest.skip(f"{path} is not here")
    spans = [(at, size) for _, at, size, _ in sections(path, lambda name, _: name in (".text", ".plt", ".init"))]
    generator = random.Random(1)
    starts = generator.choices(spans, [size for _, size in spans], k=count)
    return [generator.randrange(at, at + size) for at, size in starts]


CPP = {"beyond": 0.25, "unlinked": 0.1, "plain": 0.15}


@pytest.mark.parametrize("level", ["-O2", "-O0"])
def test_cpp(level: str) -> None:
    compare(built("g++", f"-g {level}", "names.cc"), chosen(built("g++", f"-g {level}", "names.cc"), ASKED), CPP)


@pytest.mark.parametrize(
    "options", ["-g -O2", "-g -O2 -flto", "-g -O2 -gz=zlib", "-g -O2 -no-pie", "-g1 -O2", "-g0 -O2"]
)
def test_c(options: str) -> None:
    path = built("gcc", options, "names.c")
    compare(
        path, chosen(path, ASKED), {"beyond": 0.5 if "g0" in options else 0.15, "file": 0.1}, ["", "-afiCps", "-fp"]
    )


def test_32_bits() -> None:
    path = built("gcc", "-g -O2 -m32 -shared -nostdlib -fPIC", "names.c")
    compare(path, chosen(path, ASKED), {"beyond": 0.25, "file": 0.1}, ["-a", "-afip"])


def test_objects() -> None:
    """Sections all begin at 0 there: the first that has something at an address counts."""
    path = built("gcc", "-g -O2 -c", "names.c")
    for options in ("-afi", "-afij.text", "-afij.text.startup"):
        theirs, ours = (split(program(path, options, range(0, 300, 3))) for program in (addr2line, clew))
        differing = [(one, other) for one, other in zip(theirs, ours, strict=True) if one != other]
        assert all(len(one) == len(other) == 1 and other[0][0] == "??" for one, other in differing)
        assert len(differing) < 25


def test_stripped(tmp_path: Path) -> None:
    """Names of dynamic symbols, without lines."""
    path = built("g++", "-g -O2 -shared -fPIC", "names.cc")
    stripped = tmp_path / "stripped"
    subprocess.run([tool("strip"), "-o", stripped, path], check=True)
    compare(stripped, chosen(path, ASKED), {"beyond": 0.7}, ["", "-afiCps"])


def test_sections() -> None:
    path = built("g++", "-g -O2", "names.cc")
    theirs, ours = (program(path, "-afi", [0, 1 << 40]) for program in (addr2line, clew))
    assert ours == theirs
    for section in (".init", ".text", ".comment"):
        for options in ("-afi", "-fp"):
            theirs, ours = (
                asked([*command, "-j", section], path, options, [0, 1, 8, 1 << 20])
                for command in ([tool("addr2line")], [sys.executable, "-m", "clew", "symbolize"])
            )
            assert ours == theirs, section


def test_what_is_no_number() -> None:
    path = built("g++", "-g -O2", "names.cc")
    lines = [
        *(
            "0x",
            "",
            "zz",
            "-1",
            "+5",
            " 0x10 kg",
            "0X1040",
            "10000000000000000",
            "1_0",
            "0x0x5",
            "0b1",
            "\u0661",
            "0x 5",
        ),
        *("main", "main+4", "main+0x4", "main +4", "main+ 4", " main", "main+010", "main+08", "main+zz", "main+4kg"),
        *(
            "nothing",
            "nothing+5",
            "a+3",
            "add",
            "_init",
            "_start+1",
            "5+5",
            "0" * 98,
            "0" * 99,
            "0" * 150,
            "1040\0zz",
            "-",
        ),
    ]
    given = "\n".join(lines).encode()
    for options in ("-a", "-afip"):
        theirs, ours = (
            subprocess.run(
                [*command, options, "-e", path], input=given, capture_output=True, check=True, timeout=60
            ).stdout
            for command in ([tool("addr2line")], [sys.executable, "-m", "clew", "symbolize"])
        )
        assert ours.splitlines() == theirs.splitlines()


@pytest.mark.parametrize(
    "options", [["-f", "1040", "-i", "1050"], ["-Cfi", "1040"], ["--demangle=gnu-v3", "-f", "1040"]]
)
def test_arguments(options: list[str]) -> None:
    path = built("g++", "-g -O2", "names.cc")
    theirs, ours = (
        subprocess.run([*command, "-e", path, *options], capture_output=True, check=True, timeout=60).stdout
        for command in ([tool("addr2line")], [sys.executable, "-m", "clew", "symbolize"])
    )
    assert ours == theirs


@pytest.mark.parametrize("arguments", [["-e", "nothing"], ["-e", "."], ["-e", __file__], ["-j", ".nothing"], []])
def test_exit_codes(arguments: list[str], tmp_path: Path) -> None:
    program = [] if "-e" in arguments or not arguments else ["-e", str(built("g++", "-g -O2", "names.cc"))]
    theirs, ours = (
        subprocess.run(
            [*command, *program, *arguments, "1040"], capture_output=True, check=False, cwd=tmp_path, timeout=60
        )
        for command in ([tool("addr2line")], [sys.executable, "-m", "clew", "symbolize"])
    )
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout) == (1, b"")
    assert ours.stderr.startswith(b"clew: error: ")


@pytest.mark.parametrize("name", ["libstdc++.so.6", "libz.so.1", "libc.so.6"])
def test_libraries(name: str) -> None:
    path = Path("/usr/lib/x86_64-linux-gnu") / name
    share = {"beyond": 0.6, "file": 0.1, "alias": 0.05, "plain": 0.02, "unlinked": 0.02}
    compare(path, installed(path, ASKED), share, ["-afi", "-fC"])


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libc.so.6"])
def test_programs(path: str) -> None:
    """With a debug file that is found by itself."""
    if not os.path.exists("/usr/lib/debug/.build-id"):
        pytest.skip("no debug files are installed")
    share = {"beyond": 0.05, "file": 0.1, "alias": 0.05}
    compare(Path(path), installed(Path(path), 3000), share, ["-afiC", "-fps"])


def test_names() -> None:
    """Demangled as c++filt does; but for lists that end in an empty pack, and what only it can demangle."""
    if shutil.which("c++filt") is None:
        pytest.skip("c++filt is not installed")
    library = Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")
    if not library.exists():
        pytest.skip("libstdc++ is not here")
    listed = subprocess.run([tool("nm"), "-D", library], check=True, capture_output=True, text=True).stdout.split()
    program = subprocess.run(
        [tool("nm"), built("g++", "-g -O2", "names.cc")], check=True, capture_output=True, text=True
    ).stdout.split()
    names = sorted({name for name in listed + program if name.startswith("_Z") and not name.startswith("_ZGTt")})
    done = subprocess.run(
        ["c++filt", "--no-verbose"], input="\n".join(names), check=True, capture_output=True, text=True, timeout=60
    )
    other = [
        (name, gnu_demangled(name), said)
        for name, said in zip(names, done.stdout.splitlines(), strict=True)
        if gnu_demangled(name) != said
    ]
    assert len(names) > 3000
    assert len(other) < 0.005 * len(names), other[:5]
