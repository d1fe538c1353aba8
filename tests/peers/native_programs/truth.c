#define _GNU_SOURCE
#include "truth.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

__thread void *shadow[1 << 16];
__thread int depth;

/* Without stdio, whose locks a handler must not wait for; one write a line, so that threads do not mix. */
static void line(const char *format, ...) {
    char text[400];
    va_list list;
    va_start(list, format);
    int size = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (write(1, text, size) != size)
        _exit(3);
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *argument) {
    int before = 0;
    unsigned long pc = _Unwind_GetIPInfo(context, &before);
    if (pc == 0) /* libgcc calls once more behind the outermost frame */
        return _URC_NO_REASON;
    char text[200];
    int size = 0;
    static const int saved[] = {3, 6, 12, 13, 14, 15};
    for (int i = 0; i < 6; i++)
        size += snprintf(text + size, sizeof text - size, " %lx", (unsigned long)_Unwind_GetGR(context, saved[i]));
    line("frame %ld %lx %d %lx%s\n", syscall(SYS_gettid), pc, before, (unsigned long)_Unwind_GetCFA(context), text);
    return _URC_NO_REASON;
}

void frames_of_this_thread(void) { _Unwind_Backtrace(frame, 0); }

void shadow_of_this_thread(void) {
    char text[2000];
    int size = 0;
    for (int i = depth - 1; i >= 0 && size < 1900; i--)
        size += snprintf(text + size, sizeof text - size, " %lx", (unsigned long)shadow[i]);
    printf("shadow %ld%s\n", syscall(SYS_gettid), text);
    fflush(stdout);
}

static void stay(void) {
    if (getenv("ABORT"))
        abort();
    for (;;)
        pause();
}

__attribute__((noinline)) void truth(void) {
    _Unwind_Backtrace(frame, 0);
    line("ready\n");
    stay();
    __asm__ volatile("");
}

__attribute__((noinline)) void truth_of_threads(int count) {
    static int arrived;
    _Unwind_Backtrace(frame, 0);
    if (__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST) == count) {
        line("ready\n");
        stay();
    }
    for (;;)
        pause();
}
