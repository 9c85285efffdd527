/* SPDX-License-Identifier: MIT
 * again.h - the forward that a backward runs before itself, where its stage says `recompute`. */
#ifndef SP_CORE_AGAIN_H
#define SP_CORE_AGAIN_H

#include "base/err.h"
#include "host/io.h"

struct sp_call;
typedef struct sp_again sp_again;

/* Of a call of a backward, which `of` describes. */
int sp_again_new(sp_again **out, struct sp_call *c, const sp_io_parts *of, sp_err *err);
void sp_again_free(sp_again *again);                          /* NULL: nothing */
void sp_again_fill(sp_again *again, const struct sp_call *c); /* for the step that c is filled for */
const sp_io *sp_again_io(const sp_again *again);

#endif
