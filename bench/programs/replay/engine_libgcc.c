/* libgcc's _Unwind_Backtrace, which knows no memory but its own: the files and the stack are put where they were in the program,
   before it is asked.

   It takes the registers to start from out of the frame that calls it. That is replay_libgcc_call in engine_libgcc_call.S,
   whose call frame information says that all registers are in the sample. It finds tables by _dl_find_object, which the replay
   has in place of libc's, so that the modules of the sample are found, by the same search as everybody's. */
#define _GNU_SOURCE
#include "engine.h"

#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

enum { PAGE = 4096, BEHIND = 1 << 16 };

typedef _Unwind_Reason_Code backtrace_function(_Unwind_Trace_Fn, void *);
extern void replay_libgcc_call(backtrace_function *, _Unwind_Trace_Fn, void *argument, const uint64_t *registers);

/* Of replay_find_object.c: whose modules _dl_find_object finds. */
extern const struct space *replay_found_space;

static backtrace_function *backtrace_of_libgcc;
static uintptr_t (*get_ip)(struct _Unwind_Context *);

struct frames {
    uint64_t *pcs;
    int count, most;
};

static sigjmp_buf away;

static void on_fault(int number)
{
    siglongjmp(away, 1);
}

/* Memory at just these addresses, in whole pages: 0, or -1 where something else is there. */
static int put(uint64_t start, uint64_t end)
{
    start &= -(uint64_t)PAGE;
    end = (end + PAGE - 1) & -(uint64_t)PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    return mmap((void *)start, end - start, PROT_READ | PROT_WRITE, flags, -1, 0) == (void *)start ? 0 : -1;
}

static int put_module(const struct module *module)
{
    for (size_t i = 0; i < module->object->segment_count; i++) {
        const struct segment *segment = &module->object->segments[i];
        if (put(segment->start + module->bias, segment->start + module->bias + segment->size))
            return -1;
        memcpy((void *)(segment->start + module->bias), module->object->bytes + segment->offset, segment->size);
    }
    return 0;
}

/* Several states of a process share most of their modules. */
static int was_put(const struct recording *recording, size_t space, const struct module *module)
{
    for (size_t i = 0; i < space; i++)
        for (size_t k = 0; k < recording->spaces[i].count; k++) {
            const struct module *other = &recording->spaces[i].modules[k];
            if (other->start == module->start && other->bias == module->bias && other->object == module->object)
                return 1;
        }
    return 0;
}

static int by_start(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

/* Memory in place of all stacks. Behind a copy come zeros, a null return address, which ends the walk; but where a module follows
   a thread's stack. */
static int put_stacks(const struct recording *recording)
{
    struct range *ranges = calloc(recording->sample_count + 1, sizeof *ranges);
    size_t count = 0;
    int result = 0;
    for (size_t i = 0; i < recording->sample_count; i++) {
        const struct sample *sample = &recording->samples[i];
        if (sample->stack_size)
            ranges[count++] = (struct range){sample->stack_start, sample->stack_start + sample->stack_size + BEHIND};
    }
    qsort(ranges, count, sizeof *ranges, by_start);
    for (size_t i = 0; i < count && !result;) {
        struct range together = ranges[i];
        for (; i < count && ranges[i].start <= together.end; i++)
            together.end = ranges[i].end > together.end ? ranges[i].end : together.end;
        if (put(together.start, together.end))
            result = put(together.start, together.end - BEHIND);
    }
    free(ranges);
    return result;
}

static void *open(const struct recording *recording, const char **reason)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        *reason = "there is no libgcc_s.so.1";
        return NULL;
    }
    backtrace_of_libgcc = (backtrace_function *)dlsym(library, "_Unwind_Backtrace");
    get_ip = (uintptr_t(*)(struct _Unwind_Context *))dlsym(library, "_Unwind_GetIP");
    *reason = "its addresses are taken here: run it again";
    for (size_t i = 0; i < recording->space_count; i++)
        for (size_t k = 0; k < recording->spaces[i].count; k++)
            if (!was_put(recording, i, &recording->spaces[i].modules[k]) && put_module(&recording->spaces[i].modules[k]))
                return NULL;
    if (put_stacks(recording))
        return NULL;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    return &away;
}

static void prepare(void *self, const struct sample *sample)
{
    static const struct sample *before;
    if (before)
        memset((void *)before->stack_start, 0, before->stack_size);
    before = sample->stack_size ? sample : NULL;
    if (before)
        memcpy((void *)before->stack_start, before->stack, before->stack_size);
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *argument)
{
    struct frames *frames = argument;
    uint64_t pc = get_ip(context);
    /* The first is the caller of _Unwind_Backtrace. */
    if (frames->count >= 0)
        frames->pcs[frames->count] = pc;
    frames->count++;
    return frames->count < frames->most ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    struct frames frames = {pcs, -1, most};
    *ending = FAILED;
    replay_found_space = sample->space;
    if (!sigsetjmp(away, 0)) {
        replay_libgcc_call(backtrace_of_libgcc, on_frame, &frames, sample->registers);
        *ending = ENDED;
    }
    replay_found_space = NULL;
    /* A null return address is told as a frame, too. */
    while (frames.count > 0 && !pcs[frames.count - 1])
        frames.count--;
    return frames.count < 0 ? 0 : frames.count;
}

const struct engine engines[] = {
    {.name = "libgcc", .open = open, .prepare = prepare, .unwind = unwind},
    {0},
};
