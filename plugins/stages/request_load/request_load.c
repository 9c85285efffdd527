/* SPDX-License-Identifier: MIT
 * request_load.c - the stage `request_load`: requests of many client threads,
 * to measure and to try a graph that serves.
 *
 * Each client keeps some requests open: it submits one, waits until any of its own is answered, pauses, submits the
 * next. Images come from a fixed set, and every answer to the same image must have the same bits. What came of it all
 * is in the report. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <spcore/checksum.h>
#include <spcore/rng.h>

#include "../../kits/feed.h"

#define IMAGES 64
#define PIECE_US 10000
#define RETRY_US 50 /* until a client whose request was refused tries again */

typedef struct rl_params {
  sp_ints size;
  int64_t clients, open, requests, pause_us, late_us, seed;
  double cancel, late;
  const char *report;
} rl_params;

struct rl_self;

/* A request that a client has open, or may open. */
typedef struct rl_token {
  struct rl_self *self;
  sem_t *answered;
  _Atomic int busy;
  int64_t number;
} rl_token;

typedef struct rl_client {
  struct rl_self *self;
  pthread_t thread;
  sem_t answered;
  rl_token *tokens;
  int64_t accepted;
} rl_client;

typedef struct rl_self {
  const rl_params *p;
  feed f;
  size_t bytes;
  uint8_t *images;
  _Atomic uint64_t sums[IMAGES]; /* of the first answer to each image, 0: none yet */
  _Atomic int64_t next, refused, done, cancelled, late, failed, twice, differ, cancels;
  _Atomic uint8_t *answers; /* [requests] how many each got */
  rl_client *clients;
  int64_t running;
  _Atomic int quit;
  FILE *report; /* NULL: none is wanted */
} rl_self;

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static uint64_t checksum(const sp_answer *a) {
  uint64_t sum = 1;
  for (uint32_t i = 0; i < a->n_results; i++)
    sum = sum * 31 + sp_checksum(a->results[i].data, spec_bytes(&a->results[i].spec));
  return sum ? sum : 1;
}

static void check_bits(rl_self *self, int64_t number, const sp_answer *a) {
  uint64_t none = 0, sum = checksum(a);
  if (!atomic_compare_exchange_strong(&self->sums[number % IMAGES], &none, sum) && none != sum) self->differ++;
}

static void answered(void *arg, const sp_answer *a) {
  rl_token *t = arg;
  rl_self *self = t->self;
  if (atomic_fetch_add(&self->answers[t->number], 1)) self->twice++;
  switch (a->status) {
    case SP_OK:
      self->done++;
      check_bits(self, t->number, a);
      break;
    case SP_E_CANCELLED: self->cancelled++; break;
    case SP_E_LATE: self->late++; break;
    default: self->failed++;
  }
  sem_t *sem = t->answered;
  atomic_store(&t->busy, 0);
  sem_post(sem);
}

/* ---- a client ---------------------------------------------------------------------------------------------------- */

/* In pieces, so that a client that is to end does. */
static void sleep_us(const rl_self *self, int64_t us) {
  for (; us > 0 && !self->quit; us -= PIECE_US) {
    struct timespec t = {0, (long)(us < PIECE_US ? us : PIECE_US) * 1000};
    nanosleep(&t, NULL);
  }
}

static void wait_for(sem_t *sem) {
  while (sem_wait(sem) && errno == EINTR) {}
}

/* 0: the queue is closed, or there is nothing more to ask. */
static int ask(rl_client *c, rl_token *t, const sp_rng4 *draw) {
  rl_self *self = c->self;
  const rl_params *p = self->p;
  sp_part part = {self->images + (size_t)(t->number % IMAGES) * self->bytes, self->bytes};
  sp_request r = {.size = sizeof r, .n_parts = 1, .parts = &part, .answer = answered, .arg = t};
  if (sp_rng_float(draw->v[0]) < p->late) r.deadline_us = 1 + (int64_t)sp_rng_below(draw->v[1], (uint32_t)p->late_us);
  uint64_t ticket;
  int st;
  atomic_store(&t->busy, 1);
  while ((st = self->f.api->submit(self->f.queue, &r, &ticket, NULL, 0)) == SP_E_FULL && !self->quit) {
    self->refused++;
    sleep_us(self, RETRY_US);
  }
  if (st) {
    atomic_store(&t->busy, 0);
    return 0;
  }
  c->accepted++;
  if (sp_rng_float(draw->v[2]) < p->cancel && !self->f.api->cancel(self->f.queue, ticket)) self->cancels++;
  return 1;
}

static rl_token *free_token(rl_client *c) {
  for (int64_t i = 0; i < c->self->p->open; i++)
    if (!atomic_load(&c->tokens[i].busy)) return &c->tokens[i];
  return NULL;
}

