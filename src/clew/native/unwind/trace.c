/*
 * clew_backtrace by pc, stack pointer and frame pointer alone.
 *
 * Nearly every frame is left by "the CFA is the stack or the frame pointer plus a number; the frame pointer is saved there, or
 * kept". That fits eight bytes, which each thread keeps by pc. Frames that say it otherwise (a signal's, a stub's) are left by
 * their own rules; if those need a register that is not known here, the walk begins anew with all of them.
 */
#include "thread.h"
#include "walk.h"

/*
 * A rule: bits 3-20 the CFA's offset, bits 21-38 how far below the CFA the frame pointer is saved (0: it is not), bits 39-55
 * how far the return address, each divided by 8; bits 56-63 the module.
 */
#define FROM_FP 1u
#define SIGNED 2u
#define CFA_OFFSET(rule) ((rule) & 0x1ffff8u)
#define FP_BELOW(rule) ((rule) >> 18 & 0x1ffff8u)
#define MODULE(rule) ((rule) >> 56)
/* The low bits of return addresses are as good as random; AArch64's instructions begin at multiples of four. */
#ifdef __x86_64__
#define BACK_BELOW(rule) 8u /* the call put it there */
#define FP 6
#define PLACE(at, mask) ((at) << 4 & (mask))
#define MEMOS 1
#else
#define BACK_BELOW(rule) ((rule) >> 36 & 0xffff8u)
#define FP 29
#define PLACE(at, mask) ((at) << 2 & (mask))
#define MEMOS 0 /* a return address may be signed with what it lies at */
#endif

/* What became of a frame: its rule is remembered now, it was left, the walk has ended, or needs all registers. */
enum { REMEMBERED, LEFT, ENDED, FULL };

struct state {
    uint64_t pc, sp, fp;
    struct reach reach;
    int interrupted, status;
};

static inline struct entry *entry_of(struct thread *thread, uint64_t at, uint32_t mask) {
    return (struct entry *)((char *)thread->cache + PLACE(at, mask));
}

/* The other place where it may be: beside the first, in the same line of the processor's cache. */
static inline struct entry *beside(const struct entry *entry) {
    return (struct entry *)((uintptr_t)entry ^ sizeof(struct entry));
}

static inline int is_of(const struct entry *entry, uint64_t at, uint64_t salt) {
    return (entry->check ^ entry->rule) == (at ^ salt);
}

/* A rule in eight bytes; 0 if it does not fit. */
static uint64_t shorten(const struct clew_rule *rule) {
    uint32_t from = CLEW_CFA_FROM(rule), back = 0, fp = 0;
    if (CLEW_CFA_KIND(rule) != CLEW_CFA_REGISTER || rule->flags & ~CLEW_RULE_SIGNED || (from != CFI_SP && from != FP) ||
        rule->cfa_offset & 7 || rule->cfa_offset < 8 || rule->cfa_offset >= 1 << 21)
        return 0;
    if (!(rule->saved >> CFI_RETURN & 1))
        return 0;
    back = (uint32_t)rule->base + rule->slot[CLEW_SLOT(CFI_RETURN)];
    if (rule->saved >> FP & 1)
        fp = (uint32_t)rule->base + rule->slot[CLEW_SLOT(FP)];
    else if (!(rule->same >> FP & 1))
        return 0;
    if (!back || back >= 1 << 17 || (FP == 6 && back != 1) || fp >= 1 << 18 ||
        (rule->saved >> FP & 1 && !fp))
        return 0;
    /* Nothing is below the stack pointer. */
    if (from == CFI_SP && (8 * fp > (uint32_t)rule->cfa_offset || 8 * back > (uint32_t)rule->cfa_offset))
        return 0;
    return (uint64_t)(uint32_t)rule->cfa_offset | (uint64_t)fp << 21 | (uint64_t)back << 39 | (from == FP ? FROM_FP : 0) |
           (rule->flags & CLEW_RULE_SIGNED ? SIGNED : 0);
}

