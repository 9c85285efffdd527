/* SPDX-License-Identifier: MIT
 * cpu.c - the processor as a device: a stream is a thread with a queue.
 *
 * The queue has one writer (the thread that submits) and one reader (the stream's own), so it needs no lock: nodes that
 * the reader has passed are used again by the writer, and a lock is taken only to sleep and to wake a sleeper.
 *
 * Each event_record() makes a ticket, and a wait holds the ticket of the latest record: so recording again, also on
 * another stream, never changes what an earlier wait means. A ticket is free again when event, record and waits have
 * let go of it. */
#include "device/cpu.h"

#include "device/host.h"
#include "base/spin.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SPIN 3e-6   /* before sleeping; more would take processor time from the threads that compute */
#define CHUNK 512   /* queue nodes allocated at a time */
#define TICKETS 128 /* there from the start: how many are in use at once is a matter of timing */

typedef struct ticket {
  struct ticket *next_free, *next_all;
  atomic_int refs, done, sleepers;
  int status;
  double time;
  pthread_mutex_t lock;
  pthread_cond_t cond;
} ticket;

typedef struct cpu_dev {
  pthread_mutex_t lock; /* of the two lists */
  ticket *unused, *all;
} cpu_dev;

typedef struct cpu_event {
  cpu_dev *dev;
  ticket *latest; /* NULL: never recorded */
  uint32_t flags;
} cpu_event;

enum { NODE_OP, NODE_WAIT, NODE_RECORD, NODE_RECORD_TIME, NODE_QUIT };

typedef struct node {
  _Atomic(struct node *) next;
  int kind;
  union {
    sp_hostop op;
    ticket *ticket;
  } u;
} node;

typedef struct chunk {
  struct chunk *next;
  node nodes[CHUNK];
} chunk;

typedef struct cpu_stream {
  cpu_dev *dev;
  char *name;
  pthread_t thread;
  /* the submitting thread's */
  node *head, *first, *passed; /* newest node; oldest node; how far the reader was when last looked at */
  chunk *chunks;
  size_t fresh; /* nodes of the newest chunk that were never used */
  sp_hostgraph *capture;
  node quit;
  /* the stream's own */
  int status;
  /* between them */
  _Atomic(node *) tail; /* the node last executed */
  atomic_int asleep;
  pthread_mutex_t lock;
  pthread_cond_t cond;
} cpu_stream;

/* ---- tickets ----------------------------------------------------------------------------------------------------- */

static ticket *ticket_alloc(cpu_dev *dev) {
  ticket *t = sp_calloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->cond, NULL);
  t->next_all = dev->all;
  dev->all = t;
  return t;
}

static ticket *ticket_new(cpu_dev *dev) {
  pthread_mutex_lock(&dev->lock);
  ticket *t = dev->unused;
  if (t) dev->unused = t->next_free;
  else t = ticket_alloc(dev);
  pthread_mutex_unlock(&dev->lock);
  return t;
}

static void ticket_arm(ticket *t, int refs) {
  t->status = SP_OK;
  atomic_store_explicit(&t->done, 0, memory_order_relaxed);
  atomic_store_explicit(&t->sleepers, 0, memory_order_relaxed);
  atomic_store_explicit(&t->refs, refs, memory_order_relaxed);
}

static void ticket_drop(cpu_dev *dev, ticket *t) {
  if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
  pthread_mutex_lock(&dev->lock);
  t->next_free = dev->unused;
  dev->unused = t;
  pthread_mutex_unlock(&dev->lock);
}

static void ticket_complete(ticket *t, int status) {
  t->status = status;
  atomic_store(&t->done, 1); /* sequentially consistent with `sleepers`: one of the two sides sees the other */
  if (!atomic_load(&t->sleepers)) return;
  pthread_mutex_lock(&t->lock);
  pthread_cond_broadcast(&t->cond);
  pthread_mutex_unlock(&t->lock);
}

static int ticket_wait(ticket *t) {
  sp_spin_state spin = {0};
  while (!atomic_load_explicit(&t->done, memory_order_acquire) && sp_spin(&spin, SPIN)) continue;
  if (!atomic_load_explicit(&t->done, memory_order_acquire)) {
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->sleepers, 1);
    while (!atomic_load(&t->done)) pthread_cond_wait(&t->cond, &t->lock);
    pthread_mutex_unlock(&t->lock);
  }
  return t->status;
}

/* ---- queue ------------------------------------------------------------------------------------------------------- */