static void *client(void *arg) {
  rl_client *c = arg;
  rl_self *self = c->self;
  uint64_t key = sp_rng_key((uint64_t)self->p->seed, "request_load");
  while (!self->quit) {
    wait_for(&c->answered); /* begins with one for each token */
    rl_token *t = free_token(c);
    int64_t number = self->quit || !t ? self->p->requests : atomic_fetch_add(&self->next, 1);
    if (number >= self->p->requests) break;
    sp_rng4 draw = sp_rng(key, (uint64_t)number, 0);
    t->number = number;
    if (self->p->pause_us) sleep_us(self, sp_rng_below(draw.v[3], (uint32_t)(2 * self->p->pause_us + 1)));
    if (!ask(c, t, &draw)) break;
  }
  self->f.api->detach(self->f.queue);
  return NULL;
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

static void stop_clients(rl_self *self) {
  atomic_store(&self->quit, 1);
  for (int64_t i = 0; i < self->running; i++) sem_post(&self->clients[i].answered);
  for (int64_t i = 0; i < self->running; i++) pthread_join(self->clients[i].thread, NULL);
}

/* One number for the first answers to all images. */
static uint64_t bits(const rl_self *self, int *answered) {
  uint64_t sum = 0;
  *answered = 0;
  for (uint64_t i = 0; i < IMAGES; i++) {
    if (!self->sums[i]) continue;
    sum += sp_checksum_word(self->sums[i], i);
    ++*answered;
  }
  return sum;
}

static void write_report(rl_self *self) {
  int64_t accepted = 0, never = 0;
  int images;
  uint64_t sum = bits(self, &images);
  for (int64_t i = 0; i < self->p->clients; i++) accepted += self->clients[i].accepted;
  for (int64_t i = 0; i < self->p->requests; i++) never += !self->answers[i];
  int64_t unasked = self->p->requests - accepted;
  fprintf(self->report,
          "{\"requests\":%" PRId64 ",\"accepted\":%" PRId64 ",\"refused\":%" PRId64 ",\"done\":%" PRId64
          ",\"cancelled\":%" PRId64 ",\"cancels\":%" PRId64 ",\"late\":%" PRId64 ",\"failed\":%" PRId64
          ",\"twice\":%" PRId64 ",\"never\":%" PRId64 ",\"differ\":%" PRId64 ",\"images\":%d,\"bits\":\"%016" PRIx64
          "\"}\n",
          self->p->requests, accepted, self->refused, self->done, self->cancelled, self->cancels, self->late,
          self->failed, self->twice, never - unasked, self->differ, images, sum);
}

static void load_destroy(void *arg) {
  rl_self *self = arg;
  stop_clients(self);
  if (self->report && self->clients) write_report(self);
  if (self->report) fclose(self->report);
  for (int64_t i = 0; self->clients && i < self->p->clients; i++) {
    sem_destroy(&self->clients[i].answered);
    free(self->clients[i].tokens);
  }
  free(self->clients);
  free(self->images);
  free((void *)self->answers);
  free(self);
}

static int make_client(rl_self *self, int64_t i) {
  rl_client *c = &self->clients[i];
  *c = (rl_client){.self = self};
  sem_init(&c->answered, 0, (unsigned)self->p->open);
  c->tokens = calloc((size_t)self->p->open, sizeof *c->tokens);
  for (int64_t k = 0; c->tokens && k < self->p->open; k++) {
    c->tokens[k].self = self;
    c->tokens[k].answered = &c->answered;
  }
  return c->tokens != NULL;
}

static void fill_images(rl_self *self) {
  uint64_t key = sp_rng_key((uint64_t)self->p->seed, "images");
  for (uint64_t at = 0, n = IMAGES * self->bytes; at < n; at += 16) {
    sp_rng4 r = sp_rng(key, at, 0);
    memcpy(self->images + at, r.v, n - at < 16 ? n - at : 16);
  }
}

static int load_create(sp_ctx *ctx, const void *params, void **out) {
  rl_self *self = calloc(1, sizeof *self);
  const rl_params *p = params;
  if (!self) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for clients");
  self->p = p;
  self->f = feed_of(ctx);
  self->bytes = (size_t)(3 * p->size.v[0] * p->size.v[p->size.n - 1]);
  self->images = malloc(IMAGES * self->bytes);
  self->answers = calloc((size_t)p->requests, sizeof *self->answers);
  self->clients = calloc((size_t)p->clients, sizeof *self->clients);
  int made = self->images && self->answers && self->clients;
  for (int64_t i = 0; made && i < p->clients; i++) made = make_client(self, i);
  if (!made) {
    free(self->clients);
    self->clients = NULL;
    load_destroy(self);
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRId64 " requests of %" PRId64 " clients", p->requests,
                           p->clients);
  }
  if (*p->report && !(self->report = fopen(p->report, "we"))) {
    int why = errno;
    load_destroy(self);
    return ctx->host->fail(ctx, SP_E_IO, "report = \"%s\": %s", p->report, strerror(why));
  }
  fill_images(self);
  *out = self;
  return SP_OK;
}

