/* SPDX-License-Identifier: MIT
 * spec.h - dtypes and specs of tensors: sizes, words, strides, copies between orders. */
#ifndef SP_CORE_SPEC_H
#define SP_CORE_SPEC_H

#include <spcore/abi.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t sp_dtype_size(int dtype);         /* 0: no such type */
const char *sp_dtype_name(int dtype);    /* "float32" */
int64_t sp_spec_count(const sp_spec *s); /* elements; -1 on overflow or a negative extent */
int64_t sp_spec_bytes(const sp_spec *s); /* -1 likewise */
bool sp_spec_order_ok(const sp_spec *s); /* `order` is SP_ROW_MAJOR or a permutation of the dimensions */
bool sp_spec_equal(const sp_spec *a, const sp_spec *b);
/* "float32[8,3,256,256]"; ", channels last" is added where the order is not row-major. Returns buf. */
char *sp_spec_str(const sp_spec *s, char *buf, size_t n);
/* Element strides of a dense tensor, in logical dimension order, for any `order`; zeros if it is not ok. */
void sp_spec_strides(const sp_spec *s, int64_t stride[SP_MAX_DIMS]);
/* One sample of a batch: the spec without its first dimension, which must be the outermost one;
 * ndim -1 where it is not. */
sp_spec sp_spec_sample(const sp_spec *s);
/* Copies between two tensors of one logical shape and dtype and any orders. */
void sp_spec_copy(const sp_spec *ds, void *dst, const sp_spec *ss, const void *src);

#endif
