/* SPDX-License-Identifier: MIT
 * describe.h - a program and its list of operations in words. */
#ifndef SP_CORE_DESCRIBE_H
#define SP_CORE_DESCRIBE_H

#include "plan/program.h"

/* Lanes, the operations of a tick in the order in which they are done, buffers. */
void sp_describe(const sp_program *p, const sp_ops *ops, sp_sb *out);

#endif
