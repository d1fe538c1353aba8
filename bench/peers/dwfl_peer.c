/* What eu-stack does, in one process that goes on: libdwfl's modules are loaded once; for every line that comes in, it attaches,
   walks all threads, lets go, and prints the frames, and nanoseconds of time and of processor time. */
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long frames;

static long nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int on_frame(Dwfl_Frame *frame, void *unused)
{
    Dwarf_Addr pc;
    if (dwfl_frame_pc(frame, &pc, NULL))
        frames++;
    return DWARF_CB_OK;
}

static int on_thread(Dwfl_Thread *thread, void *unused)
{
    dwfl_thread_getframes(thread, on_frame, NULL);
    return DWARF_CB_OK;
}

int main(int count, char **words)
{
    static char *debug;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_linux_proc_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .debuginfo_path = &debug,
    };
    char line[16];
    pid_t pid = count > 1 ? atoi(words[1]) : 0;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (!dwfl || dwfl_linux_proc_report(dwfl, pid) || dwfl_report_end(dwfl, NULL, NULL)
        || dwfl_linux_proc_attach(dwfl, pid, false) < 0)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        long wall = nanoseconds(CLOCK_MONOTONIC), cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
        frames = 0;
        /* It attaches to each thread when its turn comes, and lets go of it after that. */
        dwfl_getthreads(dwfl, on_thread, NULL);
        printf("%ld %ld %ld\n", frames, nanoseconds(CLOCK_MONOTONIC) - wall, nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
        fflush(stdout);
    }
    return 0;
}
