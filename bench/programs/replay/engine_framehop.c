/* framehop, which has a cache of 509 rules for each address space. */
#include "engine.h"

#include "../framehop.h"

#include <stdlib.h>

struct spaces {
    const struct recording *recording;
    void *each[];
};

static void *open(const struct recording *recording, const char **reason)
{
    struct spaces *spaces = malloc(sizeof *spaces + recording->space_count * sizeof spaces->each[0]);
    spaces->recording = recording;
    for (size_t i = 0; i < recording->space_count; i++) {
        const struct space *space = &recording->spaces[i];
        spaces->each[i] = framehop_new();
        for (size_t k = 0; k < space->count; k++) {
            const struct module *module = &space->modules[k];
            const struct object *object = module->object;
            struct framehop_module added = {
                .start = module->start,
                .end = module->end,
                .bias = module->bias,
                .code_start = object->code.start,
                .code_end = object->code.end,
                .eh_frame_start = object->eh_frame.start,
                .eh_frame_end = object->eh_frame.end,
                .eh_frame = object->eh_frame_bytes,
                .eh_frame_hdr_start = object->eh_frame_hdr.start,
                .eh_frame_hdr_end = object->eh_frame_hdr.end,
                .eh_frame_hdr = object->eh_frame_hdr_bytes,
            };
            framehop_add(spaces->each[i], &added);
        }
    }
    return spaces;
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    const struct spaces *spaces = self;
    const uint64_t *registers = sample->registers;
    int failed = 0;
    int count = framehop_walk(spaces->each[sample->space - spaces->recording->spaces], registers[RIP], registers[RSP],
                              registers[RBP], recording_read, (void *)sample, pcs, most, &failed);
    *ending = failed ? FAILED : ENDED;
    return count;
}

const struct engine engines[] = {
    {.name = "framehop 0.15", .open = open, .unwind = unwind},
    {0},
};
