/* How clew's engines go from frame to frame; what a step is, each has its own. Include it behind a struct clew_frame. */
#ifndef CLEW_WALK_H
#define CLEW_WALK_H

#include "stretches.h"

#include <string.h>

/* What a step made of a frame. */
enum stepped { STEP_CALLED, STEP_INTERRUPTED, STEP_OUTERMOST, STEP_NO_ROW, STEP_FAILED };

/* From a frame to its caller; `self` is the engine's own. */
typedef enum stepped stepper(const void *self, const struct sample *sample, struct stretches *stretches, struct clew_frame *frame,
                             int interrupted);

/* Code without a row, such as _init and what the compiler's own start files have, is left by the frame pointer, as libunwind does:
   the saved one, and behind it the return address (System V ABI, AMD64, 3.2.2). Expanded where it is called: a function that takes
   the frame's address would keep an engine that is expanded as well from having the frame in registers. */
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

/* Whether the stack goes on, from a stack pointer and a pc to a frame that was called: a caller lies above its callee. Only below
   an interrupted frame, which may have no stack of its own, may both have the same stack pointer. */
static inline enum stepped gone_on(const struct clew_frame *frame, uint64_t sp, uint64_t pc, int interrupted)
{
    if (__builtin_expect(frame->r[RSP] > sp, 1))
        return STEP_CALLED;
    return frame->r[RSP] < sp || !interrupted || frame->r[RIP] == pc ? STEP_FAILED : STEP_CALLED;
}

static inline __attribute__((always_inline)) int walk(const void *self, stepper *step, struct stretches *stretches,
                                                      const struct sample *sample, uint64_t *pcs, int most,
                                                      enum ending *ending)
{
    struct clew_frame frame;
    enum stepped stepped = STEP_INTERRUPTED;
    int count = 0;
    frame.known = (UINT64_C(1) << REGISTERS) - 1;
    memcpy(frame.r, sample->registers, sizeof sample->registers);
    do {
        pcs[count++] = frame.r[RIP];
        stepped = step(self, sample, stretches, &frame, stepped == STEP_INTERRUPTED);
        if (__builtin_expect(stepped == STEP_NO_ROW, 0))
            stepped = step_by_frame_pointer(&frame, sample);
    } while (stepped <= STEP_INTERRUPTED && count < most);
    *ending = stepped == STEP_FAILED ? FAILED : ENDED;
    return count;
}

#endif
