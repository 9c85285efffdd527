/* SPDX-License-Identifier: MIT
 * pointwise.c - checks and the call of a loss of single numbers. */
#include "pointwise.h"

int point_plan(sp_ctx *ctx, sp_plan *plan, int target) {
  const sp_spec *x = &plan->in[LOSS_IN_LOGITS].spec[0], *y = &plan->in[LOSS_IN_LABELS].spec[0];
  int rc = target == TARGET_FLOAT ? loss_floats_check(ctx, x, y) : labels_check(ctx, x, y);
  if (rc) return rc;
  if (target == TARGET_LABEL && x->shape[1] != 1)
    return ctx->host->fail(
        ctx, SP_E_SHAPE,
        "labels of 0 and 1 want one logit each, but dimension 1 is %lld; targets of float32 may have "
        "the shape of the logits",
        (long long)x->shape[1]);
  loss_outputs_plan(plan);
  return SP_OK;
}

void point_job_of(point_job *j, const sp_io *io, const loss_params *p, int kind, int target) {
  logit_shape y;
  *j = (point_job){.kind = kind, .target = target, .one = 1, .zero = 1};
  loss_job_of(&j->l, io, p);
  if (target == TARGET_LABEL) j->l.values = 2;
  if (target != TARGET_FLOAT) return;
  sp_spec own = target_spec(&io->in[LOSS_IN_LOGITS].t[0].spec, &io->in[LOSS_IN_LABELS].t[0].spec);
  logit_shape_of(&y, &own);
  j->y = j->l.labels;
  if (kind == POINT_BCE) j->l.shares = j->y;
  j->y_rows = y.classes == 1 ? j->l.shape.rows : y.rows;
  j->l.labels = NULL;
  if (io->din && io->din[LOSS_IN_LABELS].n) j->dy = io->din[LOSS_IN_LABELS].t[0].data;
  j->dy_acc = j->dy && io->din_acc && io->din_acc[LOSS_IN_LABELS] && io->din_acc[LOSS_IN_LABELS][0];
}
