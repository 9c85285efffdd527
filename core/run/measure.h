/* SPDX-License-Identifier: MIT
 * measure.h - what single calls and whole lanes cost on a machine whose loop is over, alone and beside each other. They
 * are done again on the data of the last steps, so what they compute means nothing:
 * weights are to be put back afterwards. */
#ifndef SP_CORE_MEASURE_H
#define SP_CORE_MEASURE_H

#include "run/costs.h"
#include "run/loop.h"

/* Calls and lanes that are not known yet, then pairs of lanes, then three or more of them together, within about so
 * many seconds, or once each. `last`: the last step that all lanes have done. */
int sp_measure(sp_loop *l, uint64_t last, double seconds, sp_costs *costs, sp_err *err);

#endif
