/* Looks addresses of a file up and makes a step at each, with every engine in turn; see bench/inprocess_lookup.py.

       lookup INPUT ROUNDS PACKED TREE PAPER-TREE C ASM ENGINE.so…

   INPUT is words of eight bytes: the count of rows and the rows, the count of addresses and the addresses. The names of files that
   there are not are empty.

   Prints `check NAME DIFFERENCES` (addresses at which the result is not the first engine's), `MODE NAME` and nanoseconds for a step
   in each round, and `without NAME REASON`. Fields are separated by tabs.

   random: all addresses once. some: 2000 of them in random order. few: 64 of them, over and over. The same with -apart behind it:
   no step waits for the one before. */
#define _GNU_SOURCE
#include "lookup.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LOOKUPS = 16, MOST_ROUNDS = 101, STEPS = 1 << 17, MEMORY = 1 << 22, MODES = 3, WAYS = 2 };

static const char *const mode_names[MODES] = {"random", "some", "few"};
static const char *const way_names[WAYS] = {"", "-apart"};
static const size_t mode_sizes[MODES] = {0, 2000, 64};

struct entrant {
    const struct lookup *lookup;
    void *self;
    double rounds[WAYS][MOST_ROUNDS];
};

static struct entrant entrants[MOST_LOOKUPS];
static int entrant_count;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static const uint64_t *map(const char *path)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    void *words = MAP_FAILED;
    if (descriptor >= 0 && !fstat(descriptor, &status))
        words = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
    if (words == MAP_FAILED) {
        fprintf(stderr, "%s: it cannot be mapped\n", path);
        exit(3);
    }
    return words;
}

static void enter(const char *path, const struct lookup_input *input)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct lookup *lookup = library ? dlsym(library, "lookups") : NULL;
    if (!lookup) {
        const char *name = strrchr(path, '/');
        printf("without\t%s\t%s\n", name ? name + 1 : path, dlerror());
        return;
    }
    for (; lookup->name && entrant_count < MOST_LOOKUPS; lookup++) {
        const char *reason = "it cannot be opened";
        void *self = lookup->open(input, &reason);
        if (self)
            entrants[entrant_count++] = (struct entrant){.lookup = lookup, .self = self};
        else
            printf("without\t%s\t%s\n", lookup->name, reason);
    }
}

/* In memory whose words are all different, so that it shows which were loaded. */
static void check(struct lookup_input input, const uint64_t *addresses, size_t count)
{
    uint64_t *words = malloc(MEMORY);
    for (size_t i = 0; i < MEMORY / sizeof *words; i++)
        words[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    input.low = (uint64_t)words;
    input.high = input.low + MEMORY;
    input.stack = input.low + MEMORY / 2;
    for (int number = 0; number < entrant_count; number++) {
        const struct entrant *entrant = &entrants[number];
        size_t different = 0;
        for (size_t i = 0; i < count; i++) {
            struct lookup_result ours = entrant->lookup->one(entrant->self, &input, addresses[i]);
            struct lookup_result first = entrants[0].lookup->one(entrants[0].self, &input, addresses[i]);
            different += ours.rip != first.rip || ours.rsp != first.rsp || ours.rbp != first.rbp;
        }
        printf("check\t%s\t%zu\n", entrant->lookup->name, different);
    }
    free(words);
}

/* The addresses of a mode. */
static void choose(uint64_t *chosen, size_t size, const uint64_t *addresses, size_t count)
{
    uint64_t seed = 1;
    for (size_t i = 0; i < STEPS; i++) {
        /* Knuth's MMIX. */
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        chosen[i] = addresses[!size ? i % count : size == 64 ? i % size : (seed >> 33) % size];
    }
}

int main(int count, char **words)
{
    static uint64_t chosen[STEPS];
    if (count < 9)
        return fprintf(stderr, "usage: lookup INPUT ROUNDS PACKED TREE PAPER-TREE C ASM ENGINE.so...\n"), 2;
    const uint64_t *file = map(words[1]);
    struct lookup_input input = {
        .row_count = file[0],
        .rows = (const struct lookup_row *)(file + 1),
        .packed = words[3],
        .tree = words[4],
        .paper_tree = words[5],
        .compiled_c = words[6],
        .compiled_asm = words[7],
    };
    const uint64_t *addresses = file + 1 + 2 * input.row_count + 1;
    size_t address_count = addresses[-1];
    char *memory = calloc(1, MEMORY);
    int rounds = atoi(words[2]);
    if (rounds < 1 || rounds > MOST_ROUNDS || !memory || address_count < 2000)
        return 2;
    input.low = (uint64_t)memory;
    input.high = input.low + MEMORY;
    input.stack = input.low + MEMORY / 2;
    input.addresses = chosen;
    input.count = STEPS;
    for (int i = 8; i < count; i++)
        enter(words[i], &input);
    check(input, addresses, address_count < 100000 ? address_count : 100000);
    for (int mode = 0; mode < MODES; mode++) {
        choose(chosen, mode_sizes[mode], addresses, address_count);
        for (int round = -1; round < rounds; round++)
            for (int i = 0; i < entrant_count * WAYS; i++) {
                static volatile uint64_t sink;
                struct entrant *entrant = &entrants[i / WAYS];
                int64_t begin = now();
                sink = (i % WAYS ? entrant->lookup->run_apart : entrant->lookup->run)(entrant->self, &input);
                /* Round -1 is not measured. */
                if (round >= 0)
                    entrant->rounds[i % WAYS][round] = (double)(now() - begin) / STEPS;
                (void)sink;
            }
        for (int i = 0; i < entrant_count * WAYS; i++) {
            printf("%s%s\t%s", mode_names[mode], way_names[i % WAYS], entrants[i / WAYS].lookup->name);
            for (int round = 0; round < rounds; round++)
                printf("\t%.3f", entrants[i / WAYS].rounds[i % WAYS][round]);
            printf("\n");
        }
    }
    return 0;
}
