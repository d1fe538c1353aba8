/* What the test programs share: every one says "ok" at its end, or what went wrong. */
#ifndef CHECK_H
#define CHECK_H

#include <clew-unwind.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                       \
        }                                                                  \
    } while (0)

#define MOST 512

/* glibc's own backtrace(), which sanitizers and preloaded libraries stand in front of. */
typedef int (*backtrace_t)(void **, int);
static backtrace_t glibc_backtrace;

/* To be called before any handler: glibc loads libgcc_s on the first call. */
static inline void prepare(void) {
    void *some[2];
    *(void **)&glibc_backtrace = dlsym(dlopen("libc.so.6", RTLD_NOW), "backtrace");
    CHECK(glibc_backtrace && glibc_backtrace(some, 2) > 0);
    CHECK(clew_init() == 0);
}

/* Both walks from here: the same but for the first, which is where each was called from. How many frames there are. */
static inline __attribute__((always_inline)) int agree(void) {
    void *theirs[MOST], *ours[MOST];
    int many = glibc_backtrace(theirs, MOST), count = clew_backtrace(ours, MOST);
    if (count != many || memcmp(ours + 1, theirs + 1, sizeof(void *) * (size_t)(many - 1))) {
        fprintf(stderr, "%d frames, and glibc has %d; %s\n", count, many, clew_end_text(clew_backtrace_end()));
        for (int i = 0; i < count || i < many; i++)
            fprintf(stderr, "%d %p %p\n", i, i < count ? ours[i] : NULL, i < many ? theirs[i] : NULL);
        abort();
    }
    return count;
}

#endif