static node *node_new(cpu_stream *s) {
  if (s->first == s->passed) s->passed = atomic_load_explicit(&s->tail, memory_order_acquire);
  if (s->first != s->passed) {
    node *n = s->first;
    s->first = atomic_load_explicit(&n->next, memory_order_relaxed);
    return n;
  }
  if (!s->fresh) {
    chunk *c = malloc(sizeof *c);
    if (!c) return NULL;
    c->next = s->chunks;
    s->chunks = c;
    s->fresh = CHUNK;
  }
  return &s->chunks->nodes[--s->fresh];
}

static void push(cpu_stream *s, node *n) {
  atomic_store_explicit(&n->next, NULL, memory_order_relaxed);
  atomic_store(&s->head->next, n); /* sequentially consistent with `asleep`, as above */
  s->head = n;
  if (!atomic_load(&s->asleep)) return;
  pthread_mutex_lock(&s->lock);
  atomic_store(&s->asleep, 0); /* so that what follows does not wake it again */
  pthread_cond_signal(&s->cond);
  pthread_mutex_unlock(&s->lock);
}

/* The node after `at`; waits for it. */
static node *next_node(cpu_stream *s, node *at) {
  sp_spin_state spin = {0};
  node *n;
  while (!(n = atomic_load_explicit(&at->next, memory_order_acquire)) && sp_spin(&spin, SPIN)) continue;
  if (n) return n;
  pthread_mutex_lock(&s->lock);
  for (;;) {
    atomic_store(&s->asleep, 1);
    if ((n = atomic_load(&at->next))) break;
    pthread_cond_wait(&s->cond, &s->lock);
  }
  atomic_store(&s->asleep, 0);
  pthread_mutex_unlock(&s->lock);
  return n;
}

static void *stream_main(void *arg) {
  cpu_stream *s = arg;
  node *at = atomic_load_explicit(&s->tail, memory_order_relaxed);
  for (;;) {
    at = next_node(s, at);
    ticket *t = at->u.ticket;
    switch (at->kind) {
      case NODE_OP:
        if (!s->status) s->status = sp_hostop_run(&at->u.op);
        break;
      case NODE_WAIT:
        if (!s->status) s->status = ticket_wait(t);
        ticket_drop(s->dev, t);
        break;
      case NODE_RECORD_TIME:
        t->time = sp_now();
        ticket_complete(t, s->status);
        ticket_drop(s->dev, t);
        break;
      case NODE_RECORD:
        ticket_complete(t, s->status);
        ticket_drop(s->dev, t);
        break;
      case NODE_QUIT: return NULL;
    }
    atomic_store_explicit(&s->tail, at, memory_order_release);
  }
}

/* ---- device ------------------------------------------------------------------------------------------------------ */

static void cpu_close(void *d) {
  cpu_dev *dev = d;
  while (dev->all) {
    ticket *t = dev->all;
    dev->all = t->next_all;
    pthread_cond_destroy(&t->cond);
    pthread_mutex_destroy(&t->lock);
    free(t);
  }
  pthread_mutex_destroy(&dev->lock);
  free(dev);
}

