/* SPDX-License-Identifier: MIT
 * slices.h - an optimizer that updates slices beside one that updates the whole: rule 11 of spcore/plugin.h. */
#ifndef SP_CORE_CHECK_SLICES_H
#define SP_CORE_CHECK_SLICES_H

#include "check/rig.h"

#define SLICES_RANKS 3 /* of which some have nothing of a gradient */

typedef void (*slices_fn)(void *arg, bool good, const char *what, const char *words);

/* All are open; `whole` is planned, and its gradients, which give `slice`, are exchanged for others. Tells of up to
 * three rules; ends where one is broken. Not SP_OK: it could not be tried, for err's reason. */
int slices_check(rig *whole, rig *rank, slices_fn told, void *arg, sp_err *err);

#endif
