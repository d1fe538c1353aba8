/* What `clew compile --abi paper --deref` makes of a file: the context of the paper, which is rip, rsp, rbp and rbx, and its function
   that loads a word (listing 4). Nothing is handed to that but an address, so the sample is where it finds it; and it has no way to
   say that it cannot, so that is noted beside it. */
#include "stretches.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* As in the sources that clew writes. */
typedef struct {
    uint8_t flags; /* 1 rip, 2 rsp, 4 rbp, 8 rbx: the register is known; 128: error */
    uintptr_t rip, rsp, rbp, rbx;
} unwind_context_t;

typedef uintptr_t (*deref_func_t)(uintptr_t);
typedef unwind_context_t eh_elf(unwind_context_t context, uintptr_t pc, deref_func_t deref);

enum { RBX = 3, KNOWN_RBP = 4, ALL_KNOWN = 15, ERROR = 128 };

static const struct sample *sample_under_way;
static int unreadable;

static uintptr_t load(uintptr_t address)
{
    uint64_t value;
    if (__builtin_expect(recording_read((void *)sample_under_way, address, &value), 1))
        return value;
    unreadable = 1;
    return 0;
}

static const void *open_function(const char *path)
{
    void *library = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    return library ? dlsym(library, "_eh_elf") : NULL;
}

static void *open_c(const struct recording *recording, const char **reason)
{
    return open_compiled(recording, offsetof(struct object, paper_c), open_function, reason);
}

static void *open_assembler(const struct recording *recording, const char **reason)
{
    return open_compiled(recording, offsetof(struct object, paper_asm), open_function, reason);
}

/* Code without a row is left by the frame pointer, as clew_walk.h has it. */
static int step_by_frame_pointer(unwind_context_t *context, const struct sample *sample)
{
    uint64_t pointer = context->rbp, saved, back;
    if (!(context->flags & KNOWN_RBP) || pointer < context->rsp || pointer & 7
        || !recording_read((void *)sample, pointer, &saved) || !recording_read((void *)sample, pointer + 8, &back))
        return 0;
    *context = (unwind_context_t){1 | 2 | KNOWN_RBP, back, pointer + 16, saved, 0};
    return 1;
}

static int unwind(void *argument, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    struct stretches *stretches = compiled_for(argument, sample);
    const uint64_t *registers = sample->registers;
    unwind_context_t context = {ALL_KNOWN, registers[RIP], registers[RSP], registers[RBP], registers[RBX]};
    int count = 0;
    sample_under_way = sample;
    unreadable = 0;
    *ending = FAILED;
    do {
        /* The context does not say that a frame was interrupted: only the first one is known to be. */
        uint64_t pc = context.rip, sp = context.rsp, address = pc - (count > 0);
        pcs[count++] = pc;
        const struct stretch *stretch = stretch_of(stretches, address);
        unwind_context_t caller = {.flags = ERROR};
        if (__builtin_expect(stretch->form != NULL, 1))
            caller = ((eh_elf *)(uintptr_t)stretch->form)(context, address - stretch->bias, load);
        if (__builtin_expect(caller.flags & ERROR, 0)) {
            /* Nor does it say whether there is no row or no caller. */
            if (recording_outermost(sample->space, address)) {
                *ending = ENDED;
                return count;
            }
            if (!step_by_frame_pointer(&context, sample))
                return count;
        } else {
            if (__builtin_expect(unreadable, 0))
                return count;
            context = caller;
        }
        if (!context.rip) {
            *ending = ENDED;
            return count;
        }
        /* The stack has to go on. */
        if (context.rsp <= sp && (context.rsp < sp || count > 1 || context.rip == pc))
            return count;
    } while (count < most);
    *ending = ENDED;
    return count;
}

const struct engine engines[] = {
    {.name = "clew C, the paper's registers", .open = open_c, .unwind = unwind},
    {.name = "clew asm, the paper's registers", .open = open_assembler, .unwind = unwind},
    {0},
};
