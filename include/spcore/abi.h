/* SPDX-License-Identifier: MIT
 *
 * spcore/abi.h - the words that host and plugins share: status codes, tensors, the call context.
 *
 * Plain C99 and C++ compatible, depends on nothing but the C library's integer types. No function of the host is
 * linked by a plugin: everything a plugin may ask of the host is reached through sp_ctx.
 *
 * Versions. SP_ABI = major << 16 | minor, a number of its own. While major is 0 host and plugin must agree exactly.
 * From major 1 on: majors must agree and the plugin's minor must not exceed the host's. Structs that carry `size`
 * grow only at their end; the host copies min(size) into a zeroed struct of its own, so that an old plugin sees no
 * new member and a new host sees zeros. Table elements (sp_param, sp_port, sp_weight, sp_attr) and sp_spec, sp_tensor,
 * sp_list are frozen for a major and have reserved words for growth; leave those zero.
 */
#ifndef SPCORE_ABI_H
#define SPCORE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SP_ABI_MAJOR 0
#define SP_ABI_MINOR 17
#define SP_ABI ((uint32_t)(SP_ABI_MAJOR << 16 | SP_ABI_MINOR))

#if defined(__GNUC__)
#define SP_EXPORT __attribute__((visibility("default")))
#define SP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define SP_EXPORT
#define SP_PRINTF(f, a)
#endif

/* ---- status ------------------------------------------------------------------------------------------------------
 * Every callback returns SP_OK (0) or one of the negative codes; the words go through sp_host.fail. */
#define SP_STATUS_LIST(X)                         \
  X(SP_OK, 0, "ok")                               \
  X(SP_E_INVALID, -1, "invalid argument")         \
  X(SP_E_NOTFOUND, -2, "not found")               \
  X(SP_E_SHAPE, -3, "shapes do not fit")          \
  X(SP_E_DTYPE, -4, "data type does not fit")     \
  X(SP_E_RANGE, -5, "value out of range")         \
  X(SP_E_NOMEM, -6, "out of memory")              \
  X(SP_E_IO, -7, "input or output failed")        \
  X(SP_E_FORMAT, -8, "malformed file")            \
  X(SP_E_DATA, -9, "bad data")                    \
  X(SP_E_UNSUPPORTED, -10, "not supported")       \
  X(SP_E_ABI, -11, "wrong ABI")                   \
  X(SP_E_STATE, -12, "called in the wrong state") \
  X(SP_E_DEVICE, -13, "device failed")            \
  X(SP_E_RACE, -14, "not race-free")              \
  X(SP_E_CANCELLED, -15, "cancelled")             \
  X(SP_E_INTERNAL, -16, "internal error")         \
  X(SP_E_FULL, -17, "queue is full")              \
  X(SP_E_LATE, -18, "deadline has passed")

typedef enum sp_status {
#define SP_STATUS_ENUM(name, value, words) name = value,
  SP_STATUS_LIST(SP_STATUS_ENUM)
#undef SP_STATUS_ENUM
      SP_STATUS_FORCE_INT = 0x7fffffff /* the enum is an int on every compiler */
} sp_status;

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
#define SP_MAX_DIMS 8
#define SP_MAX_LIST 1024 /* most tensors on one LIST port */

/* X(name, value, bytes, word) */
#define SP_DTYPE_LIST(X)       \
  X(SP_U8, 1, 1, "uint8")      \
  X(SP_I8, 2, 1, "int8")       \
  X(SP_I32, 3, 4, "int32")     \
  X(SP_I64, 4, 8, "int64")     \
  X(SP_F16, 5, 2, "float16")   \
  X(SP_BF16, 6, 2, "bfloat16") \
  X(SP_F32, 7, 4, "float32")   \
  X(SP_F64, 8, 8, "float64")

typedef enum sp_dtype {
#define SP_DTYPE_ENUM(name, value, bytes, word) name = value,
  SP_DTYPE_LIST(SP_DTYPE_ENUM)
#undef SP_DTYPE_ENUM
      SP_DTYPE_FORCE_INT = 0x7fffffff
} sp_dtype;

#define SP_DT(dtype) (1u << (dtype)) /* a bit of sp_port.dtypes */

/* Memory order. `shape` is always logical (N, C, H, W for images). `order` says how the elements lie: 0 is row-major;
 * any other value lists the dimensions from the outermost to the innermost, four bits each, the innermost in the
 * lowest bits. So a channels-last N,C,H,W tensor has dimensions 0,2,3,1 from outside in: 0x0231. Tensors are dense;
 * there are no strides. */
#define SP_ROW_MAJOR 0
#define SP_ORDER4(a, b, c, d) ((int32_t)((a) << 12 | (b) << 8 | (c) << 4 | (d)))
#define SP_CHANNELS_LAST SP_ORDER4(0, 2, 3, 1) /* of four-dimensional tensors only */

typedef struct sp_spec {
  int32_t dtype;              /* sp_dtype */
  int32_t ndim;               /* 0 (a scalar) .. SP_MAX_DIMS */
  int64_t shape[SP_MAX_DIMS]; /* logical extents; those from ndim on are 0 */
  int32_t order;              /* SP_ROW_MAJOR or a permutation, see above */
  int32_t reserved[3];
} sp_spec;

typedef struct sp_tensor {
  sp_spec spec;
  void *data; /* in the memory of the stage's device; lent for one call; NULL: not there, or not wanted */
} sp_tensor;

/* The tensors of one port: one, or 0..n on a LIST port, 0 on an OPTIONAL port that is not wired. */
typedef struct sp_list {
  uint32_t n, reserved;
  const sp_tensor *t;
} sp_list;

/* ---- context ----------------------------------------------------------------------------------------------------- */
typedef struct sp_ctx sp_ctx;

enum { SP_LOG_ERROR = 0, SP_LOG_WARN = 1, SP_LOG_INFO = 2, SP_LOG_DEBUG = 3 };

typedef struct sp_host {
  uint32_t size, abi;

  /* Keeps the words of a failure and returns `status`, so that a stage writes `return ctx->host->fail(ctx, ...)`.
   * The host puts stage, plugin file and step in front; say what was wrong, where, and how to cure it, in one line
   * without a full stop. The first failure of a run is the one reported.
   * [any thread, within a callback] This function can't fail. */
  int (*fail)(sp_ctx *ctx, int status, const char *fmt, ...) SP_PRINTF(3, 4);

  /* Writes one line to the log; SP_LOG_DEBUG is dropped unless asked for.
   * [any thread, within a callback] This function can't fail. */
  void (*log)(sp_ctx *ctx, int level, const char *fmt, ...) SP_PRINTF(3, 4);

  /* A table of further services ("spcore.parallel/1"), or NULL where the host or the device has none. The table lives
   * as long as the instance. [any thread, within a callback] */
  const void *(*get_extension)(sp_ctx *ctx, const char *id);
} sp_host;

/* Lent for one call. Never keep it. */
struct sp_ctx {
  uint32_t size, reserved;
  const sp_host *host;
  void *stream; /* the device's native stream (a cudaStream_t), NULL on the CPU */
  void *impl;   /* the host's; leave it alone */
};

#ifdef __cplusplus
}
#endif
#endif