/* The number of a module among those that this thread has visited; all are forgotten if one is no longer what it was. */
static uint32_t visit(struct thread *thread, const struct dl_find_object *found) {
    uint32_t at = (uint32_t)(((uint64_t)(uintptr_t)found->dlfo_link_map * 0x9e3779b97f4a7c15ull) >> 56), number;
    for (; (number = thread->index[at]); at = (at + 1) & 255) {
        struct visited *visited = &thread->modules[number - 1];
        if (visited->link_map != found->dlfo_link_map)
            continue;
        if (thread->seen[number - 1] == thread->walk)
            return number - 1;
        if (visited->header == found->dlfo_eh_frame && visited->low == (uint64_t)(uintptr_t)found->dlfo_map_start &&
            clew_module_is(visited->id_at, visited->id, visited->id_size)) {
            thread->seen[number - 1] = thread->walk;
            return number - 1;
        }
        clew_thread_forget(thread);
        break;
    }
    if (thread->count >= THREAD_MODULES)
        clew_thread_forget(thread);
    struct module unknown;
    const struct module *known = clew_module(found), *module = known;
    if (!module) {
        if (clew_module_unknown(found, &unknown))
            unknown.id_size = 0;
        module = &unknown;
    }
    struct visited *fresh = &thread->modules[thread->count++];
    *fresh = (struct visited){.link_map = found->dlfo_link_map,
                              .header = found->dlfo_eh_frame,
                              .low = (uint64_t)(uintptr_t)found->dlfo_map_start,
                              .high = (uint64_t)(uintptr_t)found->dlfo_map_end,
                              .id_at = module->id_at,
                              .id_size = module->id_size,
                              .module = known};
    memcpy(fresh->id, module->id, sizeof fresh->id);
    for (at = (uint32_t)(((uint64_t)(uintptr_t)found->dlfo_link_map * 0x9e3779b97f4a7c15ull) >> 56); thread->index[at];
         at = (at + 1) & 255)
        ;
    thread->index[at] = (uint8_t)thread->count;
    thread->seen[thread->count - 1] = thread->walk;
    return thread->count - 1;
}

static void remember(struct thread *thread, uint64_t at, uint64_t rule) {
    if (++thread->misses > thread->mask / sizeof(struct entry) && thread->mask < (CACHE_MOST - 1) * sizeof(struct entry)) {
        thread->mask = (4 * (thread->mask + (uint32_t)sizeof(struct entry))) - (uint32_t)sizeof(struct entry);
        thread->misses = 0;
    }
    struct entry *entry = entry_of(thread, at, thread->mask);
    if (entry->check)
        *beside(entry) = *entry;
    entry->check = at ^ thread->salt ^ rule;
    entry->rule = rule;
}

/* Leaves the frame with its own rule, of pc, stack pointer and frame pointer. */
static int leave(struct thread *thread, struct state *state, const struct clew_table *table, const struct clew_rule *rule) {
    struct clew_frame frame;
    frame.known = CLEW_BIT(CFI_PC) | CLEW_BIT(CFI_SP) | CLEW_BIT(FP);
    frame.r[CFI_PC] = state->pc;
    frame.r[CFI_SP] = state->sp;
    frame.r[FP] = state->fp;
    state->status = table ? clew_table_leave(CFI_MACHINE, table, rule, &frame, state->interrupted, &state->reach)
                          : clew_leave_without_module(&frame, &state->reach, state->interrupted);
    if (state->status == CLEW_UNKNOWN_REGISTER || state->status == CLEW_BAD_RULE)
        return FULL;
    if (state->status < 0)
        return ENDED;
    if (!(frame.known >> FP & 1))
        return FULL;
    state->pc = frame.r[CFI_PC];
    state->sp = frame.r[CFI_SP];
    state->fp = frame.r[FP];
    state->interrupted = state->status == CLEW_INTERRUPTED;
    if (state->sp < state->reach.low || state->sp >= state->reach.high) /* a signal had a stack of its own */
        state->reach = clew_thread_reach(thread, state->sp);
    return LEFT;
}

/* A frame that `run` cannot leave. */
static __attribute__((noinline)) int slow(struct thread *thread, struct state *state) {
    struct dl_find_object found;
    struct resolved to;
    uint64_t address = state->pc - !state->interrupted;
    if (_dl_find_object((void *)(uintptr_t)address, &found)) {
        int result = leave(thread, state, NULL, NULL);
        if (result == ENDED && state->status == CLEW_NO_ROW)
            state->status = WALK_NO_MODULE;
        return result;
    }
    uint32_t number = visit(thread, &found);
    int status = clew_resolve(&found, thread->modules[number].module, address, &to);
    if (status == CLEW_NO_ROW)
        return leave(thread, state, NULL, NULL);
    if (status) {
        state->status = status;
        return ENDED;
    }
    uint64_t rule = state->interrupted ? 0 : shorten(to.rule);
    const struct entry *entry = entry_of(thread, state->pc, thread->mask);
    if (!rule || is_of(entry, state->pc, thread->salt) || is_of(beside(entry), state->pc, thread->salt))
        return leave(thread, state, to.table, to.rule); /* it cannot be remembered; or it was, and did not do */
    remember(thread, state->pc, rule | (uint64_t)number << 56);
    return REMEMBERED;
}

