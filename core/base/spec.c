/* SPDX-License-Identifier: MIT
 * spec.c - dtypes and specs of tensors: sizes, words, strides, copies between orders. */
#include "base/spec.h"

#include <stdio.h>
#include <string.h>

size_t sp_dtype_size(int dtype) {
  switch (dtype) {
#define CASE(name, value, bytes, word) \
  case value: return bytes;
    SP_DTYPE_LIST(CASE)
#undef CASE
  }
  return 0;
}

const char *sp_dtype_name(int dtype) {
  switch (dtype) {
#define CASE(name, value, bytes, word) \
  case value: return word;
    SP_DTYPE_LIST(CASE)
#undef CASE
  }
  return "unknown dtype";
}

int64_t sp_spec_count(const sp_spec *s) {
  if (s->ndim < 0 || s->ndim > SP_MAX_DIMS) return -1;
  int64_t n = 1;
  bool empty = false;
  for (int d = 0; d < s->ndim; d++) {
    if (s->shape[d] < 0) return -1;
    empty = empty || s->shape[d] == 0;
  }
  for (int d = 0; !empty && d < s->ndim; d++)
    if (__builtin_mul_overflow(n, s->shape[d], &n)) return -1;
  return empty ? 0 : n;
}

int64_t sp_spec_bytes(const sp_spec *s) {
  int64_t n = sp_spec_count(s), size = (int64_t)sp_dtype_size(s->dtype);
  if (n < 0 || !size || __builtin_mul_overflow(n, size, &n)) return -1;
  return n;
}

/* Dimensions from the outermost to the innermost; false if `order` is no permutation of them. */
static bool order_dims(const sp_spec *s, int dims[SP_MAX_DIMS]) {
  uint32_t order = (uint32_t)s->order, seen = 0;
  if (s->ndim < 0 || s->ndim > SP_MAX_DIMS) return false;
  for (int i = s->ndim; i-- > 0; order >>= 4) {
    int d = s->order == SP_ROW_MAJOR ? i : (int)(order & 15);
    if (d >= s->ndim || (seen & 1u << d)) return false;
    seen |= 1u << d;
    dims[i] = d;
  }
  return order == 0;
}

bool sp_spec_order_ok(const sp_spec *s) {
  int dims[SP_MAX_DIMS];
  return order_dims(s, dims);
}

bool sp_spec_equal(const sp_spec *a, const sp_spec *b) {
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->order != b->order) return false;
  for (int d = 0; d < a->ndim && d < SP_MAX_DIMS; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return true;
}

char *sp_spec_str(const sp_spec *s, char *buf, size_t n) {
  size_t at = 0;
  if (!n) return buf;
#define PUT(...)                                                    \
  do {                                                              \
    int w_ = snprintf(buf + at, n - at, __VA_ARGS__);               \
    if (w_ > 0) at = at + (size_t)w_ < n ? at + (size_t)w_ : n - 1; \
  } while (0)
  PUT("%s[", sp_dtype_name(s->dtype));
  for (int d = 0; d < s->ndim && d < SP_MAX_DIMS; d++) PUT("%s%lld", d ? "," : "", (long long)s->shape[d]);
  PUT("]");
  if (s->order == SP_CHANNELS_LAST && s->ndim == 4) PUT(", channels last");
  else if (s->order != SP_ROW_MAJOR) PUT(", order 0x%x", (unsigned)s->order);
#undef PUT
  return buf;
}

void sp_spec_strides(const sp_spec *s, int64_t stride[SP_MAX_DIMS]) {
  int dims[SP_MAX_DIMS];
  for (int d = 0; d < SP_MAX_DIMS; d++) stride[d] = 0;
  if (!order_dims(s, dims)) return;
  int64_t step = 1;
  for (int i = s->ndim; i-- > 0;) {
    stride[dims[i]] = step;
    step *= s->shape[dims[i]];
  }
}

static void copy_row(char *dst, const char *src, int64_t n, int64_t src_step, size_t size) {
#define ROW(type)                                                                               \
  for (int64_t i = 0; i < n; i++, dst += sizeof(type), src += src_step * (int64_t)sizeof(type)) \
  memcpy(dst, src, sizeof(type))
  switch (size) {
    case 1: ROW(uint8_t); break;
    case 2: ROW(uint16_t); break;
    case 4: ROW(uint32_t); break;
    default: ROW(uint64_t); break;
  }
#undef ROW
}

void sp_spec_copy(const sp_spec *ds, void *dst, const sp_spec *ss, const void *src) {
  int64_t count = sp_spec_count(ds), bytes = sp_spec_bytes(ds);
  int dims[SP_MAX_DIMS];
  if (count <= 0 || bytes <= 0 || !order_dims(ds, dims)) return;
  if (ds->order == ss->order || ds->ndim < 2) {
    memcpy(dst, src, (size_t)bytes);
    return;
  }
  size_t size = sp_dtype_size(ds->dtype);
  int64_t from[SP_MAX_DIMS], at[SP_MAX_DIMS] = {0}, offset = 0;
  sp_spec_strides(ss, from);
  /* Rows of the destination, one after another: `at` counts its dimensions from the outermost, `offset` follows in the
   * source. */
  int last = ds->ndim - 1;
  int64_t row = ds->shape[dims[last]];
  for (char *out = dst;; out += (size_t)row * size) {
    copy_row(out, (const char *)src + offset * (int64_t)size, row, from[dims[last]], size);
    int i = last - 1;
    for (; i >= 0; i--) {
      offset += from[dims[i]];
      if (++at[i] < ds->shape[dims[i]]) break;
      offset -= at[i] * from[dims[i]];
      at[i] = 0;
    }
    if (i < 0) return;
  }
}

sp_spec sp_spec_sample(const sp_spec *s) {
  sp_spec one = {.dtype = s->dtype, .ndim = s->ndim - 1};
  int dims[SP_MAX_DIMS];
  if (s->ndim < 1 || !order_dims(s, dims) || dims[0] != 0) return (sp_spec){.dtype = s->dtype, .ndim = -1};
  for (int i = 0; i < one.ndim; i++) {
    one.shape[i] = s->shape[i + 1];
    if (s->order != SP_ROW_MAJOR) one.order = one.order << 4 | (dims[i + 1] - 1);
  }
  return one;
}
