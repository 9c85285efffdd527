/* SPDX-License-Identifier: MIT
 * io.c - see io.h. */
#include "host/io.h"

void sp_io_fill(sp_io *io, sp_call_kind kind, const sp_io_parts *parts) {
  bool backward = kind == SP_CALL_BACKWARD, apply = kind == SP_CALL_APPLY, prepare = kind == SP_CALL_PREPARE;
  bool ports = !apply, told = !apply && !prepare, sums = kind == SP_CALL_SURVEY || kind == SP_CALL_FORWARD;
  const sp_list *in = parts->lists, *out = in ? in + parts->n_in : NULL, *dout = in ? out + parts->n_out : NULL,
                *din = in ? dout + parts->n_out : NULL;
  *io = (sp_io){.size = sizeof *io,
                .training = parts->training,
                .step = told ? parts->step : NULL,
                .ids = told ? parts->ids : NULL,
                .n_in = ports ? parts->n_in : 0,
                .n_out = ports ? parts->n_out : 0,
                .n_weights = parts->n_weights,
                .in = ports ? in : NULL,
                .out = ports ? out : NULL,
                .dout = backward ? dout : NULL,
                .din = ports ? din : NULL,
                .din_acc = ports ? parts->din_acc : NULL,
                .weights = parts->weights,
                .dweights = backward || apply ? parts->dweights : NULL,
                .dw_acc = parts->dw_acc,
                .part = parts->part,
                .dw_scale = prepare ? NULL : parts->dw_scale,
                .factors = parts->n_factors ? parts->factors : NULL,
                .n_factors = parts->n_factors,
                .scratch = parts->scratch,
                .saved = apply ? NULL : parts->saved,
                .consts = parts->consts,
                .sums = sums ? parts->sums : NULL,
                .sum_at = sums ? parts->sum_at : NULL,
                .n_sums = sums ? parts->n_sums : 0};
}
