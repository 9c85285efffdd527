/* SPDX-License-Identifier: MIT
 * constants.h - the part of the conformance suite that is about rule 10 of plugin.h. */
#ifndef SP_CORE_CONFORM_CONSTANTS_H
#define SP_CORE_CONFORM_CONSTANTS_H

#include "check/rig.h"

typedef void (*constants_fn)(void *arg, bool good, const char *what, const char *words);

/* Of two frozen instances with the same inputs and weights, whose plan has constants. Weights are changed. */
void constants_check(rig *one, rig *other, constants_fn line, void *arg);

#endif
