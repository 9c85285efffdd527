/* SPDX-License-Identifier: MIT
 * tensor.c - a type and a shape over memory of the device or of the host. */
#include "hand/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int new_tensor(hand_block *b, size_t offset, const sp_spec *spec, sp_htensor **out, sp_err *err) {
  sp_htensor *t = sp_calloc(1, sizeof *t);
  *out = t;
  if (!t) return sp_nomem(err, sizeof *t, b->name);
  *t = (sp_htensor){.h = b->h, .b = b, .offset = offset, .spec = *spec, .refs = 1};
  b->h->refs++;
  return SP_OK;
}

static int check_spec(const sp_spec *spec, sp_err *err) {
  char text[160];
  if (!sp_dtype_size(spec->dtype)) return sp_fail(err, SP_E_DTYPE, "a tensor of an unknown type");
  for (int d = 0; d < spec->ndim; d++)
    if (spec->shape[d] < 0)
      return sp_fail(err, SP_E_SHAPE, "%s: extent %d is below 0", sp_spec_str(spec, text, sizeof text), d + 1);
  if (!sp_spec_order_ok(spec)) return sp_fail(err, SP_E_SHAPE, "the order of a tensor is no permutation");
  if (sp_spec_bytes(spec) < 0)
    return sp_fail(err, SP_E_SHAPE, "%s is too large to count its bytes", sp_spec_str(spec, text, sizeof text));
  return SP_OK;
}

int sp_htensor_new(sp_hand *h, const sp_spec *spec, int at, const char *name, const char *where, sp_htensor **out,
                   sp_err *err) {
  sp_sb own = {0};
  hand_block *b;
  *out = NULL;
  if (hand_check_open(h, err) || check_spec(spec, err)) return err->status;
  if (!name || !*name) sp_sb_putf(&own, "the tensor of %s", where && *where ? where : "an unknown line");
  int st = hand_block_new(h, (size_t)sp_spec_bytes(spec), at, name && *name ? name : sp_sb_str(&own), where, &b, err);
  sp_sb_free(&own);
  if (!st && (st = new_tensor(b, 0, spec, out, err))) hand_block_drop(b);
  return st;
}

bool sp_htensor_is_open(const sp_htensor *t) { return t->h->open && t->b->ptr; }
const sp_spec *sp_htensor_spec(const sp_htensor *t) { return &t->spec; }
const char *sp_htensor_name(const sp_htensor *t) { return t->b->name; }
int sp_htensor_at(const sp_htensor *t) { return t->b->at; }

static int check_open(const sp_htensor *t, sp_err *err) {
  return sp_htensor_is_open(t) ? SP_OK : sp_fail(err, SP_E_STATE, "tensor '%s' is closed", t->b->name);
}

int sp_htensor_rows(sp_htensor *t, int64_t first, int64_t n, sp_htensor **out, sp_err *err) {
  sp_spec spec = t->spec;
  *out = NULL;
  if (check_open(t, err)) return err->status;
  if (!spec.ndim || spec.order != SP_ROW_MAJOR)
    return sp_fail(err, SP_E_SHAPE, "rows of '%s': it has none that lie together", t->b->name);
  if (first < 0 || n < 0 || first > spec.shape[0] || n > spec.shape[0] - first)
    return sp_fail(err, SP_E_RANGE, "rows %" PRId64 "..%" PRId64 " of '%s': it has rows 1..%" PRId64, first + 1,
                   first + n, t->b->name, spec.shape[0]);
  size_t row = spec.shape[0] ? (size_t)(sp_spec_bytes(&spec) / spec.shape[0]) : 0;
  spec.shape[0] = n;
  int st = new_tensor(t->b, t->offset + (size_t)first * row, &spec, out, err);
  if (!st) t->b->refs++;
  return st;
}

int sp_htensor_close(sp_htensor *t, const char *where, sp_err *err) {
  if (!sp_htensor_is_open(t)) return SP_OK;
  return hand_block_free(t->b, where, err);
}

void sp_htensor_hold(sp_htensor *t) { t->refs++; }

void sp_htensor_drop(sp_htensor *t) {
  sp_hand *h = t->h;
  if (--t->refs) return;
  if (t->grad) sp_htensor_drop(t->grad);
  hand_block_drop(t->b);
  free(t);
  hand_release(h);
}

int sp_htensor_map(sp_htensor *t, int mode, const char *who, const char *where, void **data, sp_err *err) {
  uint64_t ignored;
  *data = NULL;
  if (check_open(t, err)) return err->status;
  if (t->b->at == SP_AT_DEVICE)
    return sp_fail(err, SP_E_STATE, "%s of '%s', which lies on the device: copy it to a tensor at = \"pinned\" first",
                   who, t->b->name);
  sp_race_touch touch = {t->b->race, mode, t->offset, (size_t)sp_spec_bytes(&t->spec)};
  int st = sp_races_access(t->h->races, SP_RACES_HOST, &touch, 1, who, where, &ignored, err);
  if (!st) *data = (char *)t->b->ptr + t->offset;
  return st;
}

int sp_htensor_grad(sp_htensor *t, const char *where, sp_htensor **grad, sp_err *err) {
  sp_sb name = {0};
  *grad = t->grad;
  if (check_open(t, err)) return err->status;
  if (t->grad) return SP_OK;
  if (t->spec.dtype != SP_F32 || t->b->at != SP_AT_DEVICE)
    return sp_fail(err, SP_E_DTYPE, "'%s' has no gradient: float32 tensors of the device have", t->b->name);
  sp_sb_putf(&name, "the gradient of %s", t->b->name);
  int st = sp_htensor_new(t->h, &t->spec, SP_AT_DEVICE, sp_sb_str(&name), where, &t->grad, err);
  sp_sb_free(&name);
  *grad = t->grad;
  return st;
}
