"""Names and lines of programs of many compilers: clew says what addr2line and llvm-symbolizer say.

Each program is asked for (nearly) every address of its code. Where both judges say the same, clew must; where they differ,
clew must say what one of them says. What one of them cannot read is asked of it in a twin of the same code that it can read.
"""

from __future__ import annotations

import glob
import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from symbols_builds import BOTH, SOURCES, addresses_of, built, check, common_folder, folder, run, text, tool
from symbols_judges import code_symbols

LLVM = ("llvm-symbolizer",)

LANGUAGES = {"c": ("gcc", "clang"), "cc": ("g++", "clang++")}
COMPILERS = [(compiler, f"names.{language}") for language, compilers in LANGUAGES.items() for compiler in compilers]


def mostly_slow(cases: Sequence[tuple[str, ...]], fast: int) -> list[object]:
    """All of them, of which the first few are for every run."""
    return [*cases[:fast], *(pytest.param(*case, marks=pytest.mark.slow) for case in cases[fast:])]


# Every version of DWARF

VERSIONS = [
    (compiler, source, f"{options} -gdwarf-{version}")
    for version, options, (compiler, source) in product((5, 4, 3, 2), ("-O2", "-O0"), COMPILERS)
]


@pytest.mark.parametrize(("compiler", "source", "options"), mostly_slow(VERSIONS, 4))
def test_versions(compiler: str, source: str, options: str) -> None:
    check(built(compiler, options, source), inlined="-O2" in options)


# Other code

CODE = [
    "-O2 -flto",
    "-O3 -freorder-blocks-and-partition",
    "-Os",
    "-Og",
    "-O2 -fno-inline",
    "-O2 -ffunction-sections -fuse-ld=lld -Wl,--icf=all",
    "-O2 -ffunction-sections -fuse-ld=gold -Wl,--icf=all",
    "-O2 -ffunction-sections -Wl,--gc-sections",
    "-O2 -fuse-ld=lld",
    "-O2 -no-pie",
    "-O2 -static",
    "-O2 -shared -fPIC",
    "-O2 -m32 -shared -nostdlib -fPIC",
    "-O2 -fno-asynchronous-unwind-tables",
    "-O2 -fcf-protection=none -fno-stack-protector",
    "-O3 -funroll-loops -march=haswell",
    "-O2 -Wl,--emit-relocs",
    "-O2 -fdebug-prefix-map=/=/elsewhere/",
]
OTHER_CODE = [(compiler, source, options) for options, (compiler, source) in product(CODE, COMPILERS)] + [
    ("clang", "names.c", "-O2 -fbasic-block-sections=all -fuse-ld=lld"),
    ("clang++", "names.cc", "-O2 -fbasic-block-sections=all -fuse-ld=lld"),
    ("clang++", "names.cc", "-O2 -fsplit-machine-functions"),
    ("gcc", "names.c", "-O2 -fno-reorder-functions -fno-toplevel-reorder"),
    ("g++", "names.cc", "-O2 -fwhole-program"),
    ("g++", "names.cc", "-O2 -fkeep-inline-functions"),
]


@pytest.mark.parametrize(("compiler", "source", "options"), mostly_slow(OTHER_CODE, 2))
def test_code(compiler: str, source: str, options: str) -> None:
    check(built(compiler, f"-g {options}", source), inlined="-fno-inline" not in options, folded="--icf" in options)


# Other descriptions of the same code

