/* SPDX-License-Identifier: MIT
 * passes.h - the part of the conformance suite that is about forward() and backward() of one instance. */
#ifndef SP_CORE_CHECK_PASSES_H
#define SP_CORE_CHECK_PASSES_H

#include "check/report.h"
#include "check/rig.h"

#define POISON_A 0xFF /* NaN in every float format */
#define POISON_B 0x55

/* The instance has memory. False: forward() cannot go on, and what follows has nothing to stand on. */
bool passes_check_forward(report *rep, rig *r);
/* The last batch of an epoch. After passes_check_forward(), which leaves the whole batch's results in rig.out's
 * copies. */
void passes_check_short_batch(report *rep, rig *r);
void passes_check_backward(report *rep, rig *r);

/* One call. Scratch and saved hold the other poison, so that what is copied from there does not pass for what was not
 * written. Before forward() statistics are restored, and outputs and their inputs' gradients poisoned. */
int passes_forward(rig *r, int64_t n, int poison, sp_err *err);
int passes_backward(rig *r, int poison, bool acc, uint32_t part, sp_err *err); /* all gradients are wanted */
/* What backward() adds to; the i-th tensor's values are those of rig_fill() with seed + i. */
void passes_fill(rig_list *list, uint64_t seed);

#endif
