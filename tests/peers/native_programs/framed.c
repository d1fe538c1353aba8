/* Functions that have frame pointers and no tables. Each notes where it returns to. */
#include "truth.h"
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int v = 1, *volatile nowhere;
static const char *mode = "";

FUNCTION static void stop(void) {
    ENTERED;
    shadow_of_this_thread();
    puts("ready");
    fflush(stdout);
    if (getenv("ABORT"))
        abort();
    for (;;)
        pause();
}

static void handler(int number, siginfo_t *information, void *context) {
    ENTERED;
    v += number + (information == context);
    stop();
    LEAVING;
}

FUNCTION static int leaf(int a) {
    ENTERED;
    if (!strcmp(mode, "signal"))
        v += *nowhere;
    else
        stop();
    LEAVING;
    return a;
}

FUNCTION static int compare(const void *a, const void *b) {
    ENTERED;
    int r = leaf(*(const int *)a) - *(const int *)b;
    LEAVING;
    return r;
}

FUNCTION static int sort(int n) {
    ENTERED;
    int x[4] = {4, 3, n, 1};
    qsort(x, 4, sizeof *x, compare);
    LEAVING;
    return x[0] + v;
}

FUNCTION static int lay(int n) {
    ENTERED;
    _Alignas(64) volatile char b[64];
    char *p = alloca(n * 16 + 8);
    memset(p, n, n * 16);
    b[n] = n;
    int r = sort(n) + p[3] + b[1];
    LEAVING;
    return r;
}

FUNCTION static int recurse(int n) {
    ENTERED;
    int r = n ? recurse(n - 1) : lay(5);
    r += v;
    LEAVING;
    return r;
}

int main(int argc, char **argv) {
    ENTERED;
    struct sigaction action;
    mode = argc > 1 ? argv[1] : "";
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = handler;
    sigaction(SIGSEGV, &action, 0);
    int r = recurse(4);
    LEAVING;
    return r;
}
