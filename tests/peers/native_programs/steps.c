/* Short, as each instruction takes a while: calls of all kinds; with an argument, also handlers of signals. */
#define _GNU_SOURCE
#include <alloca.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUNCTION __attribute__((noinline, noclone))
volatile int v;

FUNCTION int leaf(int a) { return a * 3 + v; }
FUNCTION int compare(const void *a, const void *b) { v++; return leaf(*(int *)a) - leaf(*(int *)b); }
FUNCTION int sort(int n) { int x[4] = {4, 3, n, 1}; qsort(x, 4, sizeof *x, compare); return x[0] + v; }
FUNCTION int lay(int n) { char *p = alloca(n * 16 + 8); memset(p, n, n * 16); int r = sort(n) + p[3]; v += p[1]; return r; }
FUNCTION int align(int n) { _Alignas(64) volatile char b[64]; b[n] = n; int r = lay(n) + b[3]; v++; return r; }
FUNCTION int recurse(int n) { volatile char b[40]; b[0] = n; int r = n ? recurse(n - 1) : align(5); return r + b[0]; }

static void informed(int number, siginfo_t *information, void *context) { v += leaf(number); }
static void plain(int number) { v += leaf(number); }

FUNCTION static void prepare(void) {
    static char space[1 << 14];
    stack_t other = {.ss_sp = space, .ss_size = sizeof space};
    struct sigaction action;
    sigaltstack(&other, 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = plain;
    sigaction(SIGUSR1, &action, 0);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, 0);
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    action.sa_sigaction = informed;
    sigaction(SIGALRM, &action, 0);
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGVTALRM, &action, 0);
}

FUNCTION static int go(int argc) {
    struct timespec t = {0, 0};
    unsigned cpu, node;
    int r = recurse(argc > 1 ? 1 : 3);
    if (argc < 2) {
        /* Begins anew whenever the kernel sets the clock: for ever, where handlers run after each few instructions. */
        clock_gettime(CLOCK_MONOTONIC, &t);
        clock_gettime(CLOCK_REALTIME_COARSE, &t);
    }
    time(0);
    getcpu(&cpu, &node);
    sched_yield();
    raise(SIGCONT);
    return r & (t.tv_sec & 1);
}

/* Signals come only when this has begun: their handlers are there then. */
FUNCTION int begun(int argc) { return go(argc); }

int main(int argc, char **argv) {
    if (argc > 1)
        prepare();
    return begun(argc);
}
