/* Twenty threads, each about 45 frames deep in two functions that call one another; every frame has a size of its own kind.
   Prints its process id when all wait. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 20, DEPTH = 40 };

static pthread_barrier_t ready;

long even(int left, long value);

__attribute__((noinline)) long odd(int left, long value)
{
    long some[4] = {left, value, left * value, 1};
    return even(left - 1, value + some[left & 3]) * 3 + some[1];
}

__attribute__((noinline)) long even(int left, long value)
{
    char text[64];
    if (left <= 0) {
        pthread_barrier_wait(&ready);
        for (;;)
            pause();
    }
    snprintf(text, sizeof text, "%ld", value);
    return odd(left - 1, value + text[0]) + left;
}

static void *run(void *number)
{
    return (void *)even(DEPTH, (long)number);
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, run, (void *)i))
            return 1;
    pthread_barrier_wait(&ready);
    printf("%d\n", getpid());
    fflush(stdout);
    for (;;)
        pause();
}
