"""The C that is written: its form, whatever names and tables come in, and what compilers say of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from compiled_runs import compiled, frame_of, information, mismatches
from test_compiled_terms import ARITHMETIC, BRANCHES, PLAIN, SHAPES, table

from clew.arch import machine_named
from clew.errors import DependencyError, Error, UsageError
from clew.table import AtCfa, RegisterPlus, Rule, table_of
from clew.write.c import build, source
from clew.write.c.dialect import comment
from clew.write.compiled import abi_of, plan
from clew.write.compiled.abi import AbiName

X86_64 = machine_named("x86-64")
ALL = PLAIN + ARITHMETIC + SHAPES + BRANCHES
CALLED = Rule(RegisterPlus(7, 8), ((16, AtCfa(-8)),), 16)
PUSHED = Rule(RegisterPlus(7, 48), ((16, AtCfa(-8)),), 16)
PAPER = table_of(X86_64, [(0x615, 0x619, CALLED), (0x619, 0x659, PUSHED), (0x659, 0x65A, CALLED)])

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


def text(what: object, abi: AbiName = "full", *, deref: bool = False, switch: bool = False, name: str = "it") -> str:
    made = plan(what, abi_of(X86_64, abi))  # type: ignore[arg-type]
    return "\n".join(source(made, information(made, deref), name=name, deref=deref, switch=switch)) + "\n"


def test_the_example_of_the_paper() -> None:
    """Listing 1 of the paper, and figure 7: the tree, the labels, and bodies that stand once."""
    found = text(PAPER, "paper")
    function = found[found.index("unwind_context_t _eh_elf(unwind_context_t ctx, uintptr_t pc)") :]
    lines = [line.strip() for line in function.splitlines()]
    assert "if (pc < 0x619u) {" in lines
    assert "/* 0x615 ... 0x618 */" in lines
    assert function.count("goto _factor_1;") == 2
    assert function.count("_factor_1: {") == function.count("_factor_2: {") == 1
    assert "if (pc < 0x615u) goto _factor_default;" in lines
    body = function[function.index("_factor_1: {") : function.index("/* cfa = rsp+48")]
    assert [line.strip() for line in body.splitlines()] == [
        "_factor_1: {",
        "if (!(ctx.flags & 2u)) goto _factor_default;",
        "cfa = ctx.rsp + 8;",
        "ra = *(const word *)(cfa - 8);",
        "out_ctx.rsp = cfa;",
        "out_ctx.rip = ra;",
        "out_ctx.flags = (uint8_t)(3u | (ctx.flags & 12u));",
        "return out_ctx;",
        "}",
    ]
    assert "/* cfa = rsp+8  rip = *(cfa-8) -- 2 rows */" in lines


def test_the_switch_has_a_case_for_each_row() -> None:
    lines = [line.strip() for line in text(PAPER, "paper", switch=True).splitlines()]
    cases = [line for line in lines if line.startswith("case")]
    assert cases == ["case 0x615u ... 0x618u: {", "case 0x619u ... 0x658u: {", "case 0x659u ... 0x659u: {"]
    assert lines.count("cfa = ctx.rsp + 8;") == 2


@needs_compiler
@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("deref", [False, True])
@pytest.mark.parametrize("abi", ["full", "paper"])
def test_compilers_have_nothing_to_say(abi: AbiName, deref: bool, switch: bool) -> None:
    tables = [table(ALL), table_of(X86_64, []), PAPER, *(table([each]) for each in PLAIN)]
    for each in tables:
        made = text(each, abi, deref=deref, switch=switch)
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-S", "-o", "-", "-x", "c", "-"]
        done = subprocess.run(command, input=made, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]


@needs_compiler
@pytest.mark.parametrize("abi", ["full", "paper"])
def test_the_switch_does_the_same(abi: AbiName, tmp_path: Path) -> None:
    data = compiled(PAPER, "c", abi, True, switch=True)
    import numpy as np

    addresses = np.arange(0x600, 0x680, dtype=np.uint64)
    assert mismatches(PAPER, data, addresses, frame_of(X86_64), tmp_path, abi=abi) == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("deref", [False, True])
@pytest.mark.parametrize("abi", ["full", "paper"])
def test_nothing_that_c_leaves_undefined(
    abi: AbiName, deref: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc -fsanitize=undefined -fno-sanitize-recover=all")
    what = table(ALL)
    data = compiled(what, "c", abi, deref)
    assert mismatches(what, data, what.start, frame_of(X86_64), tmp_path, abi=abi, deref=deref) == []


HOSTILE = ['a"b', "*/ int x; /*", "a\nb", "a\\", "??/", "ä\u202e", "x" * 5000, "a\\\n", "/*", "*", "a*" + "/" * 300]


@needs_compiler
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_files(name: str) -> None:
    found = text(PAPER, name=name)
    assert found.isascii()
    command = ["gcc", "-trigraphs", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, input=found, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_comments_end_where_they_should() -> None:
    assert comment("a */ b /* c") == "/* a * / b / * c */"
    assert comment("a\nb") == "/* a\\nb */"
    for text_of in (*HOSTILE, "word " * 100, "*/ " * 100, "\\ " * 100):
        made = comment(text_of)
        assert made.startswith("/*")
        assert made.index("*/") == len(made) - 2


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/no/such/compiler -O2")
    with pytest.raises(DependencyError) as raised:
        build(["int x;"], X86_64)
    assert "there is no C compiler '/no/such/compiler'" in str(raised.value)
    assert raised.value.hint == "--backend asm needs no compiler"


@needs_compiler
def test_compilers_that_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"the C compiler cc failed: .*error"):
        build(["this is no C"], X86_64)
    monkeypatch.setenv("CC", "true")
    with pytest.raises(Error, match="made no file"):
        build(["int x;"], X86_64)
    monkeypatch.setenv("CC", "'")
    with pytest.raises(UsageError, match="CC cannot be read"):
        build(["int x;"], X86_64)
    if shutil.which("aarch64-linux-gnu-gcc") is not None:
        monkeypatch.setenv("CC", "aarch64-linux-gnu-gcc")
        with pytest.raises(Error, match="does not make code for x86-64"):
            build(["int x;"], X86_64)
