/* SPDX-License-Identifier: MIT
 * spec.h - sizes of a tensor. */
#ifndef SP_PLUGINS_SPEC_H
#define SP_PLUGINS_SPEC_H

#include <spcore/abi.h>

static inline int64_t spec_elements(const sp_spec *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  return n;
}

static inline size_t spec_bytes(const sp_spec *s) {
#define SPEC_BYTES(name, value, bytes, word) \
  case name: return (size_t)spec_elements(s) * bytes;
  switch (s->dtype) { SP_DTYPE_LIST(SPEC_BYTES) }
#undef SPEC_BYTES
  return 0;
}

#endif
