/* The step API of clew-unwind.h, through this process and others. */
#include <stddef.h>
#include <string.h>

#include "remote.h"
#include "walk.h"

struct cursor {
    struct clew_frame frame;
    struct reach reach;
    const clew_remote_t *remote; /* NULL: this process */
    int interrupted, end;
    int back; /* how many steps did not go up the stack */
};

/*
 * A signal's frame may lie on another stack than what it interrupted, above or below: as many may be in one walk. Words that
 * say that each of two signals interrupted the other would be followed for ever.
 */
#define MOST_BACK 64

_Static_assert(sizeof(struct cursor) <= sizeof(clew_cursor_t), "a cursor has room");

static struct cursor *in(clew_cursor_t *cursor) {
    return (struct cursor *)(void *)cursor->opaque;
}

static const struct cursor *of(const clew_cursor_t *cursor) {
    return (const struct cursor *)(const void *)cursor->opaque;
}

static int pc_of(const struct cursor *cursor) {
    return clew_remote_machine(cursor->remote) == CLEW_AARCH64 ? CLEW_AARCH64_PC : CLEW_X86_64_PC;
}

static int sp_of(const struct cursor *cursor) {
    return clew_remote_machine(cursor->remote) == CLEW_AARCH64 ? CLEW_AARCH64_SP : CLEW_X86_64_SP;
}

static int begin(clew_cursor_t *cursor, const clew_remote_t *remote, const clew_context_t *context, int interrupted) {
    struct cursor *to = in(cursor);
    memset(cursor, 0, sizeof *cursor);
    memcpy(&to->frame, context, sizeof to->frame);
    to->remote = remote;
    to->interrupted = interrupted;
    uint64_t needed = CLEW_BIT(pc_of(to)) | CLEW_BIT(sp_of(to));
    return (to->frame.known & needed) == needed ? 0 : -1;
}

int clew_local_init(clew_cursor_t *cursor, const clew_context_t *context) {
    if (begin(cursor, NULL, context, 0))
        return -1;
    in(cursor)->reach = clew_walk_reach(context->r[CFI_SP]);
    return 0;
}

int clew_remote_init(clew_cursor_t *cursor, const clew_remote_t *remote, const clew_context_t *context) {
    return begin(cursor, remote, context, 1);
}

int clew_step(clew_cursor_t *cursor) {
    struct cursor *at = in(cursor);
    uint64_t sp = clew_get_sp(cursor);
    int status;
    if (at->end)
        return at->end == CLEW_END_ENTRY || at->end == CLEW_END_NULL_RETURN ? 0 : -1;
    if (at->remote)
        status = clew_remote_step(at->remote, &at->frame, at->interrupted);
    else
        status = clew_walk_step(&at->frame, &at->reach, at->interrupted);
    if (status == CLEW_INTERRUPTED && clew_get_sp(cursor) <= sp && ++at->back > MOST_BACK)
        status = CLEW_NO_PROGRESS;
    if (status >= 0) {
        at->interrupted = status == CLEW_INTERRUPTED;
        return 1;
    }
    at->end = (int)clew_end_of(status);
    return status == CLEW_OUTERMOST || status == CLEW_NULL_RETURN ? 0 : -1;
}

enum clew_end clew_end_reason(const clew_cursor_t *cursor) {
    return (enum clew_end)of(cursor)->end;
}

int clew_get_reg(const clew_cursor_t *cursor, int number, uint64_t *value) {
    const struct cursor *at = of(cursor);
    if (number < 0 || number >= CLEW_REGISTERS || !(at->frame.known >> number & 1))
        return -1;
    *value = at->frame.r[number];
    return 0;
}

int clew_set_reg(clew_cursor_t *cursor, int number, uint64_t value) {
    struct cursor *at = in(cursor);
    if (number < 0 || number > pc_of(at))
        return -1;
    at->frame.r[number] = value;
    at->frame.known |= CLEW_BIT(number);
    return 0;
}

uint64_t clew_get_pc(const clew_cursor_t *cursor) {
    return of(cursor)->frame.r[pc_of(of(cursor))];
}

uint64_t clew_get_sp(const clew_cursor_t *cursor) {
    return of(cursor)->frame.r[sp_of(of(cursor))];
}

int clew_is_interrupted(const clew_cursor_t *cursor) {
    return of(cursor)->interrupted;
}

int clew_local_init_signal(clew_cursor_t *cursor, const void *ucontext) {
    clew_context_t context = {.known = 0};
#ifdef __x86_64__
    /* struct ucontext of Linux, x86-64: the general registers 40 bytes in: r8 to r15, rdi rsi rbp rbx rdx rax rcx rsp rip. */
    static const uint8_t numbers[17] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
    uint64_t registers[17];
    memcpy(registers, (const char *)ucontext + 40, sizeof registers);
    for (int i = 0; i < 17; i++)
        context.r[numbers[i]] = registers[i];
    context.known = 0x1ffff;
#else
    /* Linux, AArch64: x0 to x30, sp and pc 184 bytes in. */
    memcpy(context.r, (const char *)ucontext + 184, 33 * sizeof(uint64_t));
    context.known = (1ull << 33) - 1;
#endif
    if (begin(cursor, NULL, &context, 1))
        return -1;
    in(cursor)->reach = clew_walk_reach(context.r[CFI_SP]);
    return 0;
}
