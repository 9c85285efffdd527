/* SPDX-License-Identifier: MIT
 *
 * spcore/format.h - how a weight-file format is written (safetensors is one). Tensors are row-major on both sides.
 * A format of pictures (png) is written alone, of one entry "svg": its bytes as U8. What reads there fails in words.
 */
#ifndef SPCORE_FORMAT_H
#define SPCORE_FORMAT_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_entry {
  const char *name; /* "encoder.0.weight" */
  sp_spec spec;     /* row-major; dtype 0: one that is none of ours, so that the others of a file can be read */
  void *data;       /* write(): the bytes; read side: NULL */
} sp_entry;

typedef struct sp_meta {
  const char *key, *value;
} sp_meta;

typedef struct sp_format_type {
  uint32_t size, flags;
  const char *name;      /* "safetensors" */
  const char *extension; /* ".safetensors" */
  const char *doc;

  /* Opens and checks the whole header. fail() names the file and the place. [main & !running] */
  int (*open)(sp_ctx *, const char *path, void **file);
  /* What is in it, in file order; lives until close(). [main & !running] */
  int (*entries)(void *file, const sp_entry **entries, size_t *n, const sp_meta **meta, size_t *n_meta);
  /* Reads entry i; `bytes` must be its size. One of dtype 0 is refused, by its name and type. [main & !running] */
  int (*read)(sp_ctx *, void *file, size_t i, void *dst, size_t bytes);
  void (*close)(void *file); /* [main & !running] */

  /* Writes a whole file: to a temporary name beside it, synced, then renamed; so the old file stays until the new one
   * is complete. [any: on a thread of its own, beside steps that run and other files that are read] */
  int (*write)(sp_ctx *, const char *path, const sp_entry *entries, size_t n, const sp_meta *meta, size_t n_meta);
} sp_format_type;

#ifdef __cplusplus
}
#endif
#endif
