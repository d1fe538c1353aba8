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

struct clew_unwind_information {
    char magic[8];
    uint32_t version;
    uint16_t machine;
    uint8_t abi, deref;
    uint64_t start, end;
    uint32_t registers, build_id_size;
};

enum { CLEW_INTERRUPTED = 1, CLEW_OUTERMOST = -1, CLEW_NO_ROW = -2 };

static clew_unwind *open_function(const char *path)
{
    void *library = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct clew_unwind_information *information = library ? dlsym(library, "clew_unwind_information") : NULL;
    if (!information || memcmp(information->magic, "clewcode", 8) || information->version != 1 || information->abi
        || !information->deref || information->registers != REGISTERS)
        return NULL;
    return (clew_unwind *)dlsym(library, "clew_unwind");
}

/* A function for each object, by its number; NULL for one that has none. */
static void *open_functions(const struct recording *recording, int assembler, const char **reason)
{
    clew_unwind **functions = calloc(recording->object_count + 1, sizeof *functions);
    size_t opened = 0;
    for (size_t i = 0; i < recording->object_count; i++) {
        const struct object *object = &recording->objects[i];
        functions[i] = open_function(assembler ? object->compiled_asm : object->compiled_c);
        opened += functions[i] != NULL;
    }
    *reason = "nothing is compiled";
    return opened ? functions : NULL;
}

static void *open_c(const struct recording *recording, const char **reason)
{
    return open_functions(recording, 0, reason);
}

static void *open_assembler(const struct recording *recording, const char **reason)
{
    return open_functions(recording, 1, reason);
}

static inline __attribute__((always_inline)) enum stepped step(const void *self, const struct sample *sample,
                                                               struct modules *modules, struct clew_frame *frame,
                                                               int interrupted)
{
    clew_unwind *const *functions = self;
    uint64_t pc = frame->r[RIP], sp = frame->r[RSP], address = pc - !interrupted;
    const struct module *module = module_of(sample, modules, address);
    clew_unwind *function = module ? functions[module->object->number] : NULL;
    int status = function ? function(frame, address - module->bias, recording_read, (void *)sample) : CLEW_NO_ROW;
    if (status < 0)
        return status == CLEW_OUTERMOST ? STEP_OUTERMOST : status == CLEW_NO_ROW ? STEP_NO_ROW : STEP_FAILED;
    if (!frame->r[RIP])
        return STEP_OUTERMOST;
    if (status == CLEW_INTERRUPTED)
        return STEP_INTERRUPTED;
    /* The stack has to go on. */
    return frame->r[RSP] < sp || (frame->r[RSP] == sp && frame->r[RIP] == pc) ? STEP_FAILED : STEP_CALLED;
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    return walk(self, step, sample, pcs, most, ending);
}

const struct engine engines[] = {
    {.name = "clew C backend", .open = open_c, .unwind = unwind},
    {.name = "clew asm backend", .open = open_assembler, .unwind = unwind},
    {0},
};
