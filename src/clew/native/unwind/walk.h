/* Steps of a walk through this process, with all registers. */
#ifndef CLEW_WALK_H
#define CLEW_WALK_H

#include "modules.h"
#include "reach.h"

#define CLEW_LOAD(memory, address, size, into) clew_reach_load(memory, address, size, into)
#ifndef REACH_SANITIZED
#define CLEW_WINDOW(memory, address, size) clew_reach_window(memory, address, size)
#endif
#define CLEW_PREFIX clew_table_
#include "../step.h"

#include "clew-unwind.h"

/* More than step.h has: the pc is in no module. */
#define WALK_NO_MODULE (-8)

/* The rule at an address: from a module's table, or made of its .eh_frame. */
struct resolved {
    const struct clew_table *table;
    const struct clew_rule *rule;
    struct clew_table own;
    struct cfi_rule made;
    struct clew_step steps[64];
};

/* `module`: as clew_module says, NULL if the module is not known. 0, CLEW_NO_ROW or CLEW_BAD_RULE. Async-signal-safe. */
int clew_resolve(const struct dl_find_object *found, const struct module *module, uint64_t address, struct resolved *to);

/*
 * Leaves a frame that no table knows, if it is the kernel's for a signal: CLEW_INTERRUPTED; or CLEW_NO_ROW. On x86-64 glibc
 * has a table for it; on AArch64 it is the kernel's, or an emulator's without any.
 */
int clew_leave_signal_frame(struct clew_frame *frame, struct reach *reach);

/* The frame of a call through a wild pointer, such as a null one: nothing ran there yet, so the return address is where the call
 * left it. CLEW_NO_ROW if no module is there. */
int clew_leave_wild_call(struct clew_frame *frame, struct reach *reach);

/* A frame whose pc is in no module: a signal's, or one that was interrupted behind a wild call. */
int clew_leave_without_module(struct clew_frame *frame, struct reach *reach, int interrupted);

/* One step: enum clew_status or WALK_NO_MODULE. Async-signal-safe. */
int clew_walk_step(struct clew_frame *frame, struct reach *reach, int interrupted);

/* Why a walk ended, for its callers. */
enum clew_end clew_end_of(int status);

/* The stretch of this thread's stack around `sp`, from what it remembers; nothing if that must not be asked now. */
struct reach clew_walk_reach(uint64_t sp);

/* All frames of a context, whose first is the buffer's first; how many. */
int clew_backtrace_full(void **buffer, int size, const clew_context_t *context);

/* The same by pc, sp and frame pointer alone; -1 if that does not suffice. */
int clew_trace(void **buffer, int size, uint64_t pc, uint64_t sp, uint64_t fp);

#endif
