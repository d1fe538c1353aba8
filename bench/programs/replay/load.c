/* Maps a recording that bench/paper_export.py wrote: words of eight bytes throughout, as this machine has them.

   "clewplay", then the counts of objects, spaces and samples, then these in that order; the reads below say the rest. */
#include "recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t *next;

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(3);
}

static const unsigned char *map(const char *path, size_t *size)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) || !status.st_size)
        fail("it cannot be read", path);
    /* All of it now: that a page comes when it is first touched is nobody's cost of unwinding. */
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, descriptor, 0);
    close(descriptor);
    if (bytes == MAP_FAILED)
        fail("it cannot be mapped", path);
    *size = (size_t)status.st_size;
    return bytes;
}

static uint64_t word(void)
{
    return *next++;
}

static struct range range(void)
{
    struct range found = {next[0], next[1]};
    next += 2;
    return found;
}

/* A size in bytes, and the bytes, filled up to a whole word. */
static const unsigned char *bytes(uint64_t *size)
{
    *size = word();
    const unsigned char *found = (const unsigned char *)next;
    next += (*size + 7) / 8;
    return found;
}

/* Text, with the zero that ends it. */
static const char *text(void)
{
    uint64_t size;
    return (const char *)bytes(&size);
}

/* A count, and as many structures of words. */
static const void *array(size_t words, size_t *count)
{
    *count = word();
    const void *found = next;
    next += *count * words;
    return found;
}

static const unsigned char *section(const struct object *object, struct range where)
{
    for (size_t i = 0; i < object->segment_count; i++) {
        const struct segment *segment = &object->segments[i];
        if (segment->start <= where.start && where.end <= segment->start + segment->size)
            return object->bytes + segment->offset + (where.start - segment->start);
    }
    return NULL;
}

static void read_object(struct object *object)
{
    object->path = text();
    object->bytes = map(object->path, &object->size);
    object->span = range();
    object->code = range();
    object->eh_frame = range();
    object->eh_frame_hdr = range();
    object->segments = array(3, &object->segment_count);
    object->outermost = array(2, &object->outermost_count);
    object->compiled_c = text();
    object->compiled_asm = text();
    object->packed = text();
    object->paper_c = text();
    object->paper_asm = text();
    object->eh_frame_bytes = section(object, object->eh_frame);
    object->eh_frame_hdr_bytes = section(object, object->eh_frame_hdr);
}

static void read_space(struct space *space, const struct object *objects)
{
    space->count = word();
    struct module *modules = calloc(space->count + 1, sizeof *modules);
    for (size_t i = 0; i < space->count; i++) {
        struct range found = range();
        uint64_t bias = word();
        modules[i] = (struct module){found.start, found.end, bias, &objects[word()]};
    }
    space->modules = modules;
}

static void read_sample(struct sample *sample, const struct space *spaces)
{
    sample->space = &spaces[word()];
    for (int i = 0; i < REGISTERS; i++)
        sample->registers[i] = word();
    sample->stack_start = word();
    sample->stack = bytes(&sample->stack_size);
    sample->stack_words = sample->stack_size < 8 ? 0 : sample->stack_size - 7;
}

struct recording *recording_open(const char *path)
{
    size_t size;
    struct recording *recording = calloc(1, sizeof *recording);
    next = (const uint64_t *)map(path, &size);
    if (size < 32 || memcmp(next, "clewplay", 8))
        fail("it is no recording", path);
    next++;
    recording->object_count = word();
    recording->space_count = word();
    recording->sample_count = word();
    struct object *objects = calloc(recording->object_count + 1, sizeof *objects);
    struct space *spaces = calloc(recording->space_count + 1, sizeof *spaces);
    struct sample *samples = calloc(recording->sample_count + 1, sizeof *samples);
    for (size_t i = 0; i < recording->object_count; i++) {
        objects[i].number = i;
        read_object(&objects[i]);
    }
    for (size_t i = 0; i < recording->space_count; i++)
        read_space(&spaces[i], objects);
    for (size_t i = 0; i < recording->sample_count; i++)
        read_sample(&samples[i], spaces);
    recording->objects = objects;
    recording->spaces = spaces;
    recording->samples = samples;
    return recording;
}
