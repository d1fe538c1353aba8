/* libgcc and glibc, by their libraries' handles: libunwind has functions of the same names. */
#include "walker.h"

#include <dlfcn.h>
#include <stdint.h>
#include <unwind.h>

static _Unwind_Reason_Code (*backtrace_of_libgcc)(_Unwind_Trace_Fn, void *);
static uintptr_t (*get_ip)(struct _Unwind_Context *);
static int (*backtrace_of_glibc)(void **, int);

struct frames {
    void **pcs;
    int count, most;
};

static int open_libgcc(const char **reason)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    *reason = "there is no libgcc_s.so.1";
    if (!library)
        return -1;
    backtrace_of_libgcc = (_Unwind_Reason_Code(*)(_Unwind_Trace_Fn, void *))dlsym(library, "_Unwind_Backtrace");
    get_ip = (uintptr_t(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetIP");
    return backtrace_of_libgcc && get_ip ? 0 : -1;
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *argument)
{
    struct frames *frames = argument;
    if (frames->count >= frames->most)
        return _URC_NORMAL_STOP;
    frames->pcs[frames->count++] = (void *)get_ip(context);
    return _URC_NO_REASON;
}

static int walk_libgcc(void **pcs, int most)
{
    struct frames frames = {pcs, 0, most};
    backtrace_of_libgcc(on_frame, &frames);
    return frames.count;
}

static int open_glibc(const char **reason)
{
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_LOCAL);
    *reason = "there is no backtrace in libc.so.6";
    backtrace_of_glibc = library ? (int (*)(void **, int))dlsym(library, "backtrace") : 0;
    return backtrace_of_glibc ? 0 : -1;
}

static int walk_glibc(void **pcs, int most)
{
    int count = backtrace_of_glibc(pcs, most);
    /* Not a tail call: the frame of this function would be missing. */
    __asm__ volatile("" : "+r"(count));
    return count;
}

const struct walker walkers[] = {
    {.name = "libgcc _Unwind_Backtrace", .open = open_libgcc, .walk = walk_libgcc},
    {.name = "glibc backtrace", .open = open_glibc, .walk = walk_glibc},
    {0},
};
