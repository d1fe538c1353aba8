/* How clew's engines go from frame to frame; what a step is, each has its own. Include it behind a struct clew_frame. */
#ifndef CLEW_WALK_H
#define CLEW_WALK_H

#include "engine.h"

#include <string.h>

/* What a step made of a frame. */
enum stepped { STEP_CALLED, STEP_INTERRUPTED, STEP_OUTERMOST, STEP_NO_ROW, STEP_FAILED };

/* The module that the frame before was in, and the one before that: calls tend to go to and fro between two. */
struct modules {
    const struct module *last, *other;
};

static inline int is_in(const struct module *module, uint64_t address)
{
    return module && address - module->start < module->end - module->start;
}

/* The module that an address is in, or NULL. */
static inline const struct module *module_of(const struct sample *sample, struct modules *modules, uint64_t address)
{
    if (is_in(modules->last, address))
        return modules->last;
    const struct module *found = is_in(modules->other, address) ? modules->other : recording_module(sample->space, address);
    modules->other = modules->last;
    return modules->last = found;
}

/* From a frame to its caller. */
typedef enum stepped stepper(const void *tables, const struct sample *sample, struct modules *modules, struct clew_frame *frame,
                             int interrupted);

/* Code without a row, such as _init and what the compiler's own start files have, is left by the frame pointer, as libunwind does:
   the saved one, and behind it the return address (System V ABI, AMD64, 3.2.2). */
static inline enum stepped step_by_frame_pointer(struct clew_frame *frame, const struct sample *sample)
{
    uint64_t pointer = frame->r[RBP], saved, back;
    if (!(frame->known >> RBP & 1) || pointer < frame->r[RSP] || pointer & 7
        || !recording_read((void *)sample, pointer, &saved) || !recording_read((void *)sample, pointer + 8, &back))
        return STEP_FAILED;
    frame->r[RBP] = saved;
    frame->r[RSP] = pointer + 16;
    frame->r[RIP] = back;
    frame->known = UINT64_C(1) << RBP | UINT64_C(1) << RSP | UINT64_C(1) << RIP;
    return back ? STEP_CALLED : STEP_OUTERMOST;
}

static inline __attribute__((always_inline)) int walk(const void *tables, stepper *step, const struct sample *sample,
                                                      uint64_t *pcs, int most, enum ending *ending)
{
    struct modules modules = {NULL, NULL};
    struct clew_frame frame;
    enum stepped stepped = STEP_INTERRUPTED;
    int count = 0;
    frame.known = (UINT64_C(1) << REGISTERS) - 1;
    memcpy(frame.r, sample->registers, sizeof sample->registers);
    do {
        pcs[count++] = frame.r[RIP];
        stepped = step(tables, sample, &modules, &frame, stepped == STEP_INTERRUPTED);
        if (__builtin_expect(stepped == STEP_NO_ROW, 0))
            stepped = step_by_frame_pointer(&frame, sample);
    } while (stepped <= STEP_INTERRUPTED && count < most);
    *ending = stepped == STEP_FAILED ? FAILED : ENDED;
    return count;
}

#endif
