/* SPDX-License-Identifier: MIT
 * strategies_races.h - what --check-races would say of a list of operations. */
#ifndef SP_TESTS_FUZZ_STRATEGIES_RACES_H
#define SP_TESTS_FUZZ_STRATEGIES_RACES_H

#include "schedule/ops.h"

/* Plays loops of several lengths; SP_E_RACE with the words of hand/races.h. */
int sf_races(const sp_ops *ops, const sp_sched_input *in, const int *slots, sp_err *err);

#endif
