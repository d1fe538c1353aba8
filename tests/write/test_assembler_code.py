"""Instructions: what the assembler makes of the text is what is written as bytes."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from compiled_runs import compiled, frame_of, information, mismatches
from test_compiled_terms import ARITHMETIC, BRANCHES, PLAIN, SHAPES, table

from clew.arch import machine_named
from clew.errors import UsageError
from clew.table import AtCfa, RegisterPlus, Rule, table_of
from clew.write.assembler import assemble, shared_object
from clew.write.assembler.code import Code
from clew.write.assembler.operands import RAX, At
from clew.write.compiled import abi_of, plan
from clew.write.compiled.abi import AbiName

needs_binutils = pytest.mark.skipif(shutil.which("as") is None or shutil.which("ld") is None, reason="no binutils")
EVERY = range(16)
X86_64 = machine_named("x86-64")


def assembled(lines: list[str], folder: Path) -> bytes:
    """The bytes that GNU's assembler makes of a text."""
    (folder / "it.s").write_text(".intel_syntax noprefix\n" + "\n".join(lines) + "\n")
    subprocess.run(["as", "-o", folder / "it.o", folder / "it.s"], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", folder / "it.o", folder / "it.bin"], check=True)
    return (folder / "it.bin").read_bytes()


def places() -> list[At]:
    chance = random.Random(1)
    plain = [At(base, offset) for base, offset in product(EVERY, (0, 8, -128, 127, 128, -(1 << 31), (1 << 31) - 1))]
    # rsp is no index.
    indexed = [At(base, chance.choice([0, 4, -300]), index, 1 << index % 4) for base, index in product(EVERY, EVERY)]
    return plain + [at for at in indexed if at.index != 4]


@needs_binutils
def test_every_operand(tmp_path: Path) -> None:
    code = Code(None)
    for place in places():
        register = (place.base * 5 + place.displacement) % 16
        code.load(register, place)
        code.load32(register, place)
        code.load_small(register, place, 1)
        code.load_small(register, place, 2)
        code.store(place, register)
        code.store8(place, register)
        code.store_byte(place, 0x80)
        code.address(register, place)
        code.push_at(place)
        code.decrement(place)
    for a, b in product(EVERY, EVERY):
        code.move(a, b)
        code.move32(a, b)
        code.multiply(a, b)
        code.move_if("a", a, b)
        for name in ("add", "or", "and", "sub", "xor", "cmp"):
            code.arithmetic(name, a, b)
            code.arithmetic32(name, a, b)
    assert assembled(code.text, tmp_path) == bytes(code.data)


@needs_binutils
def test_every_number(tmp_path: Path) -> None:
    code = Code(None)
    numbers = [0, 1, 127, 128, -1, -128, -129, (1 << 31) - 1, -(1 << 31)]
    for register, number in product(EVERY, numbers):
        for name in ("add", "or", "and", "sub", "xor", "cmp"):
            code.immediate(name, register, number)
            if number >= 0:
                code.immediate(name, register, number, wide=False)
        code.push_constant(number)
    for register, number in product(EVERY, [*numbers, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 5]):
        code.constant(register, number)
    for register in EVERY:
        code.push(register)
        code.pop(register)
        code.test(register)
        code.test32(register)
        code.call_to(register)
        code.jump_to(register)
        for name in ("not", "neg", "div", "idiv"):
            code.unary(name, register)
            code.unary(name, register, wide=False)
        for name, count in product(("shl", "shr", "sar"), (None, 1, 4, 63)):
            code.shift(name, register, count)
        code.shift("shl", register, 4, wide=False)
    for bit in range(17):
        code.test_bit(At(3, -64), bit)
    for condition in ("b", "ae", "e", "ne", "be", "a", "s", "ns", "l", "ge", "le", "g"):
        code.set_al(condition)
    code.extend_al()
    code.extend_sign()
    code.test_al()
    code.ret()
    assert assembled(code.text, tmp_path) == bytes(code.data)


def test_any_number_is_added() -> None:
    code = Code()
    code.add(3, 0, RAX)
    code.add(3, 1 << 64, RAX)
    assert not code.data
    code.add(3, (1 << 64) - 1, RAX)
    assert code.text == ["\tadd rbx, -1"]


def _instructions(path: Path) -> list[str]:
    """The disassembly without addresses."""
    out = subprocess.run(
        ["objdump", "-d", "-Mintel", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    )
    lines = [line.split("\t")[1] for line in out.stdout.splitlines() if re.match(r" *[0-9a-f]+:\t", line)]
    short = [re.sub(r"(j\w+|call) +[0-9a-f]+ .*", r"\1", re.sub(r"\[rip\+.*", "[rip]", line)).strip() for line in lines]
    return [line for line in short if line not in ("int3", "nop")]


@needs_binutils
@pytest.mark.parametrize("deref", [False, True])
@pytest.mark.parametrize("abi", ["full", "paper"])
def test_the_source_is_the_same_function(abi: AbiName, deref: bool, tmp_path: Path) -> None:
    what = table([*PLAIN, *ARITHMETIC, *SHAPES, *BRANCHES])
    made = plan(what, abi_of(X86_64, abi))
    function = assemble(made, information(made, deref), deref=deref)
    (tmp_path / "it.s").write_text("\n".join(function.text()) + "\n")
    subprocess.run(["as", "-o", tmp_path / "it.o", tmp_path / "it.s"], check=True)
    subprocess.run(["ld", "-shared", "-o", tmp_path / "it.so", tmp_path / "it.o"], check=True)
    (tmp_path / "ours.so").write_bytes(shared_object(function))
    assert _instructions(tmp_path / "it.so") == _instructions(tmp_path / "ours.so")
    data = (tmp_path / "it.so").read_bytes()
    assert mismatches(what, data, what.start, frame_of(X86_64), tmp_path, abi=abi, deref=deref) == []


@needs_binutils
def test_the_source_of_many_bodies(tmp_path: Path) -> None:
    """Targets that are shifted, as the bodies have more than 64 KiB."""
    rules = [Rule(RegisterPlus(7, 8 * n), ((6, AtCfa(-16)), (16, AtCfa(-8))), 16) for n in range(1200)]
    what = table_of(X86_64, [(0x1000 + n, 0x1001 + n, each) for n, each in enumerate(rules)])
    made = plan(what, abi_of(X86_64))
    function = assemble(made, information(made, True), deref=True)
    assert function.shift
    (tmp_path / "it.s").write_text("\n".join(function.text()) + "\n")
    subprocess.run(["as", "-o", tmp_path / "it.o", tmp_path / "it.s"], check=True)
    subprocess.run(["ld", "-shared", "-o", tmp_path / "it.so", tmp_path / "it.o"], check=True)
    data = (tmp_path / "it.so").read_bytes()
    assert mismatches(what, data, np.arange(0xFFF, 0x1501, dtype=np.uint64), frame_of(X86_64), tmp_path) == []


@needs_binutils
def test_readelf_finds_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "it.so"
    path.write_bytes(compiled(table(PLAIN), "asm", "full", True))
    out = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True, env={"LC_ALL": "C"})
    assert out.stderr == ""
    assert "Warning" not in out.stdout
    assert re.search(r"FUNC +GLOBAL DEFAULT +\d+ clew_unwind$", out.stdout, re.MULTILINE)
    assert re.search(r"OBJECT +GLOBAL DEFAULT +\d+ clew_unwind_information$", out.stdout, re.MULTILINE)
    # No segment can be written and run.
    assert not re.search(r"^  LOAD .* (RWE|WE) ", out.stdout, re.MULTILINE)


def test_another_machine() -> None:
    aarch64 = machine_named("aarch64")
    made = plan(table_of(aarch64, []), abi_of(aarch64))
    with pytest.raises(UsageError) as raised:
        assemble(made, information(made, False))
    assert raised.value.hint == "--backend c compiles it"
    with pytest.raises(UsageError, match="the paper's context"):
        abi_of(aarch64, "paper")
    with pytest.raises(UsageError, match="x86-64 and aarch64, and this is i386"):
        abi_of(machine_named("i386"))
