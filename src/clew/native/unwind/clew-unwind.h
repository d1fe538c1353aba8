/*
 * clew-unwind: the stack of the calling thread, or of another program, by packed unwind tables.
 *
 *     #include <clew-unwind.h>
 *     clew_init();
 *     void *pcs[64];
 *     int count = clew_backtrace(pcs, 64);
 *
 * After clew_init, everything below but clew_init, clew_update and the functions that make, fill or free a clew_remote_t is
 * async-signal-safe and may be called by any number of threads. Needs glibc 2.35 (_dl_find_object), x86-64 or AArch64 Linux.
 *
 * Nothing here returns a wrong frame for a missing one: a walk that cannot go on says why (enum clew_end).
 */
#ifndef CLEW_UNWIND_H
#define CLEW_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define CLEW_UNWIND_VERSION 1

/* How many registers a context has: x86-64 uses 17 (DWARF numbers; 16 is rip), AArch64 33 (x0 to x30, sp, pc). */
#define CLEW_CONTEXT_REGISTERS 33

/* The registers of a frame, by DWARF number; bit i of `known` says whether r[i] is known. */
typedef struct clew_context {
    uint64_t known;
    uint64_t r[CLEW_CONTEXT_REGISTERS];
} clew_context_t;

/* Why a walk ended. */
enum clew_end {
    CLEW_END_NONE = 0,             /* it has not ended */
    CLEW_END_ENTRY = 1,            /* the outermost frame: its return address is undefined */
    CLEW_END_NULL_RETURN = 2,      /* the return address is 0 */
    CLEW_END_NO_MODULE = 3,        /* the pc is in no loaded module */
    CLEW_END_NO_RULE = 4,          /* the module's table says nothing of the pc */
    CLEW_END_BAD_RULE = 5,         /* what it says cannot be computed */
    CLEW_END_UNKNOWN_REGISTER = 6, /* a register is needed that is not known */
    CLEW_END_UNREADABLE = 7,       /* memory is needed that cannot be read */
    CLEW_END_NO_PROGRESS = 8,      /* the caller would be the frame itself, or lie below it */
};

/* What is wrong with a table; 0 from the functions that take one means that it was taken. */
enum clew_refusal { CLEW_REFUSED_TABLE = -1, CLEW_REFUSED_MEMORY = -2, CLEW_REFUSED_ARGUMENT = -3 };

/*
 * Prepares the library: finds the tables of all loaded modules in the cache, and builds those that are not there. 0, or -1
 * if the machine lacks what it takes. Further calls do nothing. Not to be called in a signal handler.
 */
int clew_init(void);

/*
 * Looks for modules that were loaded since, as clew_init does for the first ones. Walks know them without it as well, and
 * read their .eh_frame themselves, which is slower the first time. Not to be called in a signal handler.
 */
void clew_update(void);

/* Fills `buffer` with the return addresses of the calling thread's frames, its caller's first; how many there are. */
int clew_backtrace(void **buffer, int size);

/* Why the last clew_backtrace of this thread ended (CLEW_END_NONE: its buffer was full). */
enum clew_end clew_backtrace_end(void);

/* A few words for it, in static memory. */
const char *clew_end_text(enum clew_end end);

/* ---- step by step -------------------------------------------------------------------------------------------------- */

/* Where a walk stands. */
typedef struct clew_cursor {
    uint64_t opaque[48];
} clew_cursor_t;

/* The caller's registers: those that functions preserve, the stack pointer and the pc. Always 0. */
int clew_getcontext(clew_context_t *context);

/* A cursor at the frame that a context is of. 0, or -1 if the context has no pc or no stack pointer. */
int clew_local_init(clew_cursor_t *cursor, const clew_context_t *context);

/* A cursor at the frame that a signal interrupted: `ucontext` is the third argument of a handler with SA_SIGINFO. */
int clew_local_init_signal(clew_cursor_t *cursor, const void *ucontext);

/* Goes to the caller. 1 if there is one, 0 at the outermost frame, -1 if the walk cannot go on; see clew_end_reason. */
int clew_step(clew_cursor_t *cursor);

enum clew_end clew_end_reason(const clew_cursor_t *cursor);

/* A register by its DWARF number. 0, or -1 if it is not known, or there is no such register. */
int clew_get_reg(const clew_cursor_t *cursor, int number, uint64_t *value);
int clew_set_reg(clew_cursor_t *cursor, int number, uint64_t value);

/* The registers that are always there. */
uint64_t clew_get_pc(const clew_cursor_t *cursor);
uint64_t clew_get_sp(const clew_cursor_t *cursor);

/* Whether the frame was interrupted: its pc is no return address. */
int clew_is_interrupted(const clew_cursor_t *cursor);

/* ---- another program ----------------------------------------------------------------------------------------------- */

/* Reads `size` bytes of the other program at an address: 0 if all of them could be read. */
typedef int (*clew_read_t)(void *argument, uint64_t address, void *into, size_t size);

typedef struct clew_remote clew_remote_t;

/* CLEW_MACHINE_X86_64 or CLEW_MACHINE_AARCH64. */
enum { CLEW_MACHINE_X86_64 = 1, CLEW_MACHINE_AARCH64 = 2 };

/* What is known of another program; NULL if there is no memory or no such machine. */
clew_remote_t *clew_remote_new(int machine, clew_read_t read, void *argument);
void clew_remote_free(clew_remote_t *remote);

/*
 * A module that lies at [start, end) there, and its packed table, which has to stay where it is: as written by `clew compile
 * --backend packed`, at an address that is a multiple of 32. `bias` is what the file's addresses are moved by. 0, or
 * enum clew_refusal.
 */
int clew_remote_module(clew_remote_t *remote, const void *table, size_t size, uint64_t start, uint64_t end, uint64_t bias);

/* A cursor at a frame of the other program; then as for one's own. */
int clew_remote_init(clew_cursor_t *cursor, const clew_remote_t *remote, const clew_context_t *context);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
