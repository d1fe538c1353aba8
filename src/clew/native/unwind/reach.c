/* What memory a walk may read; see reach.h. */
#include "reach.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many pages lie between what is known and what is asked for, at most, to be one stretch with it. */
#define GAP 256

int clew_readable(uint64_t address) {
    int saved = errno;
    /*
     * The kernel copies the set before it looks at `how`, which is none that there is: EFAULT if it cannot be read, else
     * EINVAL, and the mask stays. Every sandbox lets it pass, since signals need it.
     */
    uint64_t word = address & ~(REACH_PAGE - 1);
    long result = syscall(SYS_rt_sigprocmask, ~0, word, NULL, 8);
    int readable = result == 0 || errno != EFAULT;
    errno = saved;
    return readable && word;
}

int clew_readable_works(void) {
    uint64_t here = 0;
    void *page = mmap(NULL, REACH_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -1;
    int works = clew_readable((uint64_t)(uintptr_t)&here) && !clew_readable((uint64_t)(uintptr_t)page);
    munmap(page, REACH_PAGE);
    return works ? 0 : -1;
}

/* Makes [*low, *high) reach to an address from the page above or below, page by page. */
static int stretch(uint64_t *low, uint64_t *high, uint64_t address, uint64_t end) {
    while (address < *low) {
        if (!clew_readable(*low - REACH_PAGE))
            return 0;
        *low -= REACH_PAGE;
    }
    while (end > *high) {
        if (!clew_readable(*high))
            return 0;
        *high += REACH_PAGE;
    }
    return 1;
}

int clew_reach_out(struct reach *reach, uint64_t address, uint64_t size) {
    uint64_t end = address + size, page = address & ~(REACH_PAGE - 1);
    if (end < address || end > ~0ull - 2 * REACH_PAGE || page < REACH_PAGE)
        return 0;
    if (address >= reach->low && end <= reach->high)
        return 1;
    if (address >= reach->other && end <= reach->stop)
        return 1;
    if (reach->high <= reach->low) { /* nothing is known yet */
        if (!clew_readable(page))
            return 0;
        reach->low = page;
        reach->high = page + REACH_PAGE;
    }
    if (address + GAP * REACH_PAGE >= reach->low && end <= reach->high + GAP * REACH_PAGE &&
        stretch(&reach->low, &reach->high, address, end))
        return 1;
    if (reach->stop > reach->other && address + GAP * REACH_PAGE >= reach->other &&
        end <= reach->stop + GAP * REACH_PAGE && stretch(&reach->other, &reach->stop, address, end))
        return 1;
    if (!clew_readable(page))
        return 0;
    reach->other = page;
    reach->stop = page + REACH_PAGE;
    return stretch(&reach->other, &reach->stop, address, end);
}
