/* What an engine of the in-process benchmark is: a shared object whose `walkers` has one or more of these, an empty name behind
   the last. It walks the stack of the thread that calls it. */
#ifndef WALKER_H
#define WALKER_H

struct walker {
    const char *name;
    /* Once, when everything else is loaded: not 0 where it cannot take part, and *reason says why. May be NULL. */
    int (*open)(const char **reason);
    /* Before each turn, not measured; may be NULL. */
    void (*begin)(void);
    /* The pcs of all frames, innermost first, its own among them or not; most of them at most. Returns how many. */
    int (*walk)(void **pcs, int most);
    /* Whether it follows frame pointers: it gets functions that have them, and may end before the outermost frame. */
    int frame_pointers;
};

extern const struct walker walkers[];

#endif
