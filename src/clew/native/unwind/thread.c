/* What a thread remembers from walk to walk; see thread.h. */
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The initial-exec model: a plain load, where another would call a function that may allocate. */
static __thread struct thread *current __attribute__((tls_model("initial-exec")));

static _Atomic(struct thread *) threads;

/* How many threads that may be gone are asked for, when another one needs memory. */
#define ASKED 16
/* A main thread's stack may be this large; nothing else is mapped so near above it. */
#define MAIN_STACK (64ull << 20)
/* As far below its control block is a thread's own stack looked for: farther only when it is used as far. */
#define THREAD_STACK (16ull << 20)

static int gone(int owner) {
    return syscall(SYS_tgkill, getpid(), owner, 0) != 0 && errno == ESRCH;
}

/* The memory of a thread that is gone, or fresh memory. */
static struct thread *obtain(int self) {
    int asked = 0, process = getpid();
    struct thread *each = atomic_load_explicit(&threads, memory_order_acquire);
    for (; each && asked < ASKED; each = each->next, asked++) {
        int owner = atomic_load_explicit(&each->owner, memory_order_relaxed);
        if (each->process == process && owner != self && gone(owner) &&
            atomic_compare_exchange_strong(&each->owner, &owner, self))
            return each;
    }
    struct thread *fresh =
        mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
#ifdef MADV_POPULATE_WRITE /* what is needed soon, at once: that costs less than a fault for each page */
    madvise(fresh->cache, CACHE_FIRST * sizeof(struct entry), MADV_POPULATE_WRITE);
#endif
    atomic_store_explicit(&fresh->owner, self, memory_order_relaxed);
    fresh->process = process;
    fresh->next = atomic_load_explicit(&threads, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&threads, &fresh->next, fresh, memory_order_release, memory_order_relaxed))
        ;
    return fresh;
}

extern void *__libc_stack_end; /* where the kernel put the main thread's arguments (ld.so) */

static void find_top(struct thread *thread, int self) {
    thread->low = thread->high = thread->barrier = 0;
    if (self == getpid()) {
        thread->top = ((uint64_t)(uintptr_t)__libc_stack_end & ~(REACH_PAGE - 1)) + REACH_PAGE;
    } else {
        /* glibc puts a thread's control block at the top of its stack. */
        thread->top = ((uint64_t)(uintptr_t)__builtin_thread_pointer() & ~(REACH_PAGE - 1)) + REACH_PAGE;
    }
}

static void restart(struct thread *thread, int self) {
    thread->busy = 0;
    thread->mask = (CACHE_FIRST - 1) * sizeof(struct entry);
    thread->misses = 0;
    thread->generation = atomic_load_explicit(&clew_generation, memory_order_acquire);
    find_top(thread, self);
    clew_thread_forget(thread);
}

struct thread *clew_thread(void) {
    struct thread *thread = current;
    if (__builtin_expect(!thread, 0)) {
        int saved = errno, self = (int)syscall(SYS_gettid);
        thread = obtain(self);
        if (thread) {
            restart(thread, self);
            atomic_signal_fence(memory_order_seq_cst);
            current = thread;
        }
        errno = saved;
    }
    return thread;
}

void clew_thread_forget(struct thread *thread) {
    thread->salt += 1ull << 48;
    if (!thread->salt) { /* it has come round: entries of long ago would fit again */
        memset(thread->cache, 0, sizeof thread->cache);
        thread->salt = 1ull << 48;
    }
    memset(thread->index, 0, sizeof thread->index);
    memset(thread->seen, 0, sizeof thread->seen);
    thread->count = 0;
}

int clew_thread_abandoned(const struct thread *thread) {
    return !clew_readable(thread->busy) || reach_word(thread->busy) != MARK(thread->busy);
}

/*
 * The thread's own stack is what can be read without a gap from the stack pointer up to its top: below the lowest page of a
 * thread's stack is one that nobody can read, and the main thread's lies far from everything else.
 */
static void own_stack(struct thread *thread, uint64_t sp) {
    uint64_t most = thread->owner == getpid() ? MAIN_STACK : THREAD_STACK, page = sp & ~(REACH_PAGE - 1);
    uint64_t known = thread->low ? thread->low : thread->top;
    if (sp >= thread->top || known - page > most || page <= thread->barrier)
        return;
    uint64_t low = known;
    while (low > page) {
        if (!clew_readable(low - REACH_PAGE)) {
            thread->barrier = low - REACH_PAGE;
            return;
        }
        low -= REACH_PAGE;
    }
    thread->low = low;
    thread->high = thread->top;
}

struct reach clew_thread_reach(struct thread *thread, uint64_t sp) {
    if (sp < thread->low || sp >= thread->high)
        own_stack(thread, sp);
    if (sp >= thread->low && sp < thread->high)
        return (struct reach){thread->low, thread->high, 0, 0};
    /* A callee's frame lies right below, or a word that the program put there. */
    uint64_t page = (sp - 8) & ~(REACH_PAGE - 1);
    return (struct reach){page, page + (clew_readable(page) ? REACH_PAGE : 0), 0, 0};
}

/* Only the thread that forked is in the child; its number is another one there. */
static void in_child(void) {
    for (struct thread *each = atomic_load_explicit(&threads, memory_order_relaxed); each; each = each->next)
        each->process = getpid();
    if (current)
        atomic_store_explicit(&current->owner, (int)syscall(SYS_gettid), memory_order_relaxed);
}

__attribute__((constructor)) static void follow_forks(void) {
    pthread_atfork(NULL, NULL, in_child);
}
