/* SPDX-License-Identifier: MIT
 * sim.c - a device without threads: it keeps operations and runs, in *_sync, any that is ready.
 *
 * Which one is drawn from the seed. Each stream also gets a speed from the seed, 1 to 64, so that seeds differ not only
 * in small changes of order but in which stream runs far ahead of which. Operations may themselves sync (a mistake on
 * other devices, where it can hang): a wait that can never end is then found, since nothing is ready any more. Behind a
 * border they may, as their last act: see simmock. */
#include "device/cpu.h"

#include "device/host.h"

#include <spcore/rng.h>

#include <stdlib.h>
#include <string.h>

typedef struct sim_ticket {
  struct sim_ticket *next_free;
  int refs, status;
  bool done;
  double time;
  const struct sim_stream *by; /* the stream that records it */
} sim_ticket;

enum { ITEM_OP, ITEM_WAIT, ITEM_RECORD };

typedef struct item {
  int kind;
  sp_hostop op;
  sim_ticket *ticket;
} item;

typedef struct sim_dev {
  uint64_t key, draws;
  struct sim_stream *streams; /* in the order of opening */
  uint32_t opened;
  sim_ticket *unused;
  bool border;      /* simmock */
  int inside;       /* operations that are being run */
  sim_ticket *late; /* what the one that is being run is to wait for, at its end */
} sim_dev;

typedef struct sim_stream {
  struct sim_stream *next;
  sim_dev *dev;
  char *name;
  uint32_t speed;
  item *ring; /* items first .. first + n - 1, modulo cap, a power of two */
  size_t first, n, cap;
  int status;
  bool inside; /* an operation of it is being run */
  sp_hostgraph *capture;
} sim_stream;

typedef struct sim_event {
  sim_dev *dev;
  sim_ticket *latest;
  uint32_t flags;
} sim_event;

static uint64_t next_seed;

void sp_device_sim_seed(uint64_t seed) { next_seed = seed; }

/* ---- tickets, see device_cpu.c ----------------------------------------------------------------------------------- */

static sim_ticket *ticket_new(sim_dev *dev) {
  sim_ticket *t = dev->unused;
  if (t) dev->unused = t->next_free;
  else t = malloc(sizeof *t);
  if (t) *t = (sim_ticket){.refs = 1};
  return t;
}

static void ticket_drop(sim_dev *dev, sim_ticket *t) {
  if (--t->refs) return;
  t->next_free = dev->unused;
  dev->unused = t;
}

/* ---- queue and choice -------------------------------------------------------------------------------------------- */

static item *push(sim_stream *s) {
  if (s->n == s->cap) {
    size_t cap = s->cap ? s->cap * 2 : 64;
    item *ring = cap <= SIZE_MAX / sizeof *ring ? malloc(cap * sizeof *ring) : NULL;
    if (!ring) return NULL;
    for (size_t i = 0; i < s->n; i++) ring[i] = s->ring[(s->first + i) & (s->cap - 1)];
    free(s->ring);
    s->ring = ring;
    s->cap = cap;
    s->first = 0;
  }
  return &s->ring[(s->first + s->n++) & (s->cap - 1)];
}

static bool ready(const sim_stream *s) {
  if (!s->n || s->inside) return false;
  const item *it = &s->ring[s->first];
  return it->kind != ITEM_WAIT || s->status || it->ticket->done;
}

/* In the place of the operation that has just been taken out. */
static void wait_first(sim_stream *s) {
  s->first = (s->first - 1) & (s->cap - 1);
  s->n++;
  s->ring[s->first] = (item){.kind = ITEM_WAIT, .ticket = s->dev->late};
  s->dev->late = NULL;
}

