"""What the builder of call frame information makes, as binutils' readelf reads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.testing import MOTOROLA_88000, MOTOROLA_88000_ROWS, Cfa, CfiBuilder, Op, eh_frame_hdr

pytestmark = pytest.mark.skipif(
    not (shutil.which("readelf") and shutil.which("objcopy")),
    reason="readelf and objcopy of binutils are not installed",
)


def make_object(folder: Path, sections: dict[str, tuple[bytes, int]], target: str) -> str:
    """The path of an object of sections: name to (bytes, address)."""
    (folder / "seed").write_bytes(b"\0")
    command = ["objcopy", "-I", "binary", "-O", target]
    for name, (data, address) in sections.items():
        (folder / f"section{name}").write_bytes(data)
        command += [f"--add-section={name}={folder}/section{name}", f"--change-section-address={name}={address:#x}"]
        command.append(f"--set-section-flags={name}={'alloc,' if name.startswith('.eh') else ''}readonly,data")
    subprocess.run([*command, f"{folder}/seed", f"{folder}/object"], check=True)
    return f"{folder}/object"


def readelf(folder: Path, sections: dict[str, tuple[bytes, int]], target: str, option: str = "frames") -> list[str]:
    """The lines that ``readelf --debug-dump=option`` prints about an object of sections."""
    printed = subprocess.run(
        ["readelf", "-W", f"--debug-dump={option}", make_object(folder, sections, target)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert printed.stderr == "", "readelf has nothing to warn of"
    return printed.stdout.splitlines()


def test_motorola_88000(tmp_path: Path) -> None:
    lines = readelf(tmp_path, {".debug_frame": (MOTOROLA_88000, 0)}, "elf32-big", "frames-interp")
    rows = [line.split() for line in lines[lines.index(next(line for line in lines if " FDE " in line)) :]]
    found = [
        (int(row[0], 16) - 0x1000, row[1], tuple(row[2:])) for row in rows if row and re.fullmatch("[0-9a-f]+", row[0])
    ]
    wanted = [(offset, cfa.lower(), rules) for offset, cfa, rules in MOTOROLA_88000_ROWS]
    assert found[1:] == wanted, "the first is the FDE's own line"


def test_every_instruction(tmp_path: Path) -> None:
    cfi = CfiBuilder(address=0x2000)
    cie = cfi.cie(code_alignment=2, instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    expected = {
        Cfa.advance(1): "advance_loc: 2 to 0000000000001002",
        Cfa.advance(100): "advance_loc1: 200 to 00000000000010ca",
        Cfa.advance(0x100): "advance_loc2: 512 to 00000000000012ca",
        Cfa.advance(0x10000): "advance_loc4: 131072 to 00000000000212ca",
        Cfa.set_loc(0x30000): "set_loc: 0000000000030000",
        Cfa.mips_advance_loc8(4): "MIPS_advance_loc8: 8 to 0000000000030008",
        Cfa.def_cfa_sf(6, -2): "def_cfa_sf: r6 (rbp) ofs 16",
        Cfa.def_cfa_register(7): "def_cfa_register: r7 (rsp)",
        Cfa.def_cfa_offset(300): "def_cfa_offset: 300",
        Cfa.def_cfa_offset_sf(-3): "def_cfa_offset_sf: 24",
        Cfa.undefined(0): "undefined: r0 (rax)",
        Cfa.same_value(1): "same_value: r1 (rdx)",
        Cfa.offset(3, 2): "offset: r3 (rbx) at cfa-16",
        Cfa.offset_extended(130, 3): "offset_extended: bad register: r130 at cfa-24",
        Cfa.offset_extended_sf(12, -4): "offset_extended_sf: r12 (r12) at cfa+32",
        Cfa.gnu_negative_offset_extended(13, 1): "GNU_negative_offset_extended: r13 (r13) at cfa+8",
        Cfa.val_offset(7, 1): "val_offset: r7 (rsp) is cfa-8",
        Cfa.val_offset_sf(7, -1): "val_offset_sf: r7 (rsp) is cfa+8",
        Cfa.register(16, 2): "register: r16 (rip) in r2 (rcx)",
        Cfa.restore(3): "restore: r3 (rbx)",
        Cfa.restore_extended(12): "restore_extended: r12 (r12)",
        Cfa.remember_state: "remember_state",
        Cfa.restore_state: "restore_state",
        Cfa.gnu_args_size(16): "GNU_args_size: 16",
        Cfa.gnu_window_save: "GNU_window_save",
        Cfa.expression(3, Op.plus_uconst(8)): "expression: r3 (rbx) (DW_OP_plus_uconst: 8)",
        Cfa.val_expression(6, Op.lit(4) + Op.minus): "val_expression: r6 (rbp) (DW_OP_lit4; DW_OP_minus)",
        Cfa.def_cfa_expression(Op.breg(7, -8) + Op.deref): "def_cfa_expression (DW_OP_breg7 (rsp): -8; DW_OP_deref)",
    }
    fde = cfi.fde(cie, start=0x1000, size=0x40000, instructions=list(expected))
    cfi.terminator()
    lines = readelf(tmp_path, {".eh_frame": (cfi.build(), 0x2000)}, "elf64-x86-64")
    header = f"{fde.offset:08x} "
    after = lines[next(i for i, line in enumerate(lines) if line.startswith(header)) :]
    assert "pc=0000000000001000..0000000000041000" in after[0]
    assert after[1 : 1 + len(expected)] == [f"  DW_CFA_{text}" for text in expected.values()]


# readelf 2.40 knows no LEB128, textrel or funcrel pointers there, and takes datarel ones as absolute.
@pytest.mark.parametrize("encoding", [0x00, 0x02, 0x03, 0x04, 0x0A, 0x0B, 0x0C, 0x10, 0x1B, 0x1C])
# In a 64-bit .eh_frame it counts the CIE pointer from four bytes behind its start; see the test with LLVM below.
@pytest.mark.parametrize(("kind", "dwarf64"), [("eh_frame", False), ("debug_frame", False), ("debug_frame", True)])
def test_pointers_and_forms(tmp_path: Path, encoding: int, kind: str, dwarf64: bool) -> None:
    address = 0x2000 if kind == "eh_frame" else 0
    cfi = CfiBuilder(kind, address=address, dwarf64=dwarf64)  # type: ignore[arg-type]
    cie = cfi.cie(augmentation="zPLR", fde_encoding=encoding, lsda_encoding=0x0B, personality=(0x0B, 0x44), later=False)
    cfi.fde(cie, start=0x1230, size=0x20, lsda=0x5566)
    late = cfi.cie(augmentation="zR", fde_encoding=encoding, later=True)
    cfi.fde(late, start=0x1250, size=0x20)
    cfi.place(late)
    text = "\n".join(readelf(tmp_path, {f".{kind}": (cfi.build(), address)}, "elf64-x86-64"))
    assert f"Augmentation data:     0b 44 00 00 00 0b {encoding:02x}" in text
    assert re.findall("pc=0*([0-9a-f]+)[.][.]0*([0-9a-f]+)", text) == [("1230", "1250"), ("1250", "1270")]
    assert "Augmentation data:     66 55 00 00" in text
    assert text.count(" CIE") == 2


@pytest.mark.skipif(not shutil.which("llvm-dwarfdump"), reason="llvm-dwarfdump is not installed")
def test_64_bit_eh_frame(tmp_path: Path) -> None:
    cfi = CfiBuilder(address=0x2000, dwarf64=True, cie_pointer_size=4)
    cie = cfi.cie(instructions=[Cfa.def_cfa(7, 8), Cfa.offset(16, 1)])
    cfi.fde(cie, start=0x1000, size=0x20, instructions=[Cfa.advance(1), Cfa.def_cfa_offset(16)])
    cfi.terminator()
    file = make_object(tmp_path, {".eh_frame": (cfi.build(), 0x2000)}, "elf64-x86-64")
    text = subprocess.run(["llvm-dwarfdump", "--eh-frame", file], check=True, capture_output=True, text=True).stdout
    assert "FDE cie=00000000 pc=00001000...00001020" in text
    assert "0x1001: CFA=RSP+16: RIP=[CFA-8]" in text


def test_search_header(tmp_path: Path) -> None:
    """The header that the linker made for readelf itself, made again from its contents."""
    own = tmp_path / "own"
    subprocess.run(
        ["objcopy", f"--dump-section=.eh_frame_hdr={own}", shutil.which("readelf") or "", f"{tmp_path}/copy"],
        check=True,
    )
    wanted = own.read_bytes()
    if wanted[:4] != bytes.fromhex("011b033b"):
        pytest.skip("this readelf's header is of another form")
    listed = subprocess.run(
        ["readelf", "-SW", shutil.which("readelf") or ""], check=True, capture_output=True, text=True
    )
    places = dict(re.findall(r"\] (\.eh_frame\S*) +PROGBITS +([0-9a-f]+)", listed.stdout))
    address = int(places[".eh_frame_hdr"], 16)
    numbers = [int.from_bytes(wanted[i : i + 4], "little", signed=True) + address for i in range(12, len(wanted), 4)]
    entries = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert eh_frame_hdr(entries[::-1], address=address, eh_frame=int(places[".eh_frame"], 16)) == wanted
