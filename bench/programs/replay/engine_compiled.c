/* The functions that `clew compile --deref` makes of a file, which load words through the function that libunwind's
   accessors call. One file, twice: of the C backend and of the assembler. */
#include "recording.h"

#include <dlfcn.h>
#include <stddef.h>
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

static const void *open_function(const char *path)
{
    void *library = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct clew_unwind_information *information = library ? dlsym(library, "clew_unwind_information") : NULL;
    if (!information || memcmp(information->magic, "clewcode", 8) || information->version != 1 || information->abi
        || !information->deref || information->registers != REGISTERS)
        return NULL;
    return dlsym(library, "clew_unwind");
}

static void *open_c(const struct recording *recording, const char **reason)
{
    return open_compiled(recording, offsetof(struct object, compiled_c), open_function, reason);
}

static void *open_assembler(const struct recording *recording, const char **reason)
{
    return open_compiled(recording, offsetof(struct object, compiled_asm), open_function, reason);
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
    if (__builtin_expect(!stretch->form, 0))
        return STEP_NO_ROW;
    clew_unwind *function = (clew_unwind *)(uintptr_t)stretch->form;
    int status = function(frame, address - stretch->bias, recording_read, (void *)sample);
    return stepped_of(status, frame, sp, pc, interrupted);
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    return walk(self, step, compiled_for(self, sample), sample, pcs, most, ending);
}

const struct engine engines[] = {
    {.name = "clew C backend", .open = open_c, .unwind = unwind},
    {.name = "clew asm backend", .open = open_assembler, .unwind = unwind},
    {0},
};
