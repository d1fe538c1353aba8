/* Steps of a walk through another program, by packed tables. */
#ifndef CLEW_REMOTE_H
#define CLEW_REMOTE_H

#include "walk.h"

/* The machine of a remote program; this one for NULL. */
int clew_remote_machine(const clew_remote_t *remote);

int clew_remote_step(const clew_remote_t *remote, struct clew_frame *frame, int interrupted);

#endif