/* Makes sure that the module of a remembered rule still is there. */
static __attribute__((noinline)) int again(struct thread *thread, uint64_t address, uint64_t rule) {
    struct dl_find_object found;
    const struct visited *visited = &thread->modules[MODULE(rule)];
    if (!_dl_find_object((void *)(uintptr_t)address, &found) && visited->link_map == found.dlfo_link_map &&
        visited->header == found.dlfo_eh_frame && visited->low == (uint64_t)(uintptr_t)found.dlfo_map_start &&
        clew_module_is(visited->id_at, visited->id, visited->id_size)) {
        thread->seen[MODULE(rule)] = thread->walk;
        return 1;
    }
    clew_thread_forget(thread);
    return 0;
}

/* Where a walk is among the frames of the one before, and where it writes its own. */
struct memos {
    struct memo *write, *end, *old;
    int in_place; /* it writes where it reads */
};

static struct memos memos_of(struct thread *thread) {
    if (thread->memo_salt != thread->salt) {
        thread->memo_salt = thread->salt;
        thread->memo_first = MEMO_ROOM;
        thread->memo[thread->memo_which][MEMO_ROOM].sp = MEMO_END;
    }
    struct memo *fresh = thread->memo[!thread->memo_which];
    return (struct memos){fresh + MEMO_ROOM, fresh + MEMO_MOST, &thread->memo[thread->memo_which][thread->memo_first], 0};
}

/* Writes a frame, in front of those of the walk before if it is among them. */
static inline void note(struct memos *memos, uint64_t sp, uint64_t pc, uint64_t fp, uint64_t how) {
    struct memo *here = memos->write;
    if (here == memos->end)
        return;
    if (memos->in_place && here->sp == MEMO_END)
        here[1].sp = MEMO_END;
    *here = (struct memo){sp, pc, fp, how};
    memos->write = here + 1;
    if (memos->in_place)
        memos->old = here + 1;
}

static inline int is_at(const struct memo *memo, uint64_t sp, uint64_t pc, uint64_t fp) {
    return memo->sp == sp && memo->pc == pc && memo->fp == fp;
}

/* Ends what was written: a frame is followed by its caller, or by none. */
static void memos_done(struct thread *thread, struct memos *memos, const struct state *state) {
    if (!memos->in_place) {
        thread->memo_which = !thread->memo_which;
        thread->memo_first = MEMO_ROOM;
    } else if (is_at(memos->write, state->sp, state->pc, state->fp)) {
        return;
    }
    note(memos, state->sp, state->pc, state->fp, MEMO_END);
    memos->write->sp = MEMO_END;
}

/* Takes what this walk wrote so far in front of the frame where it meets the one before; 0 if there is no room. */
static int join(struct thread *thread, struct memos *memos) {
    if (memos->in_place)
        return memos->write == memos->old;
    struct memo *mine = thread->memo[!thread->memo_which] + MEMO_ROOM, *theirs = thread->memo[thread->memo_which];
    if (memos->old - theirs < memos->write - mine)
        return 0;
    struct memo *first = memos->old - (memos->write - mine);
    memcpy(first, mine, (size_t)(memos->write - mine) * sizeof *mine);
    thread->memo_first = (uint32_t)(first - theirs);
    *memos = (struct memos){memos->old, theirs + MEMO_MOST, memos->old, 1};
    return 1;
}

/* Goes the way of the walk before, as long as the words that were read there still are what they were. */
static void **follow(struct thread *thread, struct state *state, struct memos *memos, void **at, void **end) {
    const struct memo *frame = memos->old;
    const uint64_t high = state->reach.high;
    const uint32_t walk = thread->walk;
    while (at + 1 < end) {
        const struct memo *next = frame + 1;
        uint64_t how = frame->how, saved = how & 0xffffffffffffffull, word;
        if (how == MEMO_END || next->sp > high)
            break;
        word = reach_word(next->sp - 8);
        if (word != next->pc || (thread->seen[MODULE(how)] != walk && !again(thread, frame->pc - 1, how)))
            break;
        if (saved) {
            word = reach_word(saved);
            if (word != next->fp)
                break;
        }
        *++at = (void *)(uintptr_t)next->pc;
        frame = next;
    }
    state->pc = frame->pc;
    state->sp = frame->sp;
    state->fp = frame->fp;
    memos->write += frame - memos->old;
    memos->old = memos->write + 1;
    return at;
}

