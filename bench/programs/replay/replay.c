/* Unwinds the samples of a recording with every engine in turn, round after round, and says what that took.

       replay RECORDING ROUNDS ENGINE.so…

   Samples come in batches, whose stacks are fetched into the cache before the clock starts: what is measured is unwinding, not
   reading a large file. CLEW_REPLAY_COLD in the environment leaves that out.

   Prints a line for each engine: `engine`, its name, frames, samples, `lost` (stacks whose last frame is not one that nothing
   called), `failed` (stacks that the engine itself gave up), `same` (stacks equal to the first engine's), and nanoseconds of
   processor time for each round. `without NAME: REASON` stands for one that cannot take part. Fields are separated by tabs. */
#include "engine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ENGINES = 32, MOST_ROUNDS = 101, MOST_FRAMES = 512, BATCH = 16 };

struct entrant {
    const struct engine *engine;
    void *self;
    uint64_t frames, lost, failed, same;
    int64_t spent[MOST_ROUNDS];
};

static struct entrant entrants[MOST_ENGINES];
static int entrant_count, cold;
static uint64_t pcs[MOST_FRAMES];

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void enter(const char *path, const struct recording *recording)
{
    /* Local: libunwind has functions of the same names as libgcc and libc. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct engine *engine = library ? dlsym(library, "engines") : NULL;
    if (!engine) {
        const char *name = strrchr(path, '/');
        printf("without\t%s\t%s\n", name ? name + 1 : path, dlerror());
        return;
    }
    for (; engine->name && entrant_count < MOST_ENGINES; engine++) {
        const char *reason = "it cannot be opened";
        void *self = engine->open(recording, &reason);
        if (self)
            entrants[entrant_count++] = (struct entrant){.engine = engine, .self = self};
        else
            printf("without\t%s\t%s\n", engine->name, reason);
    }
}

/* The first turn is not measured. It says what the engine makes of each stack. */
static void judge(struct entrant *entrant, const struct recording *recording, uint64_t *reference)
{
    const struct engine *engine = entrant->engine;
    uint64_t *same = reference;
    for (size_t i = 0; i < recording->sample_count; i++) {
        const struct sample *sample = &recording->samples[i];
        enum ending ending = ENDED;
        if (engine->prepare)
            engine->prepare(entrant->self, sample);
        int count = engine->unwind(entrant->self, sample, pcs, MOST_FRAMES, &ending);
        entrant->frames += (uint64_t)count;
        entrant->failed += ending == FAILED;
        if (!count || !recording_outermost(sample->space, pcs[count - 1] - (count > 1)))
            entrant->lost++;
        /* A hash of the frames stands for them (FNV-1a, by words). */
        uint64_t hash = UINT64_C(14695981039346656037);
        for (int frame = 0; frame < count; frame++)
            hash = (hash ^ pcs[frame]) * UINT64_C(1099511628211);
        if (entrant == entrants)
            same[i] = hash;
        entrant->same += same[i] == hash;
    }
}

/* Reads a byte of every cache line of the samples' stacks. */
static void fetch(const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint64_t at = 0; at < samples[i].stack_size; at += 64)
            (void)*(const volatile unsigned char *)&samples[i].stack[at];
}

static int64_t turn(struct entrant *entrant, const struct recording *recording, int64_t clock_cost)
{
    const struct engine *engine = entrant->engine;
    enum ending ending;
    int64_t spent = 0;
    for (size_t first = 0; first < recording->sample_count; first += BATCH) {
        const struct sample *samples = &recording->samples[first];
        size_t count = recording->sample_count - first < BATCH ? recording->sample_count - first : BATCH;
        if (!cold)
            fetch(samples, count);
        if (engine->prepare) {
            for (size_t i = 0; i < count; i++) {
                engine->prepare(entrant->self, &samples[i]);
                int64_t begin = now();
                engine->unwind(entrant->self, &samples[i], pcs, MOST_FRAMES, &ending);
                spent += now() - begin - clock_cost;
            }
        } else {
            int64_t begin = now();
            for (size_t i = 0; i < count; i++)
                engine->unwind(entrant->self, &samples[i], pcs, MOST_FRAMES, &ending);
            spent += now() - begin - clock_cost;
        }
    }
    return spent;
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

int main(int count, char **words)
{
    if (count < 4)
        return fprintf(stderr, "usage: replay RECORDING ROUNDS ENGINE.so...\n"), 2;
    struct recording *recording = recording_open(words[1]);
    int rounds = atoi(words[2]);
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return 2;
    for (int i = 3; i < count; i++)
        enter(words[i], recording);
    uint64_t *reference = calloc(recording->sample_count + 1, sizeof *reference);
    for (int i = 0; i < entrant_count; i++)
        judge(&entrants[i], recording, reference);
    cold = getenv("CLEW_REPLAY_COLD") != NULL;
    int64_t clock_cost = cost_of_clock();
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < entrant_count; i++)
            entrants[i].spent[round] = turn(&entrants[i], recording, clock_cost);
    for (int i = 0; i < entrant_count; i++) {
        const struct entrant *entrant = &entrants[i];
        printf("engine\t%s\t%lu\t%zu\t%lu\t%lu\t%lu", entrant->engine->name, entrant->frames, recording->sample_count,
               entrant->lost, entrant->failed, entrant->same);
        for (int round = 0; round < rounds; round++)
            printf("\t%ld", entrant->spent[round]);
        printf("\n");
    }
    return 0;
}
