/* Stacks that the program made itself. */
#include "truth.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static ucontext_t first, second, third;
static char stacks[2][1 << 16];
volatile int v;

FUNCTION static int down(int n) {
    volatile char b[64];
    b[n & 31] = n;
    if (n)
        return down(n - 1) + b[0];
    truth();
    return v;
}

static void inner(int n) {
    v += n;
    swapcontext(&third, &second); /* once back, so that it is resumed in the middle */
    down(n);
}

FUNCTION static void outer(int a, int b) {
    makecontext(&third, (void (*)(void))inner, 1, a + b);
    swapcontext(&second, &third);
    v++;
    swapcontext(&second, &third);
}

FUNCTION static void *run(void *argument) {
    getcontext(&second);
    second.uc_stack.ss_sp = stacks[0];
    second.uc_stack.ss_size = sizeof stacks[0];
    second.uc_link = &first;
    getcontext(&third);
    third.uc_stack.ss_sp = stacks[1];
    third.uc_stack.ss_size = sizeof stacks[1];
    third.uc_link = &second;
    makecontext(&second, (void (*)(void))outer, 2, 3, 4);
    swapcontext(&first, &second);
    return argument;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        pthread_t thread;
        pthread_create(&thread, 0, run, argv);
        pthread_join(thread, 0);
    } else
        run(0);
    return 0;
}