static int cpu_open(sp_ctx *ctx, int index, void **out) {
  int status = sp_hostdev_check_index(ctx, index);
  if (status) return status;
  cpu_dev *dev = sp_calloc(1, sizeof *dev);
  if (!dev) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a device");
  pthread_mutex_init(&dev->lock, NULL);
  for (int i = 0; i < TICKETS; i++) {
    ticket *t = ticket_alloc(dev);
    if (!t) {
      cpu_close(dev);
      return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a device");
    }
    t->next_free = dev->unused;
    dev->unused = t;
  }
  *out = dev;
  return SP_OK;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void stream_free(cpu_stream *s) {
  while (s->chunks) {
    chunk *c = s->chunks;
    s->chunks = c->next;
    free(c);
  }
  sp_hostgraph_free(s->capture);
  pthread_cond_destroy(&s->cond);
  pthread_mutex_destroy(&s->lock);
  free(s->name);
  free(s);
}

/* Priorities are left to the operating system: raising one needs a privilege, lowering one could starve a stage. */
static int cpu_stream_open(sp_ctx *ctx, void *dev, const char *name, int priority, void **out) {
  (void)priority;
  cpu_stream *s = sp_calloc(1, sizeof *s);
  if (!s) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for stream '%s'", name);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->cond, NULL);
  s->dev = dev;
  s->name = sp_strdup(name);
  node *dummy = node_new(s);
  if (!s->name || !dummy) {
    stream_free(s);
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for stream '%s'", name);
  }
  atomic_store(&dummy->next, NULL);
  s->head = s->first = s->passed = dummy;
  atomic_store(&s->tail, dummy);

  int rc = sp_thread_start(&s->thread, name, stream_main, s);
  if (rc) {
    stream_free(s);
    return ctx->host->fail(ctx, rc == ENOMEM ? SP_E_NOMEM : SP_E_DEVICE, "no thread for stream '%s': %s", name,
                           strerror(rc));
  }
  *out = s;
  return SP_OK;
}

static void cpu_stream_close(void *stream) {
  cpu_stream *s = stream;
  s->quit.kind = NODE_QUIT;
  push(s, &s->quit);
  pthread_join(s->thread, NULL);
  stream_free(s);
}

static int no_memory(sp_ctx *ctx, const cpu_stream *s) {
  return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for an operation of stream '%s'", s->name);
}

static int in_capture(sp_ctx *ctx, const cpu_stream *s, const char *what) {
  return ctx->host->fail(ctx, SP_E_STATE, "%s on stream '%s' between capture_begin and capture_end", what, s->name);
}

static int submit(sp_ctx *ctx, cpu_stream *s, const sp_hostop *op) {
  if (s->capture) return sp_hostgraph_add(s->capture, op) ? SP_OK : no_memory(ctx, s);
  node *n = node_new(s);
  if (!n) return no_memory(ctx, s);
  n->kind = NODE_OP;
  n->u.op = *op;
  push(s, n);
  return SP_OK;
}

static int cpu_stream_submit(sp_ctx *ctx, void *stream, sp_op_fn fn, void *arg) {
  return submit(ctx, stream, &(sp_hostop){.kind = SP_HOSTOP_CALL, .fn = fn, .arg = arg});
}

static int cpu_stream_copy(sp_ctx *ctx, void *stream, void *dst, const void *src, size_t bytes) {
  return submit(ctx, stream, &(sp_hostop){.kind = SP_HOSTOP_COPY, .dst = dst, .src = src, .bytes = bytes});
}

static int cpu_stream_hash(sp_ctx *ctx, void *stream, const void *data, size_t bytes, uint64_t *sum) {
  return submit(ctx, stream, &(sp_hostop){.kind = SP_HOSTOP_HASH, .dst = sum, .src = data, .bytes = bytes});
}

static int cpu_stream_wait(sp_ctx *ctx, void *stream, void *event) {
  cpu_stream *s = stream;
  ticket *t = ((cpu_event *)event)->latest;
  if (s->capture) return in_capture(ctx, s, "stream_wait");
  if (!t || (atomic_load_explicit(&t->done, memory_order_acquire) && !t->status)) return SP_OK;
  node *n = node_new(s);
  if (!n) return no_memory(ctx, s);
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  n->kind = NODE_WAIT;
  n->u.ticket = t;
  push(s, n);
  return SP_OK;
}

static int record(sp_ctx *ctx, cpu_stream *s, ticket **latest, int kind) {
  if (s->capture) return in_capture(ctx, s, "event_record");
  ticket *t = *latest;
  bool alone = t && atomic_load_explicit(&t->refs, memory_order_acquire) == 1; /* passed, and nobody waits for it */
  if (!alone && !(t = ticket_new(s->dev))) return no_memory(ctx, s);
  node *n = node_new(s);
  if (!n) {
    if (!alone) {
      ticket_arm(t, 1);
      ticket_drop(s->dev, t);
    }
    return no_memory(ctx, s);
  }
  if (!alone && *latest) ticket_drop(s->dev, *latest);
  *latest = t;
  ticket_arm(t, 2);
  n->kind = kind;
  n->u.ticket = t;
  push(s, n);
  return SP_OK;
}

static int cpu_stream_sync(sp_ctx *ctx, void *stream) {
  cpu_stream *s = stream;
  ticket *t = NULL;
  if (s->capture) return in_capture(ctx, s, "stream_sync");
  int status = record(ctx, s, &t, NODE_RECORD);
  if (status) return status;
  status = ticket_wait(t);
  ticket_drop(s->dev, t);
  if (!status) return SP_OK;
  return ctx->host->fail(ctx, status, "an operation of stream '%s' failed: %s", s->name, sp_status_words(status));
}

static void *cpu_stream_native(void *stream) {
  (void)stream;
  return NULL;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int cpu_event_open(sp_ctx *ctx, void *dev, uint32_t flags, void **out) {
  cpu_event *e = sp_calloc(1, sizeof *e);
  if (!e) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for an event");
  e->dev = dev;
  e->flags = flags;
  *out = e;
  return SP_OK;
}

static void cpu_event_close(void *event) {
  cpu_event *e = event;
  if (e->latest) ticket_drop(e->dev, e->latest);
  free(e);
}

static int cpu_event_record(sp_ctx *ctx, void *event, void *stream) {
  cpu_event *e = event;
  return record(ctx, stream, &e->latest, e->flags & SP_EVENT_TIMING ? NODE_RECORD_TIME : NODE_RECORD);
}

static int cpu_event_query(sp_ctx *ctx, void *event, int *complete) {
  const cpu_event *e = event;
  (void)ctx;
  *complete = !e->latest || atomic_load_explicit(&e->latest->done, memory_order_acquire);
  return SP_OK;
}

static int cpu_event_sync(sp_ctx *ctx, void *event) {
  const cpu_event *e = event;
  int status = e->latest ? ticket_wait(e->latest) : SP_OK;
  if (!status) return SP_OK;
  return ctx->host->fail(ctx, status, "an operation before the event failed: %s", sp_status_words(status));
}

static int cpu_event_elapsed(sp_ctx *ctx, void *from, void *to, double *ms) {
  const cpu_event *e[2] = {from, to};
  for (int i = 0; i < 2; i++) {
    if (!(e[i]->flags & SP_EVENT_TIMING))
      return ctx->host->fail(ctx, SP_E_STATE, "event_elapsed of an event opened without SP_EVENT_TIMING");
    if (!e[i]->latest || !atomic_load_explicit(&e[i]->latest->done, memory_order_acquire))
      return ctx->host->fail(ctx, SP_E_STATE, "event_elapsed of an event that is not complete");
  }
  *ms = (e[1]->latest->time - e[0]->latest->time) * 1e3;
  return SP_OK;
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

static int cpu_capture_begin(sp_ctx *ctx, void *stream) {
  cpu_stream *s = stream;
  if (s->capture) return in_capture(ctx, s, "capture_begin");
  s->capture = sp_calloc(1, sizeof *s->capture);
  return s->capture ? SP_OK : no_memory(ctx, s);
}

static int cpu_capture_end(sp_ctx *ctx, void *stream, void **graph) {
  cpu_stream *s = stream;
  if (!s->capture) return ctx->host->fail(ctx, SP_E_STATE, "capture_end on stream '%s' without capture_begin", s->name);
  *graph = s->capture;
  s->capture = NULL;
  return SP_OK;
}

static int cpu_graph_launch(sp_ctx *ctx, void *graph, void *stream) {
  cpu_stream *s = stream;
  if (s->capture) return in_capture(ctx, s, "graph_launch");
  return submit(ctx, s, &(sp_hostop){.kind = SP_HOSTOP_GRAPH, .graph = graph});
}

static void cpu_graph_close(void *graph) { sp_hostgraph_free(graph); }

#define CPU_CALLS                                                                                       \
  .count = sp_hostdev_count, .describe = sp_hostdev_describe, .open = cpu_open, .close = cpu_close,     \
  .alloc = sp_hostdev_alloc, .free = sp_hostdev_free, .stream_open = cpu_stream_open,                   \
  .stream_close = cpu_stream_close, .stream_submit = cpu_stream_submit, .stream_wait = cpu_stream_wait, \
  .stream_copy = cpu_stream_copy, .stream_sync = cpu_stream_sync, .stream_native = cpu_stream_native,   \
  .event_open = cpu_event_open, .event_close = cpu_event_close, .event_record = cpu_event_record,       \
  .event_query = cpu_event_query, .event_sync = cpu_event_sync, .event_elapsed = cpu_event_elapsed,     \
  .capture_begin = cpu_capture_begin, .capture_end = cpu_capture_end, .graph_launch = cpu_graph_launch, \
  .graph_close = cpu_graph_close, .stream_hash = cpu_stream_hash,

const sp_device_type sp_device_cpu = {.size = sizeof(sp_device_type),
                                      .flags = SP_DEVICE_CAPTURE | SP_DEVICE_HOSTMEM,
                                      .name = "cpu",
                                      .doc = "the processors of this machine; a stream is a thread",
                                      CPU_CALLS};

const sp_device_type sp_device_mock = {.size = sizeof(sp_device_type),
                                       .flags = SP_DEVICE_CAPTURE,
                                       .name = "mock",
                                       .doc = "the cpu device behind the borders of a GPU, for tests",
                                       CPU_CALLS};