static int load_plan(sp_ctx *ctx, void *arg, sp_plan *plan) {
  const rl_self *self = arg;
  const rl_params *p = self->p;
  if (plan->batch < 1) return ctx->host->fail(ctx, SP_E_RANGE, "batch = %" PRId64 " is below 1", plan->batch);
  plan->out[0].spec[0] = (sp_spec){.dtype = SP_U8,
                                   .ndim = 4,
                                   .shape = {plan->batch, 3, p->size.v[0], p->size.v[p->size.n - 1]},
                                   .order = SP_CHANNELS_LAST};
  return SP_OK;
}

/* The clients begin when the graph is ready. */
static int load_prepare(sp_ctx *ctx, void *arg, const sp_io *io) {
  rl_self *self = arg;
  (void)io;
  while (self->f.queue && self->running < self->p->clients) {
    rl_client *c = &self->clients[self->running];
    self->f.api->attach(self->f.queue);
    if (pthread_create(&c->thread, NULL, client, c)) {
      self->f.api->detach(self->f.queue);
      return ctx->host->fail(ctx, SP_E_NOMEM, "client %" PRId64 " of %" PRId64 " could not be started",
                             self->running + 1, self->p->clients);
    }
    self->running++;
  }
  return SP_OK;
}

static int load_forward(sp_ctx *ctx, void *arg, const sp_io *io) {
  const rl_self *self = arg;
  (void)ctx;
  feed_fill(&self->f, io);
  return SP_OK;
}

/* ---- description ------------------------------------------------------------------------------------------------- */
static const sp_port outputs[] = {{.name = "image",
                                   .dtypes = SP_DT(SP_U8),
                                   .ndim = 4,
                                   .flags = SP_PORT_NOGRAD,
                                   .doc = "random images, N x 3 x H x W"},
                                  {.name = NULL}};

#define AT(member) .offset = offsetof(rl_params, member)
static const sp_param params[] = {
    {.name = "size",
     .type = SP_PARAM_INTS,
     AT(size),
     .def_str = "256",
     .imin = 1,
     .imax = 4096,
     .min_n = 1,
     .max_n = 2,
     .unit = "px",
     .doc = "height and width of the images, or one for both"},
    {.name = "clients", .type = SP_PARAM_INT, AT(clients), .idef = 16, .imin = 1, .imax = 1024, .doc = "threads"},
    {.name = "open",
     .type = SP_PARAM_INT,
     AT(open),
     .idef = 1,
     .imin = 1,
     .imax = 1024,
     .doc = "requests that a client has open before it waits for an answer"},
    {.name = "requests",
     .type = SP_PARAM_INT,
     AT(requests),
     .idef = 1000,
     .imin = 1,
     .imax = 1000000000,
     .doc = "of all clients together"},
    {.name = "pause_us",
     .type = SP_PARAM_INT,
     AT(pause_us),
     .imax = 10000000,
     .unit = "us",
     .doc = "mean of a client's pause before a request, uniform from 0 to twice that"},
    {.name = "cancel",
     .type = SP_PARAM_FLOAT,
     AT(cancel),
     .max = 1,
     .doc = "part of the requests that are cancelled as soon as they are submitted"},
    {.name = "late", .type = SP_PARAM_FLOAT, AT(late), .max = 1, .doc = "part of the requests that have a deadline"},
    {.name = "late_us",
     .type = SP_PARAM_INT,
     AT(late_us),
     .idef = 1000,
     .imin = 1,
     .imax = 1000000000,
     .unit = "us",
     .doc = "the longest of these deadlines; they are uniform from 1 us"},
    {.name = "seed",
     .type = SP_PARAM_INT,
     AT(seed),
     .idef = 1,
     .imax = INT64_MAX,
     .doc = "of images, pauses and all else"},
    {.name = "report",
     .type = SP_PARAM_STRING,
     AT(report),
     .doc = "JSON file that is written when the graph is closed: requests by what came of them, and how many were "
            "answered twice, never, or with other bits than another request of the same image"},
    {.name = NULL}};

static const sp_stage_type load_type = {.size = sizeof(sp_stage_type),
                                        .flags = SP_STAGE_SOURCE | SP_STAGE_REQUESTS,
                                        .name = "request_load",
                                        .device = "cpu",
                                        .doc = "Requests of many client threads, to measure a graph that serves",
                                        .outputs = outputs,
                                        .params = params,
                                        .params_size = sizeof(rl_params),
                                        .create = load_create,
                                        .destroy = load_destroy,
                                        .plan = load_plan,
                                        .prepare = load_prepare,
                                        .forward = load_forward};

static const sp_stage_type *const stages[] = {&load_type, NULL};

SP_PLUGIN("request_load", "Clients, to measure a graph that serves", stages);