static void run_one(sim_stream *s) {
  item it = s->ring[s->first];
  s->first = (s->first + 1) & (s->cap - 1);
  s->n--;
  switch (it.kind) {
    case ITEM_OP:
      if (s->status) break;
      s->inside = true;
      s->dev->inside++;
      s->status = sp_hostop_run(&it.op);
      s->dev->inside--;
      s->inside = false;
      if (s->dev->late) wait_first(s);
      break;
    case ITEM_WAIT:
      if (!s->status) s->status = it.ticket->status;
      ticket_drop(s->dev, it.ticket);
      break;
    case ITEM_RECORD:
      it.ticket->done = true;
      it.ticket->status = s->status;
      it.ticket->time = sp_now();
      ticket_drop(s->dev, it.ticket);
      break;
  }
}

/* Runs one operation; false where none is ready. */
static bool step(sim_dev *dev) {
  uint32_t sum = 0;
  for (sim_stream *s = dev->streams; s; s = s->next)
    if (ready(s)) sum += s->speed;
  if (!sum) return false;
  uint32_t at = sp_rng_below(sp_rng(dev->key, dev->draws++, 0).v[0], sum);
  for (sim_stream *s = dev->streams; s; s = s->next) {
    if (!ready(s)) continue;
    if (at < s->speed) {
      run_one(s);
      return true;
    }
    at -= s->speed;
  }
  return false;
}

static int deadlock(sp_ctx *ctx, const sim_dev *dev) {
  sp_sb sb = {0};
  for (const sim_stream *s = dev->streams; s; s = s->next) {
    if (!s->inside && !s->n) continue;
    sp_sb_putf(&sb, "%sstream '%s' ", sb.n ? ", " : "", s->name);
    if (s->inside) sp_sb_put(&sb, "is inside an operation that waits");
    else sp_sb_putf(&sb, "waits for an event of stream '%s'", s->ring[s->first].ticket->by->name);
  }
  int status = ctx->host->fail(ctx, SP_E_STATE, "deadlock: %s", sp_sb_str(&sb));
  sp_sb_free(&sb);
  return status;
}

/* ---- device ------------------------------------------------------------------------------------------------------ */

static int open_with(sp_ctx *ctx, int index, bool border, void **out) {
  int status = sp_hostdev_check_index(ctx, index);
  if (status) return status;
  sim_dev *dev = sp_calloc(1, sizeof *dev);
  if (!dev) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a device");
  dev->key = sp_rng_key(next_seed, "spcore.sim");
  dev->border = border;
  *out = dev;
  return SP_OK;
}

static int sim_open(sp_ctx *ctx, int index, void **out) { return open_with(ctx, index, false, out); }
static int simmock_open(sp_ctx *ctx, int index, void **out) { return open_with(ctx, index, true, out); }

