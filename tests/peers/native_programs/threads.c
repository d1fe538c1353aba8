/* Many threads, each somewhere else. */
#include "truth.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 20
volatile int v = 1;

FUNCTION static long sink(long n, long m) {
    volatile char b[32];
    b[n & 15] = m;
    if (n > 0)
        return sink(n - 1, m) + b[1];
    truth_of_threads(COUNT);
    return v;
}

FUNCTION static void *run(void *argument) {
    long number = (long)argument;
    return (void *)sink(number == 7 ? 1500 : number * 5, number);
}

int main(void) {
    pthread_t threads[COUNT];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    for (long i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], &attributes, run, (void *)i))
            return 2;
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], 0);
    return 0;
}
