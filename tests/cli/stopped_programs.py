"""Programs for the commands that look at something stopped: they stand still in known places."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile int arrived;

/* A function that says nothing of its frame, and uses the frame pointer for something else. */
#ifdef __x86_64__
__asm__(".text\n.type bare,@function\nbare:\n push $0\n push $0\n push $0\n mov $1, %ebp\n call *%rdi\n"
        " add $24, %rsp\n ret\n.size bare, .-bare\n");
void bare(int (*)(void));
#else
static void bare(int (*function)(void)) { function(); }
#endif

static void say(void) { puts("ready"); fflush(stdout); }

__attribute__((noinline)) static int inner(void) { pause(); return arrived; }
__attribute__((noinline)) static int outer(void) { return inner() + 1; }

static void *run(void *name) {
    prctl(PR_SET_NAME, name);
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    return (void *)(long)outer();
}

__attribute__((noinline)) static int deep(int n) {
    if (n == 0) { say(); return inner(); }
    return deep(n - 1) + n;
}

/* Code in anonymous memory that a perf map names: as bare() above. */
static void compiled(void) {
    unsigned char code[] = {0x48, 0x83, 0xec, 0x18, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3};
    unsigned char *memory = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %x py::hot\n", (long)memory, (int)sizeof code);
    fclose(map);
    say();
    ((void (*)(int (*)(void)))memory)(pause);
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (!strcmp(argv[1], "deep")) return deep(atoi(argv[2]));
    if (!strcmp(argv[1], "bare")) { say(); bare(pause); }
    if (!strcmp(argv[1], "jit")) compiled();
    if (!strcmp(argv[1], "threads")) {
        pthread_create(&thread, 0, run, "first");
        pthread_create(&thread, 0, run, "second");
        while (arrived < 2) usleep(1000);
        say();
        inner();
    }
    return 0;
}
"""


def build(folder: Path, *options: str) -> Path:
    """The program, compiled; skips the test where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source, program = folder / "stands.c", folder / "stands"
    source.write_text(SOURCE)
    # -fno-optimize-sibling-calls: every function that is called shall have a frame.
    flags = ["-O1", "-g", "-pthread", "-fno-optimize-sibling-calls", "-fno-omit-frame-pointer", "-Wl,--build-id"]
    subprocess.run(["gcc", *flags, *options, "-o", program, source], check=True)
    return program


@contextmanager
def standing(program: Path, *arguments: str) -> Iterator[int]:
    """The number of a process that runs the program, once it stands still."""
    process = subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        _settle(process.pid)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)


def _settle(pid: int) -> None:
    """Wait until every thread sleeps."""
    for _ in range(500):
        if set(letters(pid)) == {"S"}:
            return
        time.sleep(0.01)


def letters(pid: int) -> list[str]:
    """The states of the threads of a process (proc_pid_stat(5))."""
    found = []
    for path in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found.append((path / "stat").read_text().rpartition(")")[2].split()[0])
    return found


def goes_on(pid: int) -> bool:
    """Whether no thread of the process is traced or stopped; waits a little for that to come true."""
    for _ in range(300):
        status = [(path / "status").read_text() for path in Path(f"/proc/{pid}/task").iterdir()]
        if not set(letters(pid)) & {"t", "T"} and all("TracerPid:\t0\n" in text for text in status):
            return True
        time.sleep(0.01)
    return False
