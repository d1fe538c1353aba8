/* One call chain through what compilers do to frames. */
#define _GNU_SOURCE
#include "truth.h"
#include <alloca.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

volatile int v = 1;
static const char *mode = "";

FUNCTION __attribute__((noreturn)) static void last(int a) {
    volatile char b[24];
    b[0] = a;
    truth();
    __builtin_unreachable();
}

/* The call is the function's last instruction: its return address is another function's. */
FUNCTION __attribute__((noreturn)) static void tail(int a) { v += a; last(a + v); }

FUNCTION static int variadic(int n, ...) {
    va_list list;
    va_start(list, n);
    double d = va_arg(list, double);
    int i = va_arg(list, int);
    va_end(list);
    if (v > 0)
        tail(i + d);
    return n;
}

FUNCTION static int aligned(int n) {
    _Alignas(64) volatile char b[128];
    b[n & 7] = n;
    return variadic(n, 1.5, n) + b[3];
}

/* Both: the frame's size is not known, and the stack pointer is rounded. */
FUNCTION static int aligned_alloca(int n) {
    _Alignas(128) volatile char b[128];
    volatile char *p = alloca(n * 8 + 8);
    b[n & 7] = p[n & 3] = n;
    return aligned(n + b[1]) + p[1];
}

FUNCTION static int many(long a, long b, long c, long d, long e, long f, long g, long h, long i) {
    /* Everything alive over the call, so that every callee-saved register is used. */
    long x = a * v, y = b * v, z = c * v, u = d * v, w = e * v, t = f * v;
    int r = aligned_alloca((int)i);
    return r + x + y * 2 + z * 3 + u * 4 + w * 5 + t * 6 + g + h;
}

FUNCTION static int compare(const void *a, const void *b) {
    return many(1, 2, 3, 4, 5, 6, 7, 8, 9) + *(const int *)a - *(const int *)b;
}

FUNCTION static int sort(int n) {
    int x[5] = {4, 3, n, 1, 2};
    qsort(x, 5, sizeof *x, compare);
    return x[0] + v;
}

FUNCTION static void visit(const void *node, VISIT order, int level) {
    if (order == leaf || order == postorder)
        v += sort(level + *(*(const int **)node));
}

FUNCTION static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

FUNCTION static int tree(int n) {
    void *root = 0;
    static int keys[] = {2, 1, 3};
    for (int i = 0; i < 3; i++)
        tsearch(&keys[i], &root, order);
    twalk(root, visit);
    return n + v;
}

FUNCTION static int vla(int n) {
    volatile char b[n * 3 + 1];
    memset((char *)b, n, sizeof b);
    int r = tree(n);
    return r + b[n];
}

FUNCTION static int lay(int n) {
    char *p = alloca(n * 16 + 8);
    memset(p, n, n * 16);
    int r = vla(n + 3) + p[3];
    v += p[1];
    return r;
}

FUNCTION static int recurse(int n) {
    volatile char b[40];
    b[n & 31] = n;
    int r = n ? recurse(n - 1) : lay(5);
    return r + b[0];
}

static void at_exit(void) { recurse(2); }
__attribute__((constructor)) static void constructed(int argc, char **argv) {
    mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "constructor"))
        recurse(2);
}

int main(void) {
    if (!strcmp(mode, "exit")) {
        atexit(at_exit);
        return 0;
    }
    return recurse(7);
}
