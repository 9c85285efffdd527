/* SPDX-License-Identifier: MIT
 * place.h - a device as the core uses it: opened, with a stream of its own for what is moved while nothing runs. */
#ifndef SP_CORE_PLACE_H
#define SP_CORE_PLACE_H

#include <spcore/device.h>

#include <stdbool.h>

#include "base/err.h"

typedef struct sp_place {
  const sp_device_type *type;
  void *dev;      /* NULL: closed */
  void *transfer; /* stream for upload, download and checksums, opened when first needed */
  uint64_t *sum;  /* pinned, for checksums; as above */
  bool borrowed;  /* dev is another place's, which closes it */
} sp_place;

int sp_place_open(sp_place *place, const sp_device_type *type, int index, sp_err *err);
/* The processors beside the device of `main`, which is behind a border and is closed after them. */
int sp_place_open_cpu(sp_place *place, const sp_place *main, sp_err *err);
void sp_place_close(sp_place *place); /* all that was allocated or opened there is gone before */
int sp_place_describe(const sp_place *place, int index, sp_device_info *info, sp_err *err);
bool sp_place_is_host(const sp_place *place); /* the host reads and writes its memory */

/* Memory of the device; on failure the message says what needs how much. */
int sp_place_alloc(const sp_place *place, size_t bytes, const char *what, void **ptr, sp_err *err);
void sp_place_free(const sp_place *place, void *ptr);

/* Between host memory and the place's; they wait until it is done. */
int sp_place_upload(sp_place *place, void *dst, const void *src, size_t bytes, sp_err *err);
int sp_place_download(sp_place *place, void *dst, const void *src, size_t bytes, sp_err *err);

/* The checksum of the place's memory, which is complete: made by the device where it can, else of a copy. It waits. */
int sp_place_checksum(sp_place *place, const void *data, size_t bytes, const char *what, uint64_t *sum, sp_err *err);

/* Streams and events of the place, with `what` for the message. */
int sp_place_stream(const sp_place *place, const char *name, int priority, void **stream, sp_err *err);
int sp_place_event(const sp_place *place, uint32_t flags, const char *what, void **event, sp_err *err);
int sp_place_record(const sp_place *place, void *event, void *stream, const char *what, sp_err *err);
int sp_place_wait(const sp_place *place, void *stream, void *event, const char *what, sp_err *err);
int sp_place_sync(const sp_place *place, void *stream, const char *what, sp_err *err); /* a stream */
int sp_place_sync_event(const sp_place *place, void *event, const char *what, sp_err *err);
int sp_place_submit(const sp_place *place, void *stream, sp_op_fn fn, void *arg, const char *what, sp_err *err);
/* As sp_place_checksum(), enqueued, into pinned memory; where the type has stream_hash. */
int sp_place_hash(const sp_place *place, void *stream, const void *data, size_t bytes, uint64_t *sum, const char *what,
                  sp_err *err);
int sp_place_copy(const sp_place *place, void *stream, void *dst, const void *src, size_t bytes, const char *what,
                  sp_err *err);

#endif
