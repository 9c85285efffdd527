/* SPDX-License-Identifier: MIT
 * mishap.c - a stage to which something happens on one rank of several, at a step: for tests of who is named then. It
 * multiplies by a trained number, 1 at first. A rank may have no samples in the last step of an epoch: then it happens
 * in the next. Its parameters are the same on all ranks, which have to have the same. */
#include <spcore/plugin.h>

#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { NONE, FAIL, LOSS, GRADIENT, DAMAGE, CUT, CUT_DATA, SLOW };
static const char *const choices[] = {"none", "fail", "loss", "gradient", "damage", "cut", "cut_data", "slow", NULL};

typedef struct mishap_params {
  int64_t rank, at;
  double ms;
  int32_t how;
} mishap_params;

typedef struct mishap {
  const mishap_params *p;
  int here, over; /* on this rank; it has happened */
  sp_weight weight;
} mishap;

static int create(sp_ctx *ctx, const void *params, void **self) {
  const char *rank = getenv("RANK"), *mpi = getenv("OMPI_COMM_WORLD_RANK");
  mishap *m = calloc(1, sizeof *m);
  if (!m) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory");
  m->p = params;
  m->here = atoi(rank ? rank : mpi ? mpi : "0") == m->p->rank;
  m->weight = (sp_weight){.name = "gain",
                          .spec = {.dtype = SP_F32, .ndim = 1, .shape = {1}},
                          .flags = SP_WEIGHT_TRAINED,
                          .init = SP_INIT_CONST,
                          .init_value = 1};
  *self = m;
  return SP_OK;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  (void)ctx;
  p->out[0].spec[0] = p->in[0].spec[0];
  p->weights = &((mishap *)self)->weight;
  p->n_weights = 1;
  return SP_OK;
}

static size_t count(const sp_spec *s) {
  size_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= (size_t)s->shape[d];
  return n;
}

static int port_to(int fd) {
  struct sockaddr_storage at;
  socklen_t len = sizeof at;
  if (getpeername(fd, (struct sockaddr *)&at, &len)) return 0;
  if (at.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)&at)->sin_port);
  return at.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&at)->sin6_port) : 0;
}

/* A rank but the first has two connections to one port: the first of them is for control, the other for data. */
static void cut(int data) {
  for (int fd = 3; fd < 1024; fd++)
    for (int other = fd + 1; port_to(fd) && other < 1024; other++)
      if (port_to(other) == port_to(fd)) {
        shutdown(data ? other : fd, SHUT_RDWR);
        return;
      }
}

static void rest(double ms) {
  struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms * 1e6) % 1000000000};
  nanosleep(&t, NULL);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  mishap *m = self;
  const float *x = io->in[0].t[0].data;
  float *y = io->out[0].t[0].data, *gain = io->weights[0].data;
  int now = m->here && !m->over && io->training && io->step->step >= (uint64_t)m->p->at, how = m->p->how;
  size_t n = count(&io->in[0].t[0].spec);
  if (now && how == FAIL) return ctx->host->fail(ctx, SP_E_DEVICE, "it does not work any more");
  if (now && how == DAMAGE) *gain = nextafterf(*gain, 2);
  if (now && (how == CUT || how == CUT_DATA)) cut(how == CUT_DATA);
  if (now && how == SLOW) rest(m->p->ms);
  if (now && how != GRADIENT && how != SLOW) m->over = 1;
  for (size_t i = 0; i < n; i++) y[i] = x[i] * *gain;
  if (now && how == LOSS) y[0] = NAN;
  return SP_OK;
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const mishap *m = self;
  const float *x = io->in[0].t[0].data, *dy = io->dout[0].t[0].data, *gain = io->weights[0].data;
  float *dx = io->din[0].t[0].data, *dw = io->dweights[0].data;
  size_t n = count(&io->in[0].t[0].spec);
  double sum = 0;
  (void)ctx;
  for (size_t i = 0; i < n; i++) sum += (double)dy[i] * (double)x[i];
  for (size_t i = 0; dx && i < n; i++) dx[i] = (io->din_acc[0][0] ? dx[i] : 0) + dy[i] * *gain;
  if (m->here && io->step->step >= (uint64_t)m->p->at && m->p->how == GRADIENT) sum = NAN;
  if (dw) *dw = (io->dw_acc ? *dw : 0) + (float)sum;
  return SP_OK;
}

static const sp_param params[] = {
    {.name = "rank", .type = SP_PARAM_INT, .offset = offsetof(mishap_params, rank), .imax = 4095, .doc = "on which"},
    {.name = "at",
     .type = SP_PARAM_INT,
     .offset = offsetof(mishap_params, at),
     .imax = 1000000,
     .doc = "at which step"},
    {.name = "ms", .type = SP_PARAM_FLOAT, .offset = offsetof(mishap_params, ms), .max = 1e4, .doc = "how slow"},
    {.name = "how", .type = SP_PARAM_CHOICE, .offset = offsetof(mishap_params, how), .choices = choices, .doc = "what"},
    {.name = NULL}};
static const sp_port in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "the input"}, {.name = NULL}};
static const sp_port out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 4, .doc = "the product"}, {.name = NULL}};
static const sp_stage_type stage = {.size = sizeof(sp_stage_type),
                                    .name = "mishap",
                                    .device = "cpu",
                                    .doc = "Multiplies by a number until something happens",
                                    .inputs = in,
                                    .outputs = out,
                                    .params = params,
                                    .params_size = sizeof(mishap_params),
                                    .create = create,
                                    .destroy = free,
                                    .plan = plan,
                                    .forward = forward,
                                    .backward = backward};
static const sp_stage_type *const stages[] = {&stage, NULL};
SP_PLUGIN("mishap", "Something that happens to one rank", stages);
