/*
 * What a thread remembers from walk to walk: rules by program counter, the modules that they are of, and its stack.
 *
 * The memory is mapped on the thread's first walk, which may be in a signal handler. When a thread is gone, another one
 * takes its memory over.
 */
#ifndef CLEW_THREAD_H
#define CLEW_THREAD_H

#include "modules.h"
#include "reach.h"

/* Entries of the cache: few at first, since fresh memory costs more than it saves, and more when they do not suffice. */
#define CACHE_FIRST 1024u
#define CACHE_MOST 16384u
#define THREAD_MODULES 255u

/*
 * What a walk does at one program counter, in 8 bytes; `check` is the pc, mixed with the rule: half of one entry and half of
 * another, as a signal may leave them, fit no pc.
 */
struct entry {
    uint64_t check, rule;
};

/* A module in the cache. Each walk makes sure once that it is still there. */
struct visited {
    const void *link_map, *header;
    uint64_t low, high;
    const uint8_t *id_at;
    uint32_t id_size;
    uint8_t id[MODULE_ID];
    const struct module *module; /* NULL: not known, its .eh_frame is interpreted */
};

/*
 * A frame of the walk before: its registers, and how it was left: the module of its rule in the highest byte, below that
 * where the frame pointer was saved, or 0. If the next walk comes by the same frame, what follows is as before if the words
 * that were read are: and these can be looked at all at once, while a walk waits for each word to tell where the next is.
 */
struct memo {
    uint64_t sp, pc, fp, how;
};

#define MEMO_MOST 256
#define MEMO_ROOM 64 /* in front of the first, for deeper stacks */
#define MEMO_END ~0ull /* as `how`: it was left some other way; as `sp`: there are no more */

struct thread {
    atomic_int owner; /* the kernel's number of its thread */
    int process;      /* and of the process that this is said in: a child that came by no fork of the C library's may be another */
    struct thread *next;
    uint64_t busy;    /* where the walk that is under way has its mark; 0: there is none */
    uint64_t salt;    /* in the high bits: what makes entries of another time fit nothing */
    uint32_t generation, walk, mask, misses, count;
    int end; /* of the last walk */
    uint64_t low, high; /* of its own stack, as far as it is known to be readable */
    uint64_t barrier;   /* a page that cannot be read, below its own stack */
    uint64_t top;       /* its own stack ends here; 0: not known */
    uint32_t memo_which, memo_first;
    uint64_t memo_salt; /* they are of rules of this time */
    struct memo memo[2][MEMO_MOST + 1];
    uint8_t index[256]; /* by link map: a number in `modules`, from 1 on */
    uint32_t seen[256]; /* the walk that last found the module to be still there */
    struct visited modules[THREAD_MODULES];
    _Alignas(4096) struct entry cache[CACHE_MOST];
};

/* This thread's; NULL if there is no memory. Async-signal-safe. */
struct thread *clew_thread(void);

/* Forgets all rules and modules. */
void clew_thread_forget(struct thread *thread);

/* What of the stack around `sp` may be read without asking. */
struct reach clew_thread_reach(struct thread *thread, uint64_t sp);

/*
 * A walk's mark is in its own frame, and stays what it is as long as the walk is under way. Where a handler runs says nothing
 * of that: its stack may be anywhere, even in a frame of the one that it interrupted.
 */
#define MARK(at) ((uint64_t)(uintptr_t)(at) ^ 0xc1e3a55f60f7b2d4ull)

/*
 * Whether the walk that was under way is over, since a handler left it by longjmp. As long as nothing else is where its mark
 * was that cannot be told, and it is not.
 */
int clew_thread_abandoned(const struct thread *thread);

/*
 * Begins a walk; `mark` is in the frame of who calls. 0 if the thread is in the midst of one that a signal interrupted: its
 * memory must then not be touched.
 */
static inline int clew_thread_enter(struct thread *thread, volatile uint64_t *mark) {
    *mark = 0; /* one that was left here before is no longer under way */
    if (__builtin_expect(thread->busy != 0, 0)) {
        if (!clew_thread_abandoned(thread))
            return 0;
        clew_thread_forget(thread);
    }
    *mark = MARK(mark);
    thread->busy = (uint64_t)(uintptr_t)mark;
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t now = atomic_load_explicit(&clew_generation, memory_order_acquire);
    if (__builtin_expect(thread->generation != now, 0)) {
        clew_thread_forget(thread);
        thread->generation = now;
    }
    if (__builtin_expect(++thread->walk == 0, 0)) {
        clew_thread_forget(thread);
        thread->walk = 1;
    }
    return 1;
}

static inline void clew_thread_leave(struct thread *thread) {
    atomic_signal_fence(memory_order_seq_cst);
    thread->busy = 0;
}

#endif
