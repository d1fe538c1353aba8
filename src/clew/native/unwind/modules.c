/* What is known of loaded modules; see modules.h. */
#include "modules.h"

#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "reach.h"

/* Records are found by hash; this many, a power of two, of which three quarters are used at most. */
#define SLOTS 4096
/* Tables that were built here may take this much; what comes then is interpreted. */
#define MOST_BUILT (256u << 20)

atomic_uint clew_generation;

static _Atomic(struct module *) slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned used;
static uint64_t built_bytes;

static unsigned place(const void *link_map) {
    return (unsigned)(((uint64_t)(uintptr_t)link_map * 0x9e3779b97f4a7c15ull) >> 52) & (SLOTS - 1);
}

const struct module *clew_module(const struct dl_find_object *found) {
    for (unsigned i = 0, at = place(found->dlfo_link_map); i < SLOTS; i++, at = (at + 1) & (SLOTS - 1)) {
        const struct module *module = atomic_load_explicit(&slots[at], memory_order_acquire);
        if (!module)
            return NULL;
        if (module->link_map == found->dlfo_link_map && module->header == found->dlfo_eh_frame &&
            module->low == (uint64_t)(uintptr_t)found->dlfo_map_start &&
            clew_module_is(module->id_at, module->id, module->id_size))
            return module;
    }
    return NULL;
}

/*
 * What tells the module from another in its place. That is looked at again when there may be another one, smaller than this:
 * so it has to be in a page that every module has there, of its ELF header or of what _dl_find_object points to.
 */
static void identify(struct module *module) {
    struct cfi_bytes bytes;
    const uint8_t *build_id = module->layout.build_id;
    module->id_size = 0;
    if (build_id && (uint64_t)(uintptr_t)build_id - module->low + module->layout.build_id_size <= REACH_PAGE) {
        module->id_at = build_id;
        module->id_size = module->layout.build_id_size;
        memcpy(module->id, build_id, module->id_size);
        return;
    }
    uint64_t header = (uint64_t)(uintptr_t)module->header, left = REACH_PAGE - header % REACH_PAGE;
    if (clew_layout_bytes(&module->layout, header, &bytes))
        return;
    uint64_t size = (uint64_t)(bytes.end - bytes.at) < left ? (uint64_t)(bytes.end - bytes.at) : left;
    module->id_at = bytes.at;
    module->id_size = (uint32_t)((size < MODULE_SAMPLE ? size : MODULE_SAMPLE) & ~7ull);
    if (module->id_size > MODULE_ID) {
        uint64_t sum = clew_module_sum(bytes.at, module->id_size);
        memcpy(module->id, &sum, 8);
    } else {
        memcpy(module->id, bytes.at, module->id_size);
    }
}

static void describe(const struct dl_find_object *found, struct module *module) {
    module->link_map = found->dlfo_link_map;
    module->header = found->dlfo_eh_frame;
    module->low = (uint64_t)(uintptr_t)found->dlfo_map_start;
    module->high = (uint64_t)(uintptr_t)found->dlfo_map_end;
    module->has_table = 0;
}

int clew_module_unknown(const struct dl_find_object *found, struct module *module) {
    describe(found, module);
    module->id_at = NULL;
    module->id_size = 0;
    if (clew_layout_at(&module->layout, module->low, module->high))
        return -1;
    identify(module);
    return 0;
}

/* The table of a module that was elsewhere before: dlopen may put one file at many places. */
static int known_table(const struct module *fresh, struct clew_table *table) {
    for (unsigned i = 0; i < SLOTS && fresh->layout.build_id; i++) {
        const struct module *module = atomic_load_explicit(&slots[i], memory_order_relaxed);
        if (module && module->has_table && module->id_at == module->layout.build_id &&
            module->id_size == fresh->id_size && fresh->id_at == fresh->layout.build_id &&
            !memcmp(module->id, fresh->id, fresh->id_size)) {
            *table = module->table;
            return 1;
        }
    }
    return 0;
}

/* Every header is in the program's own memory, and lies still while dl_iterate_phdr holds its lock. */
static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
    struct dl_find_object found;
    struct module fresh = {0};
    void *inside = NULL;
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum && !inside; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            inside = (void *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!inside || _dl_find_object(inside, &found) || !found.dlfo_eh_frame || clew_module(&found) || used >= SLOTS / 4 * 3)
        return 0;
    describe(&found, &fresh);
    clew_layout(&fresh.layout, info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr);
    identify(&fresh);
    struct built built;
    if (known_table(&fresh, &fresh.table) || !clew_cached_table(&fresh, &fresh.table))
        fresh.has_table = 1;
    else if (built_bytes < MOST_BUILT && !clew_build(&fresh.layout, (uint64_t)(uintptr_t)found.dlfo_eh_frame, &built)) {
        fresh.table = built.table;
        fresh.has_table = 1;
        built_bytes += built.size;
    }
    struct module *module = mmap(NULL, sizeof *module, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (module == MAP_FAILED)
        return 0;
    *module = fresh;
    unsigned at = place(module->link_map);
    while (atomic_load_explicit(&slots[at], memory_order_relaxed))
        at = (at + 1) & (SLOTS - 1);
    atomic_store_explicit(&slots[at], module, memory_order_release);
    used++;
    return 0;
}

void clew_modules_update(void) {
    pthread_mutex_lock(&lock);
    dl_iterate_phdr(visit, NULL);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add_explicit(&clew_generation, 1, memory_order_acq_rel);
}

/* A child of fork has one thread, and must not find the lock held by one that is gone. */
static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void follow_forks(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}
