/* Walks deep stacks of generated functions with every engine in turn; see bench/inprocess.py.

       stacks FOLDER race ROUNDS ENGINE.so…    checks all engines on 50 stacks; then, round after round, modes `same` and `distinct`
       stacks FOLDER first NAME ENGINE.so      mode `first`: one engine, in this fresh process

   Prints `check NAME OUTCOME`; `MODE NAME FRAMES` and nanoseconds of processor time for a frame in each round; `without NAME
   REASON`. Fields are separated by tabs.

   same: each of 20 stacks is walked once, then 200 times with the clock running. distinct: 1000 stacks, each walked once.
   first: after one stack, the first 20 others. */
#define _GNU_SOURCE
#include "walker.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LIBRARIES = 5,
    FUNCTIONS = 2000,
    DEPTH = 40,
    MOST_WALKERS = 32,
    MOST_ROUNDS = 101,
    MOST_FRAMES = 256,
    CHECKS = 50,
    SAME_STACKS = 20,
    SAME_TIMES = 200,
    DISTINCT_STACKS = 1000,
    FIRST_STACKS = 20,
};

typedef long function(uint64_t seed, int depth, long value);

/* Filled by the generated libraries: functions without frame pointers, and the same ones with them. */
function *plain_functions[FUNCTIONS], *framed_functions[FUNCTIONS];

enum mode { SAME, DISTINCT, CHECK };

static const char *const mode_names[] = {"same", "distinct"};

struct entrant {
    const struct walker *walker;
    const char *checked; /* NULL: equal so far */
    int frames;
    double rounds[2][MOST_ROUNDS];
};

static struct entrant entrants[MOST_WALKERS];
static int entrant_count;

/* Whose turn it is, for leaf(): the functions between know nothing of it. */
static struct entrant *current;
static enum mode mode;
static int64_t spent, walked;
static void *pcs[MOST_FRAMES];

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Walks, and leaves out the frames before leaf()'s caller, which are different in every engine, and a null return address at the
   end, which is no frame. */
static int walk_from(const struct walker *walker, void *caller, void **into)
{
    int count = walker->walk(into, MOST_FRAMES), first = 0;
    while (first < count && into[first] != caller)
        first++;
    memmove(into, into + first, (size_t)(count - first) * sizeof *into);
    count -= first;
    while (count && !into[count - 1])
        count--;
    return count;
}

/* The frames have to be those that the first engine finds: all of them, or, where those of libc have no frame pointers, those of
   the generated functions and the one below. */
static void check(void *caller)
{
    static void *reference[MOST_FRAMES];
    int wanted = walk_from(entrants[0].walker, caller, reference);
    int count = walk_from(current->walker, caller, pcs);
    if (current->walker->frame_pointers)
        wanted = count = count < DEPTH + 1 ? count : DEPTH + 1;
    if (count < DEPTH + 1 || count != wanted)
        current->checked = "frames are missing";
    else if (memcmp(pcs, reference, (size_t)count * sizeof *pcs))
        current->checked = "frames are different";
}

/* What the innermost function calls. */
__attribute__((noinline)) long leaf(void)
{
    int count = 0;
    int64_t begin;
    switch (mode) {
    case CHECK:
        check(__builtin_return_address(0));
        break;
    case SAME:
        current->walker->walk(pcs, MOST_FRAMES);
        begin = now();
        for (int i = 0; i < SAME_TIMES; i++)
            count = current->walker->walk(pcs, MOST_FRAMES);
        spent += now() - begin;
        walked += (int64_t)count * SAME_TIMES;
        break;
    case DISTINCT:
        begin = now();
        count = current->walker->walk(pcs, MOST_FRAMES);
        spent += now() - begin;
        walked += count;
        break;
    }
    current->frames = count;
    return count;
}

/* Makes the generated functions keep what they have on their stacks. */
__attribute__((noinline)) void keep(void *what)
{
    __asm__ volatile("" : : "r"(what) : "memory");
}

