/*
 * Calls a compiled unwinder for many addresses with one frame, and writes what becomes of the frame.
 *
 *     harness OBJECT full|paper DEREF REGISTERS HOLES BRIEF FRAME ADDRESSES OUT
 *
 * FRAME is the known bits and the registers, ADDRESSES and OUT are words. For each address OUT has the outcome, the known bits
 * and the registers; with BRIEF one number made of them. Memory is made up, as compiled_runs.py does: words that are addresses
 * of words, and with HOLES blocks that cannot be read.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BASE 0x100000000000ull
#define SIZE (64ull << 20)
#define MOST 64

static bool holes;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static bool hole(uint64_t address)
{
    return holes && mix(~(address / 64)) % 8 == 0;
}

static bool load(void *argument, uintptr_t address, uintptr_t *value)
{
    *value = 0x1badbadbadbadbadull;
    if (argument != &holes)
        abort();
    if (address < BASE || address > BASE + SIZE - 8 || hole(address) || hole(address + 7))
        return false;
    memcpy(value, (void *)address, 8);
    return true;
}

static uintptr_t load_paper(uintptr_t address)
{
    uintptr_t value;
    return load(&holes, address, &value) ? value : 0;
}

typedef struct { uint8_t flags; uintptr_t r[4]; } context;
struct frame { uint64_t known, r[MOST]; };

static void *read_all(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    fseek(stream, 0, SEEK_END);
    *size = ftell(stream);
    rewind(stream);
    void *data = calloc(*size + 8, 1);
    if (fread(data, 1, *size, stream) != *size)
        exit(4);
    fclose(stream);
    return data;
}

int main(int count, char **arguments)
{
    if (count != 10)
        return 2;
    bool paper = !strcmp(arguments[2], "paper"), deref = atoi(arguments[3]), brief = atoi(arguments[6]);
    unsigned registers = atoi(arguments[4]);
    holes = atoi(arguments[5]);
    void *object = dlopen(arguments[1], RTLD_NOW);
    void *function = object ? dlsym(object, paper ? "_eh_elf" : "clew_unwind") : 0;
    if (!function || !dlsym(object, "clew_unwind_information")) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    uint64_t *memory = mmap((void *)BASE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != (void *)BASE)
        return 5;
    for (uint64_t i = 0; i < SIZE / 8; i++)
        memory[i] = BASE + SIZE / 4 + (mix(i) % (SIZE / 2) & ~7ull);
    size_t size, frame_size;
    struct frame *start = read_all(arguments[7], &frame_size);
    uint64_t *addresses = read_all(arguments[8], &size);
    FILE *out = fopen(arguments[9], "wb");
    for (size_t i = 0; i < size / 8; i++) {
        struct frame frame;
        memset(&frame, 0x5a, sizeof frame);
        memcpy(&frame, start, frame_size);
        struct frame before = frame;
        int64_t code;
        uint64_t known;
        if (paper) {
            context in = {start->known, {start->r[0], start->r[1], start->r[2], start->r[3]}}, result;
            if (deref)
                result = ((context (*)(context, uintptr_t, uintptr_t (*)(uintptr_t)))function)(in, addresses[i], load_paper);
            else
                result = ((context (*)(context, uintptr_t))function)(in, addresses[i]);
            code = result.flags == 128 ? 128 : 0;
            known = result.flags & 15;
            memcpy(frame.r, result.r, sizeof result.r);
        } else {
            if (deref)
                code = ((int (*)(void *, uintptr_t, void *, void *))function)(&frame, addresses[i], load, &holes);
            else
                code = ((int (*)(void *, uintptr_t))function)(&frame, addresses[i]);
            known = frame.known;
            /* In failure the frame is as it was, and nothing behind it is ever written. */
            if (memcmp(frame.r + registers, before.r + registers, sizeof frame.r - 8 * registers) ||
                (code < 0 && memcmp(&frame, &before, sizeof frame)))
                code = 0x1000;
        }
        if (code != 0 && code != 1)
            known = 0;
        uint64_t digest = code * (mix(0) | 1) + known * (mix(1) | 1);
        if (!brief)
            fwrite(&code, 8, 1, out), fwrite(&known, 8, 1, out);
        for (unsigned n = 0; n < registers; n++) {
            uint64_t value = known >> n & 1 ? frame.r[n] : 0;
            digest += value * (mix(n + 2) | 1);
            if (!brief)
                fwrite(&value, 8, 1, out);
        }
        if (brief)
            fwrite(&digest, 8, 1, out);
    }
    return fclose(out) ? 6 : 0;
}
