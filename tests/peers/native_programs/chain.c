/* A known sequence of calls, for a C library that has no unwind tables: first, second, third, and a loop or a wait;
   or in a handler that a signal calls in third. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))
volatile int v, waiting, *volatile nowhere;

FUNCTION static int stay(int n) {
    puts("ready");
    fflush(stdout);
    while (waiting)
        pause();
    for (;;)
        v++;
    return n;
}
static void handler(int number) { v = stay(number); }
FUNCTION static int third(int n) {
    volatile char b[30];
    b[n & 15] = n;
    int r = n > 100 ? *nowhere : stay(n);
    return r + b[1];
}
FUNCTION static int second(int n) { return third(n + v) + n; }
FUNCTION static int first(int n) { return second(n * 2) - n; }
int main(int argc, char **argv) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGSEGV, &action, 0);
    waiting = argc > 2;
    return first(argc > 1 && !strcmp(argv[1], "signal") ? 100 : 1) + v;
}