static __attribute__((noinline)) void stack(uint64_t number)
{
    function **functions = current->walker->frame_pointers ? framed_functions : plain_functions;
    functions[number * 7919 % FUNCTIONS](number * UINT64_C(0x9e3779b97f4a7c15), DEPTH - 1, 1);
    /* Not a tail call. */
    keep(functions);
}

static int64_t cost_of_clock(void)
{
    int64_t least = 1000000;
    for (int i = 0; i < 1000; i++) {
        int64_t begin = now(), cost = now() - begin;
        least = cost < least ? cost : least;
    }
    return least;
}

static double turn(enum mode how, uint64_t first, int stacks, int64_t clock_cost)
{
    mode = how;
    spent = walked = 0;
    if (current->walker->begin)
        current->walker->begin();
    for (int i = 0; i < stacks; i++)
        stack(first + (uint64_t)i);
    return (double)(spent - stacks * clock_cost) / (double)(walked ? walked : 1);
}

static void load(const char *folder, const char *kind)
{
    for (int i = 0; i < LIBRARIES; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s%d.so", folder, kind, i);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void (*fill)(void) = library ? (void (*)(void))dlsym(library, "fill") : NULL;
        if (!fill) {
            fprintf(stderr, "%s\n", dlerror());
            exit(3);
        }
        fill();
    }
}

static void enter(const char *path, const char *only)
{
    /* Local: libunwind has functions of the same names as libgcc and libc. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct walker *walker = library ? dlsym(library, "walkers") : NULL;
    if (!walker) {
        const char *name = strrchr(path, '/');
        printf("without\t%s\t%s\n", name ? name + 1 : path, dlerror());
        return;
    }
    for (; walker->name && entrant_count < MOST_WALKERS; walker++) {
        const char *reason = "it cannot be opened";
        if (only && strcmp(only, walker->name))
            continue;
        if (walker->open && walker->open(&reason))
            printf("without\t%s\t%s\n", walker->name, reason);
        else
            entrants[entrant_count++].walker = walker;
    }
}

static void race(int rounds)
{
    static const int stacks[] = {SAME_STACKS, DISTINCT_STACKS};
    int64_t clock_cost = cost_of_clock();
    mode = CHECK;
    for (int number = 0; number < CHECKS; number++)
        for (current = entrants; current < entrants + entrant_count; current++) {
            if (current->walker->begin)
                current->walker->begin();
            stack((uint64_t)number * 31);
        }
    for (current = entrants; current < entrants + entrant_count; current++)
        printf("check\t%s\t%s\n", current->walker->name, current->checked ? current->checked : "equal");
    for (int round = 0; round < rounds; round++)
        for (int how = SAME; how <= DISTINCT; how++)
            for (current = entrants; current < entrants + entrant_count; current++)
                current->rounds[how][round] = turn((enum mode)how, (uint64_t)(round + 1) * 1000003, stacks[how], clock_cost);
    for (int how = SAME; how <= DISTINCT; how++)
        for (current = entrants; current < entrants + entrant_count; current++) {
            printf("%s\t%s\t%d", mode_names[how], current->walker->name, current->frames);
            for (int round = 0; round < rounds; round++)
                printf("\t%.3f", current->rounds[how][round]);
            printf("\n");
        }
}

static void first(void)
{
    int64_t clock_cost = cost_of_clock();
    if (!entrant_count)
        return;
    current = entrants;
    double very_first = turn(DISTINCT, 3, 1, clock_cost);
    double others = turn(DISTINCT, 1000003, FIRST_STACKS, clock_cost);
    printf("first\t%s\t%d\t%.3f\t%.3f\n", current->walker->name, current->frames, others, very_first);
}

int main(int count, char **words)
{
    if (count < 5)
        return fprintf(stderr, "usage: stacks FOLDER race ROUNDS ENGINE.so... | FOLDER first NAME ENGINE.so\n"), 2;
    load(words[1], "plain");
    load(words[1], "framed");
    if (!strcmp(words[2], "first")) {
        enter(words[4], words[3]);
        first();
        return 0;
    }
    int rounds = atoi(words[3]);
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return 2;
    for (int i = 4; i < count; i++)
        enter(words[i], NULL);
    race(rounds);
    return 0;
}
