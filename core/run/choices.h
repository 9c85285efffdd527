/* SPDX-License-Identifier: MIT
 * choices.h - the algorithms that stages choose while they are prepared, the same on all ranks of a job. */
#ifndef SP_CORE_CHOICES_H
#define SP_CORE_CHOICES_H

#include "run/machine.h"

/* As sp_machine_build; where the device tells its choices rank 0 goes first, and the others take what it took.
 * Collective where several ranks have the graph. */
int sp_choices_build(sp_machine *m, const sp_machine *beside, sp_err *err);

#endif