static void sim_close(void *d) {
  sim_dev *dev = d;
  while (dev->unused) {
    sim_ticket *t = dev->unused;
    dev->unused = t->next_free;
    free(t);
  }
  free(dev);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static int sim_stream_open(sp_ctx *ctx, void *d, const char *name, int priority, void **out) {
  sim_dev *dev = d;
  (void)priority;
  sim_stream *s = sp_calloc(1, sizeof *s);
  if (!s || !(s->name = sp_strdup(name))) {
    free(s);
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for stream '%s'", name);
  }
  s->dev = dev;
  s->speed = 1u << 2 * sp_rng_below(sp_rng(dev->key, dev->opened++, 1).v[0], 4);
  sim_stream **end = &dev->streams;
  while (*end) end = &(*end)->next;
  *end = s;
  *out = s;
  return SP_OK;
}

static void sim_stream_close(void *stream) {
  sim_stream *s = stream;
  while (s->n && step(s->dev)) continue;
  for (sim_stream **at = &s->dev->streams; *at; at = &(*at)->next) {
    if (*at != s) continue;
    *at = s->next;
    break;
  }
  sp_hostgraph_free(s->capture);
  free(s->ring);
  free(s->name);
  free(s);
}

static int no_memory(sp_ctx *ctx, const sim_stream *s) {
  return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for an operation of stream '%s'", s->name);
}

static int in_capture(sp_ctx *ctx, const sim_stream *s, const char *what) {
  return ctx->host->fail(ctx, SP_E_STATE, "%s on stream '%s' between capture_begin and capture_end", what, s->name);
}

static int submit(sp_ctx *ctx, sim_stream *s, const sp_hostop *op) {
  if (s->capture) return sp_hostgraph_add(s->capture, op) ? SP_OK : no_memory(ctx, s);
  item *it = push(s);
  if (!it) return no_memory(ctx, s);
  *it = (item){.kind = ITEM_OP, .op = *op};
  return SP_OK;
}

static int sim_stream_submit(sp_ctx *ctx, void *stream, sp_op_fn fn, void *arg) {
  return submit(ctx, stream, &(sp_hostop){.kind = SP_HOSTOP_CALL, .fn = fn, .arg = arg});
}

static int sim_stream_copy(sp_ctx *ctx, void *stream, void *dst, const void *src, size_t bytes) {
  return submit(ctx, stream, &(sp_hostop){.kind = SP_HOSTOP_COPY, .dst = dst, .src = src, .bytes = bytes});
}

static int sim_stream_hash(sp_ctx *ctx, void *stream, const void *data, size_t bytes, uint64_t *sum) {
  return submit(ctx, stream, &(sp_hostop){.kind = SP_HOSTOP_HASH, .dst = sum, .src = data, .bytes = bytes});
}

static int sim_stream_wait(sp_ctx *ctx, void *stream, void *event) {
  sim_stream *s = stream;
  sim_ticket *t = ((sim_event *)event)->latest;
  if (s->capture) return in_capture(ctx, s, "stream_wait");
  if (!t) return SP_OK;
  item *it = push(s);
  if (!it) return no_memory(ctx, s);
  t->refs++;
  *it = (item){.kind = ITEM_WAIT, .ticket = t};
  return SP_OK;
}

static int sim_stream_sync(sp_ctx *ctx, void *stream) {
  sim_stream *s = stream;
  if (s->capture) return in_capture(ctx, s, "stream_sync");
  while (s->n || s->inside)
    if (!step(s->dev)) return deadlock(ctx, s->dev);
  if (!s->status) return SP_OK;
  return ctx->host->fail(ctx, s->status, "an operation of stream '%s' failed: %s", s->name, sp_status_words(s->status));
}

static void *sim_stream_native(void *stream) {
  (void)stream;
  return NULL;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int sim_event_open(sp_ctx *ctx, void *dev, uint32_t flags, void **out) {
  sim_event *e = sp_calloc(1, sizeof *e);
  if (!e) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for an event");
  e->dev = dev;
  e->flags = flags;
  *out = e;
  return SP_OK;
}

static void sim_event_close(void *event) {
  sim_event *e = event;
  if (e->latest) ticket_drop(e->dev, e->latest);
  free(e);
}

static int sim_event_record(sp_ctx *ctx, void *event, void *stream) {
  sim_event *e = event;
  sim_stream *s = stream;
  if (s->capture) return in_capture(ctx, s, "event_record");
  sim_ticket *t = ticket_new(e->dev);
  item *it = t ? push(s) : NULL;
  if (!it) {
    if (t) ticket_drop(e->dev, t);
    return no_memory(ctx, s);
  }
  if (e->latest) ticket_drop(e->dev, e->latest);
  e->latest = t;
  t->refs = 2;
  t->by = s;
  *it = (item){.kind = ITEM_RECORD, .ticket = t};
  return SP_OK;
}

/* Runs an operation now and then, so that a loop of queries ends. */
static int sim_event_query(sp_ctx *ctx, void *event, int *complete) {
  sim_event *e = event;
  (void)ctx;
  if (e->latest && !e->latest->done && (sp_rng(e->dev->key, e->dev->draws++, 2).v[0] & 1)) step(e->dev);
  *complete = !e->latest || e->latest->done;
  return SP_OK;
}

static int sim_event_sync(sp_ctx *ctx, void *event) {
  sim_event *e = event;
  sim_ticket *t = e->latest;
  if (!t) return SP_OK;
  if (e->dev->border && e->dev->inside && !t->done) {
    t->refs++;
    e->dev->late = t;
    return SP_OK;
  }
  while (!t->done)
    if (!step(e->dev)) return deadlock(ctx, e->dev);
  if (!t->status) return SP_OK;
  return ctx->host->fail(ctx, t->status, "an operation before the event failed: %s", sp_status_words(t->status));
}

static int sim_event_elapsed(sp_ctx *ctx, void *from, void *to, double *ms) {
  const sim_event *e[2] = {from, to};
  for (int i = 0; i < 2; i++) {
    if (!(e[i]->flags & SP_EVENT_TIMING))
      return ctx->host->fail(ctx, SP_E_STATE, "event_elapsed of an event opened without SP_EVENT_TIMING");
    if (!e[i]->latest || !e[i]->latest->done)
      return ctx->host->fail(ctx, SP_E_STATE, "event_elapsed of an event that is not complete");
  }
  *ms = (e[1]->latest->time - e[0]->latest->time) * 1e3;
  return SP_OK;
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

static int sim_capture_begin(sp_ctx *ctx, void *stream) {
  sim_stream *s = stream;
  if (s->capture) return in_capture(ctx, s, "capture_begin");
  s->capture = sp_calloc(1, sizeof *s->capture);
  return s->capture ? SP_OK : no_memory(ctx, s);
}

static int sim_capture_end(sp_ctx *ctx, void *stream, void **graph) {
  sim_stream *s = stream;
  if (!s->capture) return ctx->host->fail(ctx, SP_E_STATE, "capture_end on stream '%s' without capture_begin", s->name);
  *graph = s->capture;
  s->capture = NULL;
  return SP_OK;
}

static int sim_graph_launch(sp_ctx *ctx, void *graph, void *stream) {
  sim_stream *s = stream;
  if (s->capture) return in_capture(ctx, s, "graph_launch");
  return submit(ctx, s, &(sp_hostop){.kind = SP_HOSTOP_GRAPH, .graph = graph});
}

static void sim_graph_close(void *graph) { sp_hostgraph_free(graph); }

#define SIM_CALLS                                                                                            \
  .count = sp_hostdev_count, .describe = sp_hostdev_describe, .close = sim_close, .alloc = sp_hostdev_alloc, \
  .free = sp_hostdev_free, .stream_open = sim_stream_open, .stream_close = sim_stream_close,                 \
  .stream_submit = sim_stream_submit, .stream_wait = sim_stream_wait, .stream_copy = sim_stream_copy,        \
  .stream_sync = sim_stream_sync, .stream_native = sim_stream_native, .event_open = sim_event_open,          \
  .event_close = sim_event_close, .event_record = sim_event_record, .event_query = sim_event_query,          \
  .event_sync = sim_event_sync, .event_elapsed = sim_event_elapsed, .capture_begin = sim_capture_begin,      \
  .capture_end = sim_capture_end, .graph_launch = sim_graph_launch, .graph_close = sim_graph_close,          \
  .stream_hash = sim_stream_hash,

const sp_device_type sp_device_sim = {
    .size = sizeof(sp_device_type),
    .flags = SP_DEVICE_CAPTURE | SP_DEVICE_HOSTMEM,
    .name = "sim",
    .doc = "the processor without threads: runs, by a seed, any operation that is ready next",
    .open = sim_open,
    SIM_CALLS};

const sp_device_type sp_device_simmock = {.size = sizeof(sp_device_type),
                                          .flags = SP_DEVICE_CAPTURE,
                                          .name = "simmock",
                                          .doc = "sim behind the borders of a GPU, for tests",
                                          .open = simmock_open,
                                          SIM_CALLS};
