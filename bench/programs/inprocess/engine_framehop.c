/* framehop with the modules that are loaded when it is opened. */
#define _GNU_SOURCE
#include "walker.h"

#include "../framehop.h"

#include <link.h>
#include <pthread.h>
#include <string.h>

static void *space;
static uint64_t stack_end;

/* The segment around an address, in memory; 0, 0 where there is none. */
static void segment_around(const struct dl_phdr_info *object, uint64_t address, uint64_t *start, uint64_t *end)
{
    *start = *end = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        uint64_t begin = object->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && begin <= address && address < begin + header->p_memsz) {
            *start = begin;
            *end = begin + header->p_memsz;
        }
    }
}

static int on_object(struct dl_phdr_info *object, size_t size, void *unused)
{
    uint64_t bias = object->dlpi_addr, start = UINT64_MAX, end = 0;
    struct framehop_module module = {.bias = bias, .code_start = UINT64_MAX};
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        if (header->p_type == PT_LOAD) {
            start = header->p_vaddr < start ? header->p_vaddr : start;
            end = header->p_vaddr + header->p_memsz > end ? header->p_vaddr + header->p_memsz : end;
        }
        if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
            module.code_start = header->p_vaddr < module.code_start ? header->p_vaddr : module.code_start;
            module.code_end = header->p_vaddr + header->p_memsz;
        }
        if (header->p_type == PT_GNU_EH_FRAME) {
            module.eh_frame_hdr_start = header->p_vaddr;
            module.eh_frame_hdr_end = header->p_vaddr + header->p_memsz;
            module.eh_frame_hdr = (const unsigned char *)(bias + header->p_vaddr);
        }
    }
    /* Linux Standard Base, "Exception Frame Header": here, where .eh_frame is, relative to this very field. */
    if (!module.eh_frame_hdr || module.eh_frame_hdr[1] != 0x1b)
        return 0;
    int32_t offset;
    memcpy(&offset, module.eh_frame_hdr + 4, sizeof offset);
    module.eh_frame = module.eh_frame_hdr + 4 + offset;
    module.eh_frame_start = (uint64_t)module.eh_frame - bias;
    /* Nothing that is loaded says where it ends: at a length of zero, before the end of its segment. */
    uint64_t segment_start, segment_end;
    segment_around(object, (uint64_t)module.eh_frame, &segment_start, &segment_end);
    module.eh_frame_end = segment_end - bias;
    module.start = bias + start;
    module.end = bias + end;
    framehop_add(space, &module);
    return 0;
}

static int open(const char **reason)
{
    pthread_attr_t attributes;
    void *address;
    size_t size;
    *reason = "the stack of this thread is not known";
    if (pthread_getattr_np(pthread_self(), &attributes) || pthread_attr_getstack(&attributes, &address, &size))
        return -1;
    pthread_attr_destroy(&attributes);
    stack_end = (uint64_t)address + size;
    space = framehop_new();
    dl_iterate_phdr(on_object, NULL);
    return 0;
}

static int walk(void **pcs, int most)
{
    uint64_t pc, sp, bp;
    int failed;
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=&r"(pc), "=&r"(sp), "=&r"(bp));
    return framehop_walk_own(space, pc, sp, bp, stack_end, (uint64_t *)pcs, most, &failed);
}

const struct walker walkers[] = {
    {.name = "framehop 0.15", .open = open, .walk = walk},
    {0},
};
