/* SPDX-License-Identifier: MIT
 * feed.h - what sources of requests share: from the requests of a batch to its tensors. */
#ifndef SP_PLUGINS_FEED_H
#define SP_PLUGINS_FEED_H

#include <string.h>

#include <spcore/feed.h>
#include <spcore/plugin.h>

#include "spec.h"

/* The host's table and the graph's queue; queue NULL: there is none, and no batch holds a request. */
typedef struct feed {
  const sp_feed_api *api;
  sp_queue *queue;
} feed;

static inline feed feed_of(sp_ctx *ctx) {
  feed f = {.api = ctx->host->get_extension(ctx, SP_EXT_FEED)};
  if (f.api) f.queue = f.api->queue(ctx);
  return f;
}

/* NULL: nobody has taken that place, or the request was rejected. */
static inline const sp_part *feed_parts(const feed *f, uint64_t id, uint32_t *form) {
  return f->queue ? f->api->parts(f->queue, id, NULL, form) : NULL;
}

/* Every output's samples from the requests' parts; zeros where there is no request. */
static inline void feed_fill(const feed *f, const sp_io *io) {
  size_t part = 0;
  for (uint32_t o = 0; o < io->n_out; o++)
    for (uint32_t k = 0; k < io->out[o].n; k++, part++) {
      const sp_tensor *t = &io->out[o].t[k];
      size_t n = (size_t)t->spec.shape[0], bytes = n ? spec_bytes(&t->spec) / n : 0;
      for (size_t i = 0; t->data && i < n; i++) {
        const sp_part *p = io->ids ? feed_parts(f, io->ids[i], NULL) : NULL;
        char *to = (char *)t->data + i * bytes;
        if (p) memcpy(to, p[part].data, bytes);
        else memset(to, 0, bytes);
      }
    }
}

#endif