DESCRIPTIONS = [
    "-g3",
    "-g1",
    "-gstatement-frontiers -gvariable-location-views",
    "-gno-statement-frontiers -gno-variable-location-views -ginline-points",
    "-gno-column-info",
    "-gno-as-loc-support",
    "-gno-as-locview-support",
    "-gstrict-dwarf -gdwarf-3",
    "-gdwarf-4 -fdebug-types-section",
    "-fdebug-types-section",
    "-fno-merge-debug-strings",
    "-fno-eliminate-unused-debug-types -fno-eliminate-unused-debug-symbols",
    "-gpubnames",
    "-gdwarf64",
    "-gdwarf64 -gdwarf-4",
]
OTHER_DESCRIPTIONS = [
    *(
        (compiler, source, options)
        for options, (compiler, source) in product(DESCRIPTIONS, COMPILERS)
        if compiler[0] == "g"
    ),
    *(
        (compiler, source, options)
        for options, (compiler, source) in product(
            [
                "-gline-tables-only",
                "-gmlt",
                "-fdebug-info-for-profiling",
                "-gcolumn-info -fdebug-macro",
                "-fdebug-types-section",
                "-gdwarf64 -gdwarf-5",
                "-fdebug-default-version=3",
                "-fstandalone-debug",
                "-gsimple-template-names",
                "-fdebug-ranges-base-address -gdwarf-4",
                "-fintegrated-as",
                "-fno-integrated-as -gdwarf-4",
            ],
            COMPILERS,
        )
        if compiler[0] == "c"
    ),
]


@pytest.mark.parametrize(("compiler", "source", "options"), mostly_slow(OTHER_DESCRIPTIONS, 2))
def test_descriptions(compiler: str, source: str, options: str) -> None:
    check(built(compiler, f"-g {options} -O2", source))


# Other packages of the same description

PACKAGES = [
    "-gz=zlib",
    "-gz=zstd",
    "-gz=zlib-gnu",
    "-gsplit-dwarf",
    "-gsplit-dwarf -gdwarf-4",
    "-gsplit-dwarf -gz=zlib",
    "-gsplit-dwarf -fdebug-types-section",
    "-gsplit-dwarf -ffile-prefix-map=/nowhere=/else",
]
OTHER_PACKAGES = [(compiler, source, options) for options, (compiler, source) in product(PACKAGES, COMPILERS)] + [
    (compiler, source, options)
    for options, (compiler, source) in product(
        ["-gsplit-dwarf -fsplit-dwarf-inlining", "-gsplit-dwarf -fno-split-dwarf-inlining -gdwarf-4"],
        COMPILERS,
    )
    if compiler[0] == "c"
]


def plain_of(compiler: str, source: str, options: str) -> Path:
    """The same code, with all of its description in the file."""
    version = "-gdwarf-4" if "-gdwarf-4" in options else "-g"
    sections = " -fdebug-types-section" if "-types" in options else ""
    return built(compiler, f"-O2 {version}{sections}", source)


@pytest.mark.parametrize(("compiler", "source", "options"), mostly_slow(OTHER_PACKAGES, 4))
def test_packages(compiler: str, source: str, options: str) -> None:
    check(built(compiler, f"-O2 -g {options}", source), plain_of(compiler, source, options))


@pytest.mark.parametrize("source", ["names.c", "names.cc"])
def test_split_descriptions_that_stay_in_the_object(source: str) -> None:
    compiler = "clang" if source == "names.c" else "clang++"
    program = folder() / "program"
    words = ["-O2", "-g", *(["-std=c++17"] if source == "names.cc" else [])]
    run(compiler, *words, "-gsplit-dwarf=single", "-c", SOURCES / source, "-o", f"{program}.o", cwd=common_folder())
    run(compiler, f"{program}.o", "-o", program, cwd=common_folder())
    check(program, plain_of(compiler, source, ""))


@pytest.mark.parametrize(
    ("packer", "compiler", "source", "options"),
    mostly_slow(
        [
            (packer, compiler, source, options)
            for packer, options, (compiler, source) in product(
                ("dwp", "llvm-dwp"), ("-gsplit-dwarf -gdwarf-5", "-gsplit-dwarf -gdwarf-4"), COMPILERS
            )
        ],
        2,
    ),
)
def test_packages_of_split_files(packer: str, compiler: str, source: str, options: str) -> None:
    if packer == "dwp" and "-gdwarf-5" in options:
        pytest.skip("dwp of binutils 2.40 knows DWARF 4 only")
    program = built(compiler, f"-O2 -g {options} -DPACKED_BY_{packer.replace('-', '_')}", source)
    package = program.with_name(f"{program.name}.dwp")
    if not package.exists():
        run(packer, "-e", program, "-o", package, cwd=program.parent)
        for split in program.parent.glob(f"{program.name}-*.dwo"):
            split.unlink()
    check(program, plain_of(compiler, source, options))


