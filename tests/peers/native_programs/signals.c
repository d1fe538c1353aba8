/* Stacks that signals interrupted. The mode says where, and how the handler was asked for. */
#define _GNU_SOURCE
#include "truth.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <time.h>
#include <unistd.h>

volatile int v, *volatile nowhere;
static const char *mode;

FUNCTION static void report(ucontext_t *context) {
    char text[600];
    int size = snprintf(text, sizeof text, "interrupted");
    for (int i = 0; i < 18; i++) /* r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags */
        size += snprintf(text + size, sizeof text - size, " %llx", context->uc_mcontext.gregs[i]);
    size += snprintf(text + size, sizeof text - size, "\n");
    if (write(1, text, size) != size)
        _exit(3);
}

FUNCTION static void deep(int n) {
    volatile char b[100];
    b[n] = n;
    if (n)
        deep(n - 1);
    else
        truth();
    b[n]++;
}

static void with_information(int number, siginfo_t *information, void *context) {
    report(context);
    deep(2);
    v += number + information->si_signo;
}

static void plain(int number) {
    deep(1);
    v += number;
}

static void nesting(int number) {
    v++;
    raise(SIGUSR2);
    v += number;
}

/* In a leaf without a frame, as the optimizer makes it. */
FUNCTION static int fault(int a) { return a + *nowhere; }

/* At a function's very first instruction, whose address must be looked up as it is. */
__asm__(".text\n.type first, @function\nfirst:\n.cfi_startproc\nud2\nret\n.cfi_endproc\n.size first, .-first\n");
void first(void);

FUNCTION static int compare(const void *a, const void *b) {
    return fault(*(const int *)a) - *(const int *)b;
}

FUNCTION static int sort(int n) {
    int x[4] = {4, 3, n, 1};
    qsort(x, 4, sizeof *x, compare);
    return x[0] + v;
}

FUNCTION static int run(int n) {
    volatile char b[50];
    b[n] = n;
    if (n)
        return run(n - 1) + b[n];
    if (!strcmp(mode, "raise") || !strcmp(mode, "plain") || !strcmp(mode, "nested"))
        raise(SIGUSR1);
    else if (!strcmp(mode, "first"))
        first();
    else if (!strcmp(mode, "nowhere"))
        ((void (*)(void))nowhere)();
    else if (!strcmp(mode, "alarm")) {
        struct timespec long_time = {1000, 0};
        alarm(1);
        nanosleep(&long_time, 0);
    } else if (!strcmp(mode, "fault"))
        return fault(n);
    else
        return sort(n) + fault(n);
    return b[n];
}

FUNCTION static int endless(int n) {
    volatile char b[5000];
    b[n & 1023] = n;
    return endless(n + 1) + b[7];
}

int main(int argc, char **argv) {
    struct sigaction action;
    mode = argc > 1 ? argv[1] : "fault";
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    static char space[1 << 16];
    if (argc > 2) {
        stack_t other = {.ss_sp = space, .ss_size = sizeof space};
        sigaltstack(&other, 0);
        action.sa_flags = SA_ONSTACK;
    }
    if (!strcmp(mode, "plain")) {
        action.sa_handler = plain;
    } else if (!strcmp(mode, "nested")) {
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = with_information;
        sigaction(SIGUSR2, &action, 0);
        action.sa_flags &= ~SA_SIGINFO;
        action.sa_handler = nesting;
    } else {
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = with_information;
    }
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGILL, &action, 0);
    return strcmp(mode, "overflow") ? run(3) : endless(0);
}
