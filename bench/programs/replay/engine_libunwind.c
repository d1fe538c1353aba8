/* libunwind on another machine state, with the accessors that perf gives it (tools/perf/util/unwind-libunwind-local.c): an
   address space for each process, .eh_frame_hdr as a remote table, and memory through recording_read. */
#include "engine.h"

#include <libunwind.h>
#include <stdlib.h>
#include <string.h>

/* Exported for perf's sake, but declared nowhere. */
extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);

struct spaces {
    const struct recording *recording;
    unw_addr_space_t each[];
};

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need, void *argument)
{
    const struct sample *sample = argument;
    const struct module *module = recording_module(sample->space, ip);
    if (!module || !module->object->eh_frame_hdr_bytes)
        return -UNW_ENOINFO;
    const struct object *object = module->object;
    const unsigned char *header = object->eh_frame_hdr_bytes;
    /* Linux Standard Base, "Exception Frame Header": a pointer and a count of four bytes each, then pairs from the start of the
       header on. ld, gold, lld and mold write no other form for files below 2 GiB. */
    if (header[0] != 1 || header[1] != 0x1b || header[2] != 0x03 || header[3] != 0x3b)
        return -UNW_EINVAL;
    uint32_t count;
    memcpy(&count, header + 8, sizeof count);
    unw_word_t address = object->eh_frame_hdr.start + module->bias;
    unw_dyn_info_t table = {
        .start_ip = module->start,
        .end_ip = module->end,
        .format = UNW_INFO_FORMAT_REMOTE_TABLE,
        .u.rti = {.segbase = address, .table_data = address + 12, .table_len = count},
    };
    return _Ux86_64_dwarf_search_unwind_table(space, ip, &table, info, need, argument);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *argument)
{
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *address, void *argument)
{
    return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *argument)
{
    return !write && recording_read(argument, address, value) ? 0 : -UNW_EINVAL;
}

/* libunwind's numbers of the general registers are DWARF's. */
static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write, void *argument)
{
    const struct sample *sample = argument;
    if (write || number < 0 || number >= REGISTERS)
        return -UNW_EBADREG;
    *value = sample->registers[number];
    return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write, void *argument)
{
    return -UNW_EINVAL;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *argument)
{
    return -UNW_EINVAL;
}

static unw_accessors_t accessors = {
    .find_proc_info = find_proc_info,
    .put_unwind_info = put_unwind_info,
    .get_dyn_info_list_addr = get_dyn_info_list_addr,
    .access_mem = access_mem,
    .access_reg = access_reg,
    .access_fpreg = access_fpreg,
    .resume = resume,
};

static void *open_with(const struct recording *recording, unw_caching_policy_t policy, const char **reason)
{
    struct spaces *spaces = malloc(sizeof *spaces + recording->space_count * sizeof spaces->each[0]);
    spaces->recording = recording;
    for (size_t i = 0; i < recording->space_count; i++) {
        spaces->each[i] = unw_create_addr_space(&accessors, 0);
        if (!spaces->each[i] || unw_set_caching_policy(spaces->each[i], policy)) {
            *reason = "libunwind makes no address space";
            return NULL;
        }
    }
    return spaces;
}

static void *open_none(const struct recording *recording, const char **reason)
{
    return open_with(recording, UNW_CACHE_NONE, reason);
}

static void *open_global(const struct recording *recording, const char **reason)
{
    return open_with(recording, UNW_CACHE_GLOBAL, reason);
}

static void *open_per_thread(const struct recording *recording, const char **reason)
{
    return open_with(recording, UNW_CACHE_PER_THREAD, reason);
}

static int unwind(void *self, const struct sample *sample, uint64_t *pcs, int most, enum ending *ending)
{
    const struct spaces *spaces = self;
    unw_cursor_t cursor;
    int count = 0, more = unw_init_remote(&cursor, spaces->each[sample->space - spaces->recording->spaces], (void *)sample);
    *ending = FAILED;
    if (more)
        return 0;
    do {
        unw_word_t pc;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc))
            return count;
        /* Where the return address is undefined or null, the last step gives 0. */
        if (!pc)
            break;
        pcs[count++] = pc;
        more = unw_step(&cursor);
    } while (more > 0 && count < most);
    *ending = more < 0 ? FAILED : ENDED;
    return count;
}

const struct engine engines[] = {
    {.name = "libunwind, global cache", .open = open_global, .unwind = unwind},
    {.name = "libunwind, per-thread cache", .open = open_per_thread, .unwind = unwind},
    {.name = "libunwind, no cache", .open = open_none, .unwind = unwind},
    {0},
};
