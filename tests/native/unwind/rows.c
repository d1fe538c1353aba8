/* Builds the tables of libraries as the library does when the cache has none, and writes them: rows.c DIRECTORY LIBRARY... */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"

static int visit(struct dl_phdr_info *info, size_t size, void *directory) {
    struct layout layout;
    struct built built;
    uint64_t header = 0;
    char path[4096];
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            header = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const char *slash = strrchr(info->dlpi_name, '/');
    clew_layout(&layout, info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr);
    if (!header || !slash || clew_build(&layout, header, &built))
        return 0;
    snprintf(path, sizeof path, "%s%s.packed", (const char *)directory, slash);
    FILE *file = fopen(path, "wb");
    fwrite(built.bytes, 1, built.table.header->size, file);
    fclose(file);
    return 0;
}

int main(int count, char **arguments) {
    for (int i = 2; i < count; i++)
        if (!dlopen(arguments[i], RTLD_LAZY))
            fprintf(stderr, "%s\n", dlerror());
    dl_iterate_phdr(visit, arguments[1]);
    puts("ok");
    return 0;
}
