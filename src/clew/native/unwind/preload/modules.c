/* dlopen and dlclose, followed: what is remembered of modules is forgotten when they go, and tables made when they come. */
#include <errno.h>
#include <string.h>

#include "preload.h"

typedef void *(*dlopen_t)(const char *, int);
typedef int (*dlclose_t)(void *);

int clew_dlclose(void *handle);
int clew_dlclose_old(void *handle);

static _Atomic(dlopen_t) next_dlopen;
static _Atomic(dlclose_t) next_dlclose;

#define GLIBC "GLIBC_2.34" /* dlopen and dlclose moved to libc.so there */

void *clew_preload_next(const char *name, const char *version) {
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

static dlopen_t real_dlopen(void) {
    dlopen_t real = atomic_load_explicit(&next_dlopen, memory_order_relaxed);
    if (!real) {
        *(void **)&real = clew_preload_next("dlopen", GLIBC);
        atomic_store_explicit(&next_dlopen, real, memory_order_relaxed);
    }
    return real;
}

static void *dlopen_and_look(const char *name, int flags) {
    void *handle = real_dlopen()(name, flags);
    int saved = errno;
    if (handle)
        clew_update();
    errno = saved;
    return handle;
}

/*
 * Which function shall answer a call of dlopen. Where its caller makes no difference, one that then finds the new modules'
 * tables. Modules that come otherwise are found in the next such call; until then their .eh_frame is interpreted.
 */
dlopen_t clew_preload_dlopen(const char *name, int flags) {
    (void)flags;
    return name && strchr(name, '/') && !strchr(name, '$') ? dlopen_and_look : real_dlopen();
}

PUBLIC int clew_dlclose(void *handle) {
    dlclose_t real = atomic_load_explicit(&next_dlclose, memory_order_relaxed);
    if (!real) {
        *(void **)&real = clew_preload_next("dlclose", GLIBC);
        atomic_store_explicit(&next_dlclose, real, memory_order_relaxed);
    }
    int result = real(handle);
    atomic_fetch_add_explicit(&clew_generation, 1, memory_order_acq_rel);
    return result;
}

#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

/* For programs that were linked when it was in libdl.so. */
PUBLIC int clew_dlclose_old(void *handle) {
    return clew_dlclose(handle);
}
__asm__(".symver clew_dlclose, dlclose@@" GLIBC);
__asm__(".symver clew_dlclose_old, dlclose@" OLDEST);

__attribute__((constructor)) static void begin(void) {
    clew_init();
}
