"""The functions with code that compilers describe: all of them, and no others, against llvm-dwarfdump."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.native.dwarf_assemble import Assembler
from clew.symbols import Symbolizer

DWARFDUMP = shutil.which("llvm-dwarfdump") or shutil.which("llvm-dwarfdump-14")
pytestmark = pytest.mark.skipif(DWARFDUMP is None, reason="llvm-dwarfdump is not installed")

#: Classes that are local to functions, and to functions that are inlined everywhere; lambdas; templates; what is split.
CPLUSPLUS = """
#define OWN __attribute__((noinline))
struct S {
    int v;
    int m(int n) {
        struct L {
            int k;
            OWN int go(int q) { struct M { static OWN int deep(int z) { return z * 3; } }; return M::deep(q) + k; }
        };
        L l{v};
        return l.go(n) + [&](int x) OWN { return x + v; }(n);
    }
    static inline int st(int n) { auto f = [](auto x) OWN { return x + 1; }; return f(n) + int(f(2.5)); }
};
template <class T> T tm(T n) { struct L { OWN T go(T q) { return q * 7; } }; return L{}.go(n); }
namespace { inline int an(int n) { struct Q { OWN int r(int z) { return z - 4; } }; return Q{}.r(n); } }
__attribute__((cold)) OWN void unlikely(int n) { volatile int x = n; x++; }
int use(int n) { S s{n}; if (n > 100) unlikely(n); return s.m(n) + S::st(n) + tm(n) + int(tm(2.0 * n)) + an(n); }
int main(int c, char **) { return use(c); }
"""
RUST = """
fn helper<T: Fn(i32) -> i32>(f: T, n: i32) -> i32 {
    struct L(i32);
    impl L { #[inline(never)] fn go(&self, q: i32) -> i32 { self.0 + q } }
    f(n) + L(n).go(3)
}
fn main() {
    let s: i32 = std::env::args().count() as i32;
    println!("{}", helper(|x| { fn inner(k: i32) -> i32 { k * 3 } inner(x) + s }, 4));
}
"""
GO = """
package main

import "os"

type T struct{ n int }

func (t T) add(q int) int { return t.n + q }

func main() { f := func(x int) int { return T{x}.add(3) }; os.Exit(f(2)) }
"""


def described(program: Path) -> set[int]:
    """Where llvm-dwarfdump's functions begin, but for those that the linker threw away."""
    assert DWARFDUMP is not None
    text = subprocess.run(
        [DWARFDUMP, "--debug-info", str(program)], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    found = set()
    for body in re.findall(r"^0x[0-9a-f]+:\s+DW_TAG_subprogram\n((?:.+\n)*)", text, re.MULTILINE):
        low = re.search(r"DW_AT_low_pc\s*\(0x([0-9a-f]+)\)", body)
        # Lists of locations look the same.
        ranges = re.search(r"DW_AT_ranges\s((?:.+\n)(?:\s+\[.+\n)*)", body)
        pieces = [int(start, 16) for start in re.findall(r"\[0x([0-9a-f]+), 0x", ranges[1])] if ranges else []
        found |= {int(low[1], 16)} if low and not pieces else set(pieces)
    return {address for address in found if address > 1}


def read(program: Path) -> set[int]:
    """Where clew's begin, before they are sorted and cut; those that only have lines are no entries."""
    with Symbolizer.open(program) as symbols:
        assert symbols.info is not None
        assembler = Assembler()
        symbols.info.read_all(assembler)
        assert symbols.problems == []
        columns = assembler.function_columns()
        return set(columns[0][columns[7] == 0].tolist())


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize(
    "options",
    [
        "-O0",
        "-O2",
        "-O1 -fno-inline",
        "-O2 -gdwarf-2 -gstrict-dwarf",
        "-O3 -gdwarf-3",
        "-O2 -gdwarf-4 -fdebug-types-section",
        "-O2 -fdebug-types-section",
        "-O2 -flto",
        "-O2 -ffunction-sections -Wl,--gc-sections",
    ],
)
def test_functions_of_gcc(options: str, tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(CPLUSPLUS)
    subprocess.run(["g++", "-g", *options.split(), "a.cc"], cwd=tmp_path, timeout=60, check=True)
    found = described(tmp_path / "a.out")
    assert len(found) >= 9
    assert read(tmp_path / "a.out") == found


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["rustc", "go"])
def test_functions_of_other_compilers(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / ("a.rs" if compiler == "rustc" else "a.go")
    source.write_text(RUST if compiler == "rustc" else GO)
    command = ["rustc", "-g", "-O"] if compiler == "rustc" else ["go", "build"]
    subprocess.run([*command, "-o", "a.out", source.name], cwd=tmp_path, timeout=120, check=True, capture_output=True)
    found = described(tmp_path / "a.out")
    assert len(found) > 100
    assert read(tmp_path / "a.out") == found
