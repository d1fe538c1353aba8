"""The layout of an object file against the linker, told to put every section where clew lays it out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from clew.image import Image

TOOLS = [shutil.which(name) for name in ("gcc", "ld", "objcopy")]

pytestmark = pytest.mark.skipif(None in TOOLS, reason="gcc and binutils are not installed")

SOURCE = """
static int zero;
int table[4] = {1, 2, 3, 4};
int *pointer = &table[2];
__attribute__((noinline)) int one(int a) { return table[a & 3] + zero++; }
int two(int a) { switch (a) { case 0: return one(1); case 1: return 7; case 2: return one(3); case 3: return 9;
                              case 4: return one(5); case 5: return one(6) + 1; } return *pointer; }
int (*functions[])(int) = {one, two};
"""


@pytest.mark.parametrize("options", ["-O1", "-O2 -ffunction-sections -fdata-sections", "-Os -gdwarf-4"])
def test_relocated_sections_are_what_the_linker_makes(options: str, tmp_path: Path) -> None:
    source, built, script, linked = (tmp_path / name for name in ("a.c", "a.o", "a.ld", "a.out"))
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-c", "-g", "-fno-pie", *options.split(), "-o", built, source], check=True)
    # The linker rewrites .eh_frame and merges strings, unless it does not know that they are such.
    plain = [f"--set-section-flags={name}=contents,debug" for name in (".debug_str", ".debug_line_str")]
    subprocess.run(["objcopy", "--rename-section=.eh_frame=.kept", *plain, built], check=True)
    with Image.open(built) as image:
        placed = [each for each in image.sections if each.allocated and each.size and each.name[:5] != ".note"]
        lines = [
            f"  {each.name} {each.layout_address:#x} : {{ *({each.name}) }}"
            for each in sorted(placed, key=lambda each: each.layout_address)
        ]
        script.write_text("SECTIONS {\n" + "\n".join(lines) + "\n  /DISCARD/ : { *(.note*) }\n}\n")
        command = ["ld", "--no-ld-generated-unwind-info", "--no-relax", "-e", "0", "-T", script, "-o", linked, built]
        subprocess.run(command, check=True, capture_output=True)
        with Image.open(linked) as output:
            compared = []
            for section in image.sections:
                other = output.section(section.name)
                # The linker knows how to relocate machine code, and clew does not.
                if section.index not in image.relocation_sections or section.executable or other is None:
                    continue
                assert section.layout_address == other.address or not section.allocated
                assert bytes(section.data_at_layout) == bytes(other.data), section
                compared.append(section.name)
            assert {".kept", ".debug_info", ".debug_aranges", ".debug_line"} <= set(compared)
            functions = image.symbols()
            for index in functions.functions().tolist():
                [found] = output.symbols().find(functions.name_bytes(index))
                assert functions.address[index] == output.symbols().address[found]
