/* Spends its time 40 calls deep in the functions that bench/inprocess_functions.py generates, another stack every 20 µs.

       spin FOLDER SECONDS */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LIBRARIES = 5, FUNCTIONS = 2000, DEPTH = 40 };

typedef long function(uint64_t seed, int depth, long value);

/* Filled by the libraries. */
function *plain_functions[FUNCTIONS], *framed_functions[FUNCTIONS];

static volatile long sink;

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

void keep(void *what)
{
    __asm__ volatile("" : : "r"(what) : "memory");
}

long leaf(void)
{
    for (int64_t end = now() + 20000; now() < end;)
        for (int i = 0; i < 1000; i++)
            sink += i;
    return sink;
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    for (int number = 0; number < LIBRARIES; number++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/plain%d.so", words[1], number);
        void *library = dlopen(path, RTLD_NOW);
        void (*fill)(void) = library ? (void (*)(void))dlsym(library, "fill") : NULL;
        if (!fill) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        fill();
    }
    uint64_t seed = 1;
    for (int64_t end = now() + (int64_t)(atof(words[2]) * 1e9); now() < end;) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sink += plain_functions[(seed >> 33) % FUNCTIONS](seed, DEPTH, 1);
    }
    return 0;
}
