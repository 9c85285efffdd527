/* SPDX-License-Identifier: MIT
 * parts.h - the part of the conformance suite that is about a backward in parts. */
#ifndef SP_CORE_CHECK_PARTS_H
#define SP_CORE_CHECK_PARTS_H

#include "check/report.h"
#include "check/rig.h"

#define PARTS_MOST 8 /* as many as plan() is offered */

/* Both have memory, the same inputs and weights; `cut` was planned with several parts. Ends where a rule is broken. */
void parts_check(report *rep, rig *whole, rig *cut);

#endif
