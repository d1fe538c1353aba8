/* clew's in-process library, which CLEW_UNWIND_LIBRARY in the environment names. */
#include "walker.h"

#include <dlfcn.h>
#include <stdlib.h>

static int (*backtrace_of_clew)(void **, int);

static int open(const char **reason)
{
    const char *path = getenv("CLEW_UNWIND_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    *reason = "not built";
    if (!library)
        return -1;
    int (*init)(void) = (int (*)(void))dlsym(library, "clew_init");
    backtrace_of_clew = (int (*)(void **, int))dlsym(library, "clew_backtrace");
    *reason = "it has no clew_backtrace, or cannot be initialised";
    return !init || init() < 0 || !backtrace_of_clew ? -1 : 0;
}

static int walk(void **pcs, int most)
{
    int count = backtrace_of_clew(pcs, most);
    /* Not a tail call. */
    __asm__ volatile("" : "+r"(count));
    return count;
}

const struct walker walkers[] = {
    {.name = "clew clew_backtrace", .open = open, .walk = walk},
    {0},
};
