/*
 * _Unwind_Backtrace, and the functions that read its callbacks' context (Itanium C++ ABI, "Exception Handling", 1.5; libgcc's
 * additions).
 *
 * A context of ours begins with a number that no context of libgcc does: that begins with a pointer, and this is none.
 * Contexts of others (a throw's, pthread_cancel's) are theirs to read: the next library's functions get them.
 */
#include <stdlib.h>

#include "preload.h"

#define TAG 0xfedcc1e700000000ull

struct context {
    uint64_t tag;
    const struct context *self;
    clew_cursor_t cursor;
    int looked_up, found; /* the FDE around the pc: whether it was looked for, and whether there is one */
    uint64_t start, lsda;
};

struct _Unwind_Context;
typedef int (*trace_t)(struct _Unwind_Context *, void *);

enum { NO_REASON = 0, FATAL_PHASE1_ERROR = 3, END_OF_STACK = 5 };

/* Functions of libgcc_s, or of whatever comes next, with their versions. */
enum {
    GET_IP, GET_IP_INFO, GET_CFA, GET_GR, SET_GR, SET_IP, GET_LSDA, GET_REGION_START, GET_DATA_REL_BASE, GET_TEXT_REL_BASE,
    OTHERS,
};

static const char *const names[OTHERS][2] = {
    [GET_IP] = {"_Unwind_GetIP", "GCC_3.0"},
    [GET_IP_INFO] = {"_Unwind_GetIPInfo", "GCC_4.2.0"},
    [GET_CFA] = {"_Unwind_GetCFA", "GCC_3.3"},
    [GET_GR] = {"_Unwind_GetGR", "GCC_3.0"},
    [SET_GR] = {"_Unwind_SetGR", "GCC_3.0"},
    [SET_IP] = {"_Unwind_SetIP", "GCC_3.0"},
    [GET_LSDA] = {"_Unwind_GetLanguageSpecificData", "GCC_3.0"},
    [GET_REGION_START] = {"_Unwind_GetRegionStart", "GCC_3.0"},
    [GET_DATA_REL_BASE] = {"_Unwind_GetDataRelBase", "GCC_3.0"},
    [GET_TEXT_REL_BASE] = {"_Unwind_GetTextRelBase", "GCC_3.0"},
};

static void *_Atomic others[OTHERS];

__attribute__((constructor)) static void resolve(void) {
    for (int i = 0; i < OTHERS; i++)
        atomic_store(&others[i], clew_preload_next(names[i][0], names[i][1]));
}

/* The other library's function; there is one, since its context came from there. */
static void *other(int which) {
    void *found = atomic_load_explicit(&others[which], memory_order_relaxed);
    if (!found) {
        found = clew_preload_next(names[which][0], names[which][1]);
        if (!found)
            abort(); /* a context that nobody made */
        atomic_store(&others[which], found);
    }
    return found;
}

static struct context *ours(struct _Unwind_Context *context) {
    struct context *mine = (struct context *)(void *)context;
    return mine && mine->tag == TAG && mine->self == mine ? mine : NULL;
}

/* Finds the FDE around an address. */
static int fde_at(uint64_t address, struct cfi_fde *fde) {
    struct dl_find_object found;
    struct module unknown;
    struct cfi_cie cie;
    if (_dl_find_object((void *)(uintptr_t)address, &found) || !found.dlfo_eh_frame)
        return -1;
    const struct module *module = clew_module(&found);
    if (!module) {
        if (clew_module_unknown(&found, &unknown))
            return -1;
        module = &unknown;
    }
    if (clew_find_fde(&module->layout, (uint64_t)(uintptr_t)found.dlfo_eh_frame, address, &cie, fde) != CFI_OK)
        return -1;
    return cie.lsda_encoding != 0xff && cie.lsda_encoding & 0x80 ? 1 : 0;
}

static void look_up(struct context *mine) {
    struct cfi_fde fde;
    if (mine->looked_up)
        return;
    mine->looked_up = 1;
    int status = fde_at(clew_get_pc(&mine->cursor) - !clew_is_interrupted(&mine->cursor), &fde);
    mine->found = status >= 0;
    mine->start = status >= 0 ? fde.start : 0;
    mine->lsda = status == 0 ? fde.lsda : 0;
}

