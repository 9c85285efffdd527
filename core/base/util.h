/* SPDX-License-Identifier: MIT
 * util.h - errors with words, strings that grow, small helpers. Everything else in core may include it. */
#ifndef SP_CORE_UTIL_H
#define SP_CORE_UTIL_H

#include <spcore/abi.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words of the failure that a call reports. Core functions return an sp_status and, when it is not SP_OK, have filled
 * *err (never NULL). */
typedef struct sp_err {
  int status;
  char msg[1536];
} sp_err;

/* Sets err and returns status. */
int sp_fail(sp_err *err, int status, const char *fmt, ...) SP_PRINTF(3, 4);
int sp_vfail(sp_err *err, int status, const char *fmt, va_list ap);
/* Puts "fmt: " in front of the words already there; returns err->status. */
int sp_prefix(sp_err *err, const char *fmt, ...) SP_PRINTF(2, 3);
int sp_nomem(sp_err *err, size_t bytes, const char *what);

const char *sp_status_name(int status);  /* "SP_E_SHAPE" */
const char *sp_status_words(int status); /* "shapes do not fit" */

/* A string that grows. Zero-initialised is empty. Running out of memory truncates it and sets `broken`. */
typedef struct sp_sb {
  char *s;
  size_t n, cap;
  bool broken;
} sp_sb;
void sp_sb_put(sp_sb *sb, const char *s);
void sp_sb_putf(sp_sb *sb, const char *fmt, ...) SP_PRINTF(2, 3);
void sp_sb_json(sp_sb *sb,
                const char *s);           /* as a JSON string, quotes included; bytes that are no UTF-8 become U+FFFD */
void sp_sb_json_num(sp_sb *sb, double v); /* shortest text that reads back the same; NaN and infinities as strings */
const char *sp_sb_str(const sp_sb *sb);   /* never NULL */
void sp_sb_free(sp_sb *sb);

char *sp_strdup(const char *s); /* NULL when out of memory */
void *sp_calloc(size_t n, size_t size);
/* Grows *array (of elements of `size` bytes) to hold n elements; false when out of memory. */
bool sp_grow(void *array, size_t *cap, size_t n, size_t size);

/* The name in `names` (ended by NULL) nearest to `word`, or NULL if none is near. */
const char *sp_nearest(const char *word, const char *const *names);

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
/* Copies between two tensors of one logical shape and dtype and any orders. */
void sp_spec_copy(const sp_spec *ds, void *dst, const sp_spec *ss, const void *src);

double sp_now(void);                                       /* seconds, monotonic */
uint64_t sp_fnv64(uint64_t h, const void *data, size_t n); /* h: start with SP_FNV64 */
#define SP_FNV64 UINT64_C(0xCBF29CE484222325)

/* Log lines go to stderr as "spcore: words"; level above the limit is dropped. Thread-safe. */
void sp_log_level(int level);
void sp_log(int level, const char *fmt, ...) SP_PRINTF(2, 3);

#define SP_ARRAY(a) (sizeof(a) / sizeof((a)[0]))

#endif