/* Whether the walk before came by here. */
static inline int meets(struct memos *memos, uint64_t sp, uint64_t pc, uint64_t fp) {
    while (memos->old->sp < sp)
        memos->old++;
    return is_at(memos->old, sp, pc, fp);
}

/*
 * Leaves frames as long as their rules are remembered and what they need is known to be readable. Fills the buffer from `at`
 * on, where the state's pc stands already; answers with where it stands when it is full, when the walk meets the one before
 * (`*met`), or when a frame needs more than this.
 */
static __attribute__((noinline)) void **run(struct thread *thread, struct state *state, struct memos *memos, void **at,
                                            void **end, int *met) {
    uint64_t pc = state->pc, sp = state->sp, fp = state->fp;
    const uint64_t high = state->reach.high, salt = thread->salt;
    const uint32_t mask = thread->mask, walk = thread->walk;
    *met = 0;
    while (at + 1 < end) {
        const struct entry *entry = entry_of(thread, pc, mask);
        if (__builtin_expect(!is_of(entry, pc, salt), 0)) {
            entry = beside(entry);
            if (!is_of(entry, pc, salt))
                break;
        }
        uint64_t rule = entry->rule, cfa = sp;
        if (rule & FROM_FP) {
            cfa = fp;
            __asm__("" : "+r"(cfa)); /* a branch is known in advance, a choice waits for the rule */
        }
        cfa += CFA_OFFSET(rule);
        if (MEMOS && __builtin_expect(meets(memos, sp, pc, fp), 0)) {
            *met = 1;
            break;
        }
        if (__builtin_expect(thread->seen[MODULE(rule)] != walk, 0) && !again(thread, pc - 1, rule))
            break;
        uint64_t below = FP_BELOW(rule), size = cfa - sp;
        /* What is read lies in [sp, cfa). */
        if (__builtin_expect(cfa > high || (int64_t)size < 8 || below > size || BACK_BELOW(rule) > size, 0))
            break;
        if (MEMOS)
            note(memos, sp, pc, fp, (rule & 0xffull << 56) | (below ? cfa - below : 0));
        uint64_t saved = reach_word(cfa - (below ? below : 8));
        pc = reach_word(cfa - BACK_BELOW(rule));
        fp = below ? saved : fp;
        sp = cfa;
#ifdef __aarch64__
        if (rule & SIGNED)
            pc = pc >> 55 & 1 ? pc | CLEW_CODE_MASK : pc & ~CLEW_CODE_MASK;
#endif
        if (__builtin_expect(!pc, 0))
            break;
        *++at = (void *)(uintptr_t)pc;
    }
    state->pc = pc;
    state->sp = sp;
    state->fp = fp;
    return at;
}

int clew_trace(void **buffer, int size, uint64_t pc, uint64_t sp, uint64_t fp) {
    struct thread *thread = clew_thread();
    if (!thread || size <= 0) {
        if (thread)
            thread->end = CLEW_END_NONE;
        return size <= 0 ? 0 : -1;
    }
    volatile uint64_t mark;
    if (!clew_thread_enter(thread, &mark))
        return -1;
    struct state state = {pc, sp, fp, clew_thread_reach(thread, sp), 0, 0};
    struct memos memos = memos_of(thread);
    void **at = buffer, **end = buffer + size;
    int result = REMEMBERED, met = 0;
    *at = (void *)(uintptr_t)pc;
    for (;;) {
        if (__builtin_expect(thread->memo_salt != thread->salt, 0))
            memos = memos_of(thread); /* all was forgotten on the way */
        if (!state.interrupted)
            at = run(thread, &state, &memos, at, end, &met);
        if (at + 1 == end)
            break;
        if (met) {
            met = 0;
            if (join(thread, &memos))
                at = follow(thread, &state, &memos, at, end);
            else
                memos.old++;
            continue;
        }
        struct state before = state;
        const int null = !state.pc && !state.interrupted;
        if (null)
            state.status = CLEW_NULL_RETURN;
        result = null ? ENDED : slow(thread, &state);
        if (result == LEFT) {
            *++at = (void *)(uintptr_t)state.pc;
            note(&memos, before.sp, before.pc, before.fp, MEMO_END);
        } else if (result != REMEMBERED) {
            break;
        }
    }
    memos_done(thread, &memos, &state);
    thread->end = clew_end_of(state.status);
    clew_thread_leave(thread);
    return result == FULL ? -1 : (int)(at + 1 - buffer);
}