@pytest.mark.parametrize(("compiler", "source"), mostly_slow(COMPILERS, 2))
@pytest.mark.parametrize("options", ["-g", "-gdwarf-4"])
def test_dwz(compiler: str, source: str, options: str) -> None:
    plain = built(compiler, f"-O2 {options}", source)
    squeezed = folder() / "squeezed"
    run("dwz", "-o", squeezed, plain, cwd=squeezed.parent)
    check(squeezed, plain)


@pytest.mark.parametrize(("first", "second"), [("gcc", "g++"), ("clang", "clang++")])
@pytest.mark.parametrize("options", ["-g", "-gdwarf-4"])
def test_dwz_with_a_common_file(first: str, second: str, options: str) -> None:
    place = folder()
    for name, compiler, source in (("a", first, "names.c"), ("b", second, "names.cc"), ("c", second, "names.cc")):
        shutil.copy(built(compiler, f"-O2 {options}", source), place / name)
    run("dwz", "-m", "common", "-M", place / "common", "a", "b", "c", cwd=place)
    if not (place / "common").exists():
        pytest.skip("dwz found nothing in common")
    check(place / "a", built(first, f"-O2 {options}", "names.c"))
    check(place / "b", built(second, f"-O2 {options}", "names.cc"))


@pytest.mark.parametrize(("compiler", "source"), mostly_slow(COMPILERS, 2))
@pytest.mark.parametrize("way", ["objcopy", "eu-strip", "compressed"])
def test_separate_debug_files(way: str, compiler: str, source: str) -> None:
    plain = built(compiler, "-O2 -g", source)
    place = folder()
    program = place / "program"
    if way == "eu-strip":
        run("eu-strip", "-o", program, "-f", place / "program.debug", plain, cwd=place)
    else:
        compress = ["--compress-debug-sections"] if way == "compressed" else []
        run("objcopy", "--only-keep-debug", *compress, plain, place / "program.debug", cwd=place)
        run("objcopy", "--strip-all", "--add-gnu-debuglink=program.debug", plain, program, cwd=place)
    check(program, plain)


@pytest.mark.parametrize("style", ["zlib", "zlib-gnu", "zstd"])
def test_sections_compressed_afterwards(style: str) -> None:
    plain = built("g++", "-O2 -g", "names.cc")
    program = folder() / "program"
    run("objcopy", f"--compress-debug-sections={style}", plain, program, cwd=program.parent)
    check(program, plain)


# Objects

ONE_SECTION = "-fno-toplevel-reorder -fno-reorder-functions -fno-reorder-blocks-and-partition -fno-ipa-cp"
OBJECTS = [
    ("gcc", "names.c", f"-O2 {ONE_SECTION}"),
    ("clang", "names.c", "-O2"),
    ("gcc", "names.c", f"-O2 -gz=zlib {ONE_SECTION}"),
    ("gcc", "names.c", "-O0"),
    ("clang", "names.c", "-O0 -m32"),
    ("clang", "names.c", "-O0 -gdwarf-4"),
]


@pytest.mark.parametrize(("compiler", "source", "options"), OBJECTS)
def test_objects(compiler: str, source: str, options: str) -> None:
    """An object's relocations are not applied yet. Its ``.text`` begins at 0, and is asked alone."""
    path = built(compiler, f"-g -c {options}", source)
    code = next(code for name, _, code in text(path) if name == ".text")
    check(path, judges=LLVM, addresses=range(len(code)), inlined="-O2" in options)


# Assembler


