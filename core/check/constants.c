/* SPDX-License-Identifier: MIT
 * constants.c - what prepare() makes of weights that are not trained: all of it, of the weights that are there, left
 * alone by other calls. */
#include "check/constants.h"

#include <string.h>

#define POISON_A 0xFF /* NaN in every float format */
#define POISON_B 0x55

static int forward(rig *r, sp_err *err) {
  rig_poison(&r->out, POISON_A);
  return rig_run(r, &(rig_call){.n = RIG_BATCH, .kind = SP_CALL_FORWARD, .poison = POISON_B}, err);
}

static int prepared(rig *r, int poison, sp_err *err) {
  rig_list consts = {&r->consts, 1};
  if (poison) rig_poison(&consts, poison);
  int rc = rig_prepare(r, RIG_BATCH, err);
  rig_keep(&consts);
  return rc ? rc : forward(r, err);
}

static bool same_outputs(const rig *a, const rig *b) {
  for (uint32_t i = 0; i < a->out.n; i++)
    if (memcmp(a->out.t[i].data, b->out.t[i].data, a->out.t[i].bytes) != 0) return false;
  return true;
}

/* Variances stay positive. */
static void change_weights(rig *r) {
  for (uint32_t i = 0; i < r->weights.n; i++) {
    rig_tensor *t = &r->weights.t[i];
    for (int64_t k = 0; t->spec.dtype == SP_F32 && k < sp_spec_count(&t->spec); k++) {
      float f;
      memcpy(&f, t->data + 4 * k, 4);
      f = f * 1.25f + 0.0625f;
      memcpy(t->data + 4 * k, &f, 4);
    }
  }
}

void constants_check(rig *one, rig *other, constants_fn line, void *arg) {
  sp_err err = {0};
  rig_list consts = {&one->consts, 1};
  bool ran = !prepared(one, POISON_A, &err) && !prepared(other, POISON_B, &err);
  line(arg, ran, "prepare() and forward() of a frozen stage", err.msg);
  if (!ran) return;
  line(arg, same_outputs(one, other), "prepare() fills its constants", "results hang on what was there before");
  line(arg, rig_same(&consts), "forward() leaves constants as they are", "one was changed");
  if (one->inst->type->backward) {
    ran = !rig_run(one, &(rig_call){.n = RIG_BATCH, .kind = SP_CALL_BACKWARD, .want_din = true, .poison = POISON_A},
                   &err);
    line(arg, ran && rig_same(&consts), "backward() leaves constants as they are", ran ? "one was changed" : err.msg);
  }
  rig_keep(&one->out);
  change_weights(one);
  change_weights(other);
  ran = !prepared(one, 0, &err) && !prepared(other, POISON_A, &err);
  line(arg, ran, "prepare() and forward() with other weights", err.msg);
  if (ran)
    line(arg, same_outputs(one, other) && !rig_same(&one->out),
         "prepare() makes constants anew when weights have changed", "results are not those of the weights");
}
