/* The functions that `clew compile --deref` makes of a file, which load words through the function that libunwind's
   accessors call. One file, twice: of the C backend and of the assembler. */
#include "recording.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* As in the sources that clew writes. */
struct clew_frame {
    uint64_t known;
    uint64_t r[REGISTERS];
};

#include "clew_walk.h"

typedef bool clew_deref(void *argument, uintptr_t address, uintptr_t *value);
typedef int clew_unwind(struct clew_frame *frame, uintptr_t pc, clew_deref *deref, void *argument);
/* What the assembler's backend has as well: for an address, a function that does what holds there, and what to hand to it in place of
   the pc. So they may be remembered. */
struct body {
    clew_unwind *function;
    uintptr_t argument;
};

typedef clew_unwind *clew_unwind_find(uintptr_t pc);

/* What is compiled of a file. */
struct form {
    clew_unwind *unwind;
    clew_unwind_find *find;
};

struct clew_unwind_information {
    char magic[8];
    uint32_t version;
    uint16_t machine;
    uint8_t abi, deref;
    uint64_t start, end;
    uint32_t registers, build_id_size;
};

enum { CLEW_INTERRUPTED = 1, CLEW_OUTERMOST = -1, CLEW_NO_ROW = -2 };

/* A body that was found, by its address: as rule_cache.h has it, of the same size. */
struct found {
    uint64_t address;
    const struct stretches *owner;
    struct body body;
};

enum { CACHE_BITS = 10 };

struct self {
    const struct recording *recording;
    struct stretches **spaces;
    struct found cache[1 << CACHE_BITS]; /* without an owner, none was found */
};

/* dlsym gives functions as pointers to data. */
static void symbol(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

static const struct form *open_form(const char *path)
{
    void *library = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct clew_unwind_information *information = library ? dlsym(library, "clew_unwind_information") : NULL;
    if (!information || memcmp(information->magic, "clewcode", 8) || information->version != 1 || information->abi
        || !information->deref || information->registers != REGISTERS)
        return NULL;
    struct form *form = calloc(1, sizeof *form);
    symbol(library, "clew_unwind", &form->unwind);
    symbol(library, "clew_unwind_find", &form->find);
    return form;
}

static void *open_forms(const struct recording *recording, int assembler, const char **reason)
{
    const void **forms = calloc(recording->object_count + 1, sizeof *forms);
    size_t opened = 0;
    for (size_t i = 0; i < recording->object_count; i++) {
        const struct object *object = &recording->objects[i];
        forms[i] = open_form(assembler ? object->compiled_asm : object->compiled_c);
        opened += forms[i] != NULL;
    }
    *reason = "nothing is compiled";
    if (!opened)
        return NULL;
    struct self *self = calloc(1, sizeof *self);
    self->recording = recording;
    self->spaces = stretches_of(recording, forms);
    return self;
}

static void *open_c(const struct recording *recording, const char **reason)
{
    return open_forms(recording, 0, reason);
}

static void *open_assembler(const struct recording *recording, const char **reason)
{
    return open_forms(recording, 1, reason);
}

static inline enum stepped stepped_of(int status, const struct clew_frame *frame, uint64_t sp, uint64_t pc, int interrupted)
{
    if (__builtin_expect(status != 0, 0)) {
        if (status != CLEW_INTERRUPTED)
            return status == CLEW_OUTERMOST ? STEP_OUTERMOST : status == CLEW_NO_ROW ? STEP_NO_ROW : STEP_FAILED;
        return frame->r[RIP] ? STEP_INTERRUPTED : STEP_OUTERMOST;
    }
    return frame->r[RIP] ? gone_on(frame, sp, pc, interrupted) : STEP_OUTERMOST;
}

static inline __attribute__((always_inline)) enum stepped step(const void *self, const struct sample *sample,
                                                               struct stretches *stretches, struct clew_frame *frame,
                                                               int interrupted)
{
    uint64_t pc = frame->r[RIP], sp = frame->r[RSP], address = pc - !interrupted;
    const struct stretch *stretch = stretch_of(stretches, address);
    const struct form *form = stretch->form;
    if (__builtin_expect(!form, 0))
        return STEP_NO_ROW;
    int status = form->unwind(frame, address - stretch->bias, recording_read, (void *)sample);
    return stepped_of(status, frame, sp, pc, interrupted);
}

/* The same, but that neither the module nor the body is looked for where the pc is known. */
static inline __attribute__((always_inline)) enum stepped cached_step(const void *self, const struct sample *sample,
                                                                      struct stretches *stretches, struct clew_frame *frame,
                                                                      int interrupted)
{
    struct self *me = (struct self *)self;
    uint64_t pc = frame->r[RIP], sp = frame->r[RSP], address = pc - !interrupted;
    struct found *found = &me->cache[(address ^ address >> CACHE_BITS) & ((1u << CACHE_BITS) - 1)];
    if (__builtin_expect(found->address != address || found->owner != stretches, 0)) {
        const struct stretch *stretch = stretch_of(stretches, address);
        const struct form *form = stretch->form;
        if (!form)
            return STEP_NO_ROW;
        *found = (struct found){address, stretches, {form->find(address - stretch->bias), address}};
    }
    int status = found->body.function(frame, found->body.argument, recording_read, (void *)sample);
    return stepped_of(status, frame, sp, pc, interrupted);
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
    {.name = "clew C backend", .open = open_c, .unwind = unwind},
    {.name = "clew asm backend", .open = open_assembler, .unwind = unwind_cached},
    {.name = "clew asm backend, no cache", .open = open_assembler, .unwind = unwind},
    {0},
};
