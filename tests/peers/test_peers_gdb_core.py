"""A core that gdb writes of a live process, against what gdb itself reads of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from clew.target import open_core

pytestmark = pytest.mark.skipif(
    shutil.which("gdb") is None or shutil.which("gcc") is None, reason="gdb and gcc are not installed"
)

SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *run(void *argument) { for (;;) pause(); return argument; }
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, 0, run, 0);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
"""


def gdb(*commands: str, files: tuple[str, ...] = ()) -> str:
    arguments = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *arguments, *files], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_threads_memory_and_modules(tmp_path: Path) -> None:
    source, program, core = tmp_path / "a.c", tmp_path / "a", tmp_path / "core"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-pthread", "-o", program, source], check=True)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.1)
            gdb(f"attach {process.pid}", f"generate-core-file {core}", "detach")
        finally:
            process.kill()
    with open_core(core) as target:
        assert target.problems == []
        assert {module.name for module in target.modules} > {str(program), "[vdso]"}
        assert all(module.table is not None for module in target.modules)
        shown = gdb("thread apply all x/4xg $sp", "thread apply all x/4xg $pc", files=(str(program), str(core)))
        words = re.findall(r"^(0x[0-9a-f]+)[^:]*:\t(0x[0-9a-f]+)\t(0x[0-9a-f]+)$", shown, re.MULTILINE)
        assert len(words) == 4 * 2 * 2
        for address, *values in words:
            data = b"".join(int(value, 16).to_bytes(8, target.machine.byte_order) for value in values)
            assert target.memory.read(int(address, 16), 16) == data
        shown = gdb(
            "info threads", "thread apply all p/x $pc", "thread apply all p/x $sp", files=(str(program), str(core))
        )
        values = {int(value, 16) for value in re.findall(r"= (0x[0-9a-f]+)$", shown, re.MULTILINE)}
        assert {thread.pc for thread in target.threads} <= values
        assert {thread.registers[target.machine.stack_pointer] for thread in target.threads} <= values
        assert {str(thread.id) for thread in target.threads} == set(re.findall(r"LWP (\d+)", shown))
