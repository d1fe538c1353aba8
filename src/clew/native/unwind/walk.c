/* Steps of a walk through this process, with all registers; see walk.h. */
#include "walk.h"

#include "thread.h"

_Static_assert(sizeof(clew_context_t) == sizeof(struct clew_frame), "a context is a frame");

int clew_resolve(const struct dl_find_object *found, const struct module *module, uint64_t address, struct resolved *to) {
    if (module && module->has_table) {
        uint32_t number = clew_table_find(&module->table, address - module->layout.bias);
        to->table = &module->table;
        to->rule = &module->table.rules[number];
        return number ? 0 : CLEW_NO_ROW;
    }
    struct module unknown;
    if (!found->dlfo_eh_frame)
        return CLEW_NO_ROW;
    if (!module) {
        if (clew_module_unknown(found, &unknown))
            return CLEW_NO_ROW;
        module = &unknown;
    }
    to->made.steps = to->steps;
    to->made.step_room = sizeof to->steps / sizeof to->steps[0];
    int status = clew_interpret(&module->layout, (uint64_t)(uintptr_t)found->dlfo_eh_frame, address, &to->made);
    if (status != CFI_OK)
        return status == CFI_END ? CLEW_NO_ROW : CLEW_BAD_RULE;
    to->own = (struct clew_table){.cells = to->made.cells, .steps = to->steps};
    to->table = &to->own;
    to->rule = &to->made.rule;
    return 0;
}

int clew_leave_signal_frame(struct clew_frame *frame, struct reach *reach) {
#ifdef __aarch64__
    /* mov x8, #139 (rt_sigreturn); svc #0. Above it lie siginfo (128 bytes) and ucontext, registers 184 bytes into that. */
    uint64_t code, registers = frame->r[CFI_SP] + 128 + 184;
    struct clew_frame fresh = {.known = (1ull << CFI_REGISTERS) - 1};
    if (!clew_reach_load(reach, frame->r[CFI_PC], 8, &code) || code != 0xd4000001d2801168ull)
        return CLEW_NO_ROW;
    for (int i = 0; i < CFI_REGISTERS; i++)
        if (!clew_reach_load(reach, registers + 8 * (uint64_t)i, 8, &fresh.r[i]))
            return CLEW_UNREADABLE;
    if (fresh.r[CFI_PC] == frame->r[CFI_PC] && fresh.r[CFI_SP] == frame->r[CFI_SP])
        return CLEW_NO_PROGRESS;
    *frame = fresh;
    return CLEW_INTERRUPTED;
#else
    (void)frame;
    (void)reach;
    return CLEW_NO_ROW;
#endif
}

int clew_leave_wild_call(struct clew_frame *frame, struct reach *reach) {
    struct dl_find_object found;
    uint64_t back, sp = frame->r[CFI_SP];
#ifdef __aarch64__
    (void)reach;
    if (!(frame->known >> 30 & 1))
        return CLEW_UNKNOWN_REGISTER;
    back = frame->r[30];
#else
    if (!clew_reach_load(reach, sp, 8, &back))
        return CLEW_UNREADABLE;
    sp += 8;
#endif
    if (_dl_find_object((void *)(uintptr_t)(back - 1), &found))
        return CLEW_NO_ROW;
    frame->r[CFI_PC] = back;
    frame->r[CFI_SP] = sp;
    return CLEW_CALLED;
}

int clew_leave_without_module(struct clew_frame *frame, struct reach *reach, int interrupted) {
    int status = clew_leave_signal_frame(frame, reach);
    if (status == CLEW_NO_ROW && interrupted)
        status = clew_leave_wild_call(frame, reach);
    return status;
}

int clew_walk_step(struct clew_frame *frame, struct reach *reach, int interrupted) {
    struct dl_find_object found;
    struct resolved to;
    uint64_t address = frame->r[CFI_PC] - (interrupted ? 0 : 1);
    if (_dl_find_object((void *)(uintptr_t)address, &found)) {
        int status = clew_leave_without_module(frame, reach, interrupted);
        return status == CLEW_NO_ROW || status == CLEW_UNREADABLE ? WALK_NO_MODULE : status;
    }
    int status = clew_resolve(&found, clew_module(&found), address, &to);
    if (status == CLEW_NO_ROW)
        return clew_leave_signal_frame(frame, reach);
    if (status)
        return status;
    return clew_table_leave(CFI_MACHINE, to.table, to.rule, frame, interrupted, reach);
}

enum clew_end clew_end_of(int status) {
    switch (status) {
    case CLEW_OUTERMOST: return CLEW_END_ENTRY;
    case CLEW_NULL_RETURN: return CLEW_END_NULL_RETURN;
    case WALK_NO_MODULE: return CLEW_END_NO_MODULE;
    case CLEW_NO_ROW: return CLEW_END_NO_RULE;
    case CLEW_BAD_RULE: return CLEW_END_BAD_RULE;
    case CLEW_UNKNOWN_REGISTER: return CLEW_END_UNKNOWN_REGISTER;
    case CLEW_UNREADABLE: return CLEW_END_UNREADABLE;
    case CLEW_NO_PROGRESS: return CLEW_END_NO_PROGRESS;
    default: return CLEW_END_NONE;
    }
}

const char *clew_end_text(enum clew_end end) {
    static const char *const texts[] = {
        "it has not ended",           "the outermost frame",        "a return address of 0",
        "no module at the address",   "no rule for the address",    "a rule that cannot be computed",
        "a register that is not known", "memory that cannot be read", "no progress",
    };
    return (unsigned)end < sizeof texts / sizeof texts[0] ? texts[end] : "?";
}

struct reach clew_walk_reach(uint64_t sp) {
    struct thread *thread = clew_thread();
    struct reach nothing = {0};
    volatile uint64_t mark;
    if (!thread || !clew_thread_enter(thread, &mark))
        return nothing;
    struct reach reach = clew_thread_reach(thread, sp);
    clew_thread_leave(thread);
    return reach;
}

int clew_backtrace_full(void **buffer, int size, const clew_context_t *context) {
    struct clew_frame frame;
    memcpy(&frame, context, sizeof frame);
    struct reach reach = clew_walk_reach(frame.r[CFI_SP]);
    int count = 0, status = 0;
    while (count < size) {
        buffer[count++] = (void *)(uintptr_t)frame.r[CFI_PC];
        if (count == size)
            break;
        status = clew_walk_step(&frame, &reach, status == CLEW_INTERRUPTED);
        if (status < 0)
            break;
    }
    struct thread *thread = clew_thread();
    if (thread)
        thread->end = clew_end_of(status);
    return count;
}

enum clew_end clew_backtrace_end(void) {
    struct thread *thread = clew_thread();
    return thread ? (enum clew_end)thread->end : CLEW_END_NONE;
}
