/* clew's packed tables and step.h, which reads through the same function as libunwind's accessors: all the words of a frame that
   it needs at once. */
#include "recording.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLEW_REGISTERS 17
#define CLEW_LOAD(memory, address, size, into) load(memory, address, size, into)
#define CLEW_WINDOW(memory, address, size) recording_bytes(memory, address, size)

static inline int load(void *sample, uint64_t address, unsigned size, uint64_t *value)
{
    const unsigned char *bytes = recording_bytes(sample, address, size);
    if (!bytes)
        return 0;
    *value = 0;
    __builtin_memcpy(value, bytes, size);
    return 1;
}

#include "step.h"

#include "clew_walk.h"
#include "packed_check.h"
#include "rule_cache.h"

struct self {
    const struct recording *recording;
    struct stretches **spaces;
    struct clew_rule_cache *cache;
};

static int open_table(const char *path, struct clew_table *table)
{
    struct stat status;
    int descriptor = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0 || fstat(descriptor, &status))
        return -1;
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
    close(descriptor);
    return bytes == MAP_FAILED || clew_packed_open(bytes, (size_t)status.st_size, 1, table);
}

static void *open_tables(const struct recording *recording, const char **reason)
{
    struct clew_table *tables = calloc(recording->object_count + 1, sizeof *tables);
    const void **forms = calloc(recording->object_count + 1, sizeof *forms);
    size_t opened = 0;
    for (size_t i = 0; i < recording->object_count; i++)
        if (!open_table(recording->objects[i].packed, &tables[i])) {
            forms[i] = &tables[i];
            opened++;
        }
    *reason = "there are no packed tables";
    if (!opened)
        return NULL;
    struct self *self = malloc(sizeof *self);
    *self = (struct self){recording, stretches_of(recording, forms), malloc(sizeof *self->cache)};
    clew_known_forget(self->cache);
    return self;
}

static inline enum stepped stepped_of(int status)
{
    switch (status) {
    case CLEW_CALLED:
        return STEP_CALLED;
    case CLEW_INTERRUPTED:
        return STEP_INTERRUPTED;
    case CLEW_OUTERMOST:
    case CLEW_NULL_RETURN:
        return STEP_OUTERMOST;
    case CLEW_NO_ROW:
        return STEP_NO_ROW;
    default:
        return STEP_FAILED;
    }
}

static inline __attribute__((always_inline)) enum stepped step(const void *self, const struct sample *sample,
                                                               struct stretches *stretches, struct clew_frame *frame,
                                                               int interrupted)
{
    const struct stretch *stretch = stretch_of(stretches, frame->r[RIP] - !interrupted);
    if (!stretch->form)
        return STEP_NO_ROW;
    return stepped_of(clew_step(CLEW_X86_64, stretch->form, stretch->bias, frame, interrupted, (void *)sample));
}

/* The same, but that neither the module nor the row is looked for where the pc is known. */
static inline __attribute__((always_inline)) enum stepped cached_step(const void *self, const struct sample *sample,
                                                                      struct stretches *stretches, struct clew_frame *frame,
                                                                      int interrupted)
{
    const struct self *me = self;
    uint64_t pc = frame->r[RIP], sp = frame->r[RSP], address = pc - !interrupted;
    struct clew_known *known = clew_known_place(me->cache, address);
    if (__builtin_expect(known->address != address || known->owner != (uintptr_t)stretches, 0)) {
        const struct stretch *stretch = stretch_of(stretches, address);
        if (!stretch->form)
            return STEP_NO_ROW;
        const struct clew_table *table = stretch->form;
        *known = (struct clew_known){address, (uintptr_t)stretches, table,
                                     CLEW_RULE(table, clew_find(table, address - stretch->bias))};
    }
    int status = clew_apply(CLEW_X86_64, known->table, known->rule, frame, (void *)sample);
    if (__builtin_expect(status != CLEW_CALLED, 0))
        return status == CLEW_INTERRUPTED && !frame->r[RIP] ? STEP_OUTERMOST : stepped_of(status);
    return frame->r[RIP] ? gone_on(frame, sp, pc, interrupted) : STEP_OUTERMOST;
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    const struct self *me = self;
    return walk(me, step, me->spaces[sample->space - me->recording->spaces], sample, pcs, most, ending);
}

static int unwind_cached(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    const struct self *me = self;
    return walk(me, cached_step, me->spaces[sample->space - me->recording->spaces], sample, pcs, most, ending);
}

const struct engine engines[] = {
    {.name = "clew packed table", .open = open_tables, .unwind = unwind_cached},
    {.name = "clew packed table, no cache", .open = open_tables, .unwind = unwind},
    {0},
};
