/* What stands behind the functions that the preload shim takes the place of. */
#ifndef CLEW_PRELOAD_H
#define CLEW_PRELOAD_H

#include "../walk.h"

#define PUBLIC __attribute__((visibility("default")))

/* The next definition of a symbol behind this library: of that version if there is one, of any otherwise. */
void *clew_preload_next(const char *name, const char *version);

#endif