/* Not to be left by a jump: the first step goes from here to who called. */
PUBLIC __attribute__((noinline)) int _Unwind_Backtrace(trace_t trace, void *argument) {
    struct context mine = {.tag = TAG};
    clew_context_t here;
    mine.self = &mine;
    clew_getcontext(&here);
    if (clew_local_init(&mine.cursor, &here))
        return FATAL_PHASE1_ERROR;
    for (int going = 1; going;) {
        going = clew_step(&mine.cursor) == 1;
        if (!going) {
            enum clew_end end = clew_end_reason(&mine.cursor);
            if (end != CLEW_END_ENTRY && end != CLEW_END_NULL_RETURN)
                break;
            clew_set_reg(&mine.cursor, CFI_PC, 0); /* libgcc tells of the outermost frame's caller as well: its pc is 0 */
        }
        mine.looked_up = 0;
        if (trace((struct _Unwind_Context *)(void *)&mine, argument) != NO_REASON)
            return FATAL_PHASE1_ERROR;
    }
    return END_OF_STACK;
}

PUBLIC uintptr_t _Unwind_GetIP(struct _Unwind_Context *context) {
    struct context *mine = ours(context);
    return mine ? clew_get_pc(&mine->cursor) : ((uintptr_t(*)(struct _Unwind_Context *))other(GET_IP))(context);
}

PUBLIC uintptr_t _Unwind_GetIPInfo(struct _Unwind_Context *context, int *before) {
    struct context *mine = ours(context);
    if (!mine)
        return ((uintptr_t(*)(struct _Unwind_Context *, int *))other(GET_IP_INFO))(context, before);
    *before = clew_is_interrupted(&mine->cursor);
    return clew_get_pc(&mine->cursor);
}

PUBLIC uintptr_t _Unwind_GetCFA(struct _Unwind_Context *context) {
    struct context *mine = ours(context);
    return mine ? clew_get_sp(&mine->cursor) : ((uintptr_t(*)(struct _Unwind_Context *))other(GET_CFA))(context);
}

PUBLIC uintptr_t _Unwind_GetGR(struct _Unwind_Context *context, int number) {
    struct context *mine = ours(context);
    uint64_t value;
    if (!mine)
        return ((uintptr_t(*)(struct _Unwind_Context *, int))other(GET_GR))(context, number);
    return clew_get_reg(&mine->cursor, number, &value) ? 0 : value;
}

PUBLIC void _Unwind_SetGR(struct _Unwind_Context *context, int number, uintptr_t value) {
    struct context *mine = ours(context);
    if (mine)
        clew_set_reg(&mine->cursor, number, value);
    else
        ((void (*)(struct _Unwind_Context *, int, uintptr_t))other(SET_GR))(context, number, value);
}

PUBLIC void _Unwind_SetIP(struct _Unwind_Context *context, uintptr_t value) {
    struct context *mine = ours(context);
    if (mine)
        clew_set_reg(&mine->cursor, CFI_PC, value);
    else
        ((void (*)(struct _Unwind_Context *, uintptr_t))other(SET_IP))(context, value);
}

PUBLIC void *_Unwind_GetLanguageSpecificData(struct _Unwind_Context *context) {
    struct context *mine = ours(context);
    if (!mine)
        return ((void *(*)(struct _Unwind_Context *))other(GET_LSDA))(context);
    look_up(mine);
    return (void *)(uintptr_t)mine->lsda;
}

PUBLIC uintptr_t _Unwind_GetRegionStart(struct _Unwind_Context *context) {
    struct context *mine = ours(context);
    if (!mine)
        return ((uintptr_t(*)(struct _Unwind_Context *))other(GET_REGION_START))(context);
    look_up(mine);
    return mine->start;
}

/* Neither machine has pointers relative to data or text in its tables. */
PUBLIC uintptr_t _Unwind_GetDataRelBase(struct _Unwind_Context *context) {
    return ours(context) ? 0 : ((uintptr_t(*)(struct _Unwind_Context *))other(GET_DATA_REL_BASE))(context);
}

PUBLIC uintptr_t _Unwind_GetTextRelBase(struct _Unwind_Context *context) {
    return ours(context) ? 0 : ((uintptr_t(*)(struct _Unwind_Context *))other(GET_TEXT_REL_BASE))(context);
}

PUBLIC void *_Unwind_FindEnclosingFunction(void *pc) {
    struct cfi_fde fde;
    return fde_at((uint64_t)(uintptr_t)pc - 1, &fde) < 0 ? NULL : (void *)(uintptr_t)fde.start;
}
