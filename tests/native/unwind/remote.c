/*
 * This program walked as if it were another one: by accessors, and tables from files. remote.c DIRECTORY, where each loaded
 * library's table is NAME.packed; this program's own is exe.packed.
 */
#include "check.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

static int reads;

static int copy(void *argument, uint64_t address, void *into, size_t size) {
    struct iovec here = {into, size}, there = {(void *)(uintptr_t)address, size};
    CHECK(argument == &reads);
    reads++;
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -1;
}

static clew_remote_t *remote;
static const char *directory;

static int visit(struct dl_phdr_info *info, size_t size, void *loaded) {
    char path[4096];
    uint64_t low = ~0ull, high = 0;
    struct stat status;
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    snprintf(path, sizeof path, "%s/%s.packed", directory, slash ? slash + 1 : "exe");
    int file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    CHECK(!fstat(file, &status));
    void *table = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(table != MAP_FAILED);
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = start + info->dlpi_phdr[i].p_memsz;
            low = start < low ? start : low;
            high = end > high ? end : high;
        }
    CHECK(!clew_remote_module(remote, table, (size_t)status.st_size, low, high, info->dlpi_addr));
    CHECK(clew_remote_module(remote, table, 64, low, high, info->dlpi_addr) == CLEW_REFUSED_TABLE);
    CHECK(clew_remote_module(remote, (char *)table + 1, 64, low, high, 0) == CLEW_REFUSED_ARGUMENT);
    ++*(int *)loaded;
    return 0;
}

__attribute__((noinline)) static int compare(int depth) {
    if (depth)
        return compare(depth - 1) + reads;
    clew_context_t context;
    clew_cursor_t local, other;
    int frames = 0, here, there;
    clew_getcontext(&context);
    CHECK(!clew_local_init(&local, &context) && !clew_remote_init(&other, remote, &context));
    do {
        CHECK(clew_get_pc(&local) == clew_get_pc(&other) && clew_get_sp(&local) == clew_get_sp(&other));
        for (int i = 0; i < CLEW_CONTEXT_REGISTERS; i++) {
            uint64_t a = 0, b = 0;
            CHECK(clew_get_reg(&local, i, &a) == clew_get_reg(&other, i, &b) && a == b);
        }
        frames++;
        here = clew_step(&local);
        there = clew_step(&other);
        CHECK(here == there);
    } while (here == 1);
    CHECK(clew_end_reason(&local) == clew_end_reason(&other));
    return frames;
}

int main(int count, char **arguments) {
    int loaded = 0;
    CHECK(count == 2);
    directory = arguments[1];
    prepare();
    CHECK(!clew_remote_new(9, copy, NULL) && !clew_remote_new(CLEW_MACHINE_X86_64, NULL, NULL));
#ifdef __x86_64__
    remote = clew_remote_new(CLEW_MACHINE_X86_64, copy, &reads);
#else
    remote = clew_remote_new(CLEW_MACHINE_AARCH64, copy, &reads);
#endif
    CHECK(remote);
    dl_iterate_phdr(visit, &loaded);
    CHECK(loaded >= 2);
    CHECK(compare(20) >= 3 && reads > 20);
    clew_remote_free(remote);
    puts("ok");
    return 0;
}
