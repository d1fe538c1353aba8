/* libunwind in its own process: unw_backtrace, which has a table of its own for each thread, and unw_step with each of its caches,
   which the turns of the others do not share. */
#include "walker.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

static int walk_backtrace(void **pcs, int most)
{
    int count = unw_backtrace(pcs, most);
    /* Not a tail call. */
    __asm__ volatile("" : "+r"(count));
    return count;
}

static int walk_steps(void **pcs, int most)
{
    unw_context_t context;
    unw_cursor_t cursor;
    int count = 0;
    unw_getcontext(&context);
    if (unw_init_local(&cursor, &context))
        return 0;
    do {
        unw_word_t pc;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc))
            break;
        pcs[count++] = (void *)pc;
    } while (count < most && unw_step(&cursor) > 0);
    return count;
}

static void use(unw_caching_policy_t policy)
{
    unw_set_caching_policy(unw_local_addr_space, policy);
    unw_flush_cache(unw_local_addr_space, 0, 0);
}

static void begin_none(void)
{
    use(UNW_CACHE_NONE);
}

static void begin_global(void)
{
    use(UNW_CACHE_GLOBAL);
}

static void begin_per_thread(void)
{
    use(UNW_CACHE_PER_THREAD);
}

const struct walker walkers[] = {
    {.name = "libunwind unw_backtrace", .begin = begin_per_thread, .walk = walk_backtrace},
    {.name = "libunwind unw_step, per-thread cache", .begin = begin_per_thread, .walk = walk_steps},
    {.name = "libunwind unw_step, global cache", .begin = begin_global, .walk = walk_steps},
    {.name = "libunwind unw_step, no cache", .begin = begin_none, .walk = walk_steps},
    {0},
};