@pytest.mark.parametrize("options", ["-g", "-gdwarf-4", "-gdwarf-3", "-gdwarf-2", "-Wa,-gdwarf-5", "-gz=zlib"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_assembler(compiler: str, options: str) -> None:
    check(built(compiler, f"-shared -nostdlib {options}", "names.S"), inlined=False)


def test_assembler_and_c_together() -> None:
    check(built("gcc", "-O2 -g", "names.c", "names.S"))


# Other machines

MACHINES = ["aarch64", "arm", "powerpc64le", "riscv64", "s390x", "i686"]
GNU = {"arm": "arm-linux-gnueabihf"}


def crosses() -> list[tuple[str, str, str]]:
    """Compiler, source and options for each machine, those of big-endian s390x first."""
    return [
        (
            f"{GNU.get(machine, f'{machine}-linux-gnu')}-{language}",
            f"names.{'c' if language == 'gcc' else 'cc'}",
            options,
        )
        for machine, language, options in product(
            ["s390x", *(machine for machine in MACHINES if machine != "s390x")],
            ("gcc", "g++"),
            ("-O2 -gdwarf-5", "-O2 -gdwarf-4", "-O0 -gdwarf-2"),
        )
    ]


@pytest.mark.parametrize(("compiler", "source", "options"), mostly_slow(crosses(), 2))
def test_machines(compiler: str, source: str, options: str) -> None:
    check(
        built(
            compiler,
            f"-shared -nostdlib -fPIC -fno-use-cxa-atexit {options}"
            if source.endswith("cc")
            else f"-shared -nostdlib -fPIC {options}",
            source,
        ),
        inlined="-O2" in options,
    )


TARGETS = [
    "aarch64-linux-gnu",
    "mips-linux-gnu",
    "mips64el-linux-gnuabi64",
    "powerpc64-linux-gnu",
    "powerpc-linux-gnu",
    "riscv32-linux-gnu",
    "riscv64-linux-gnu",
    "sparcv9-linux-gnu",
    "hexagon-linux-musl",
]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("source", ["names.c", "names.cc"])
def test_machines_of_clang(target: str, version: int, source: str) -> None:
    """Machines that nothing else here builds for."""
    linking = "-shared -nostdlib -fPIC -fuse-ld=lld -fintegrated-as"
    compiler = "clang" if source == "names.c" else "clang++"
    check(built(compiler, f"--target={target} {linking} -O2 -gdwarf-{version}", source))


# Other languages


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", ["-g -O", "-g", "-g -C opt-level=3 -C lto=fat -C codegen-units=1", "-C debuginfo=1 -O"]
)
@pytest.mark.parametrize("mangling", ["legacy", "v0"])
def test_rust(options: str, mangling: str) -> None:
    place = folder()
    words = [*options.split(), "-C", f"symbol-mangling-version={mangling}", "-Z", "unstable-options"]
    run("rustc", *words, "-o", place / "program", SOURCES / "names.rs", cwd=place, RUSTC_BOOTSTRAP="1")
    check(place / "program")


GOS = sorted({shutil.which("go") or "/usr/local/go/bin/go", *glob.glob("/usr/lib/go-*/bin/go")})


@pytest.mark.slow
@pytest.mark.parametrize("go", GOS)
@pytest.mark.parametrize("flags", ["", "-ldflags=-compressdwarf=false", "-gcflags=-N -l"])
def test_go(go: str, flags: str) -> None:
    if not Path(go).exists():
        pytest.skip(f"{go} is not installed")
    place = folder()
    run(go, "build", *filter(None, [flags]), "-o", place / "program", SOURCES / "names.go", cwd=place)
    check(place / "program", addresses=own_code(place / "program", "main."), inlined=False)


def own_code(path: Path, prefix: str) -> list[int]:
    """The addresses of the functions whose names begin so, and some of all others."""
    own = [
        address
        for name, start, size in code_symbols(path)
        if name.startswith(prefix)
        for address in range(start, start + size)
    ]
    assert own
    return sorted({*own, *addresses_of(path)})


def test_the_judges_are_here() -> None:
    """Says once why the others were skipped."""
    for judge in BOTH:
        tool(judge)
