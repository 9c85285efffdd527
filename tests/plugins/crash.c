/* SPDX-License-Identifier: MIT
 * crash.c - a stage that ends the program: how, and from where, its parameters say. With SP_TEST_CRASH=HOW in the
 * environment the file does so as it is loaded; with SP_TEST_END=HOW its format does when a file is written or opened,
 * and with SP_TEST_END=never it never ends writing. With SP_TEST_ENDED it says when it is unloaded. With
 * SP_TEST_SCRATCH=BYTES it asks for so much scratch memory. With SP_TEST_HANDLER=default
 * it resets the handler of SIGSEGV as it is loaded, with =own it sets its own in create(). */
#include <spcore/ext/parallel.h>
#include <spcore/format.h>
#include <spcore/plugin.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ABORT, NOWHERE, ZERO, STACK, EXIT, QUICK_EXIT, TRAP, SYSTEM, THREAD_EXIT, CANCEL };
static const char *const ways[] = {"abort", "nowhere", "zero", "stack", "exit", "quick_exit", "trap",
                                   "system", "thread_exit", "cancel", NULL};
enum { CREATE, PLAN, PLANNED, FORWARD, BACKWARD, HELPER };
static const char *const places[] = {"create", "plan", "planned", "forward", "backward", "helper", NULL};

typedef struct crash_params {
  int32_t how, at;
  int64_t step;
} crash_params;

/* Volatile: of what it sees through, a compiler makes something else. */
static int *volatile nowhere;
static volatile int zero;
static volatile int depth = 1 << 30;

static int recurse(int n) {
  volatile char big[4096];
  big[n % 4096] = 1;
  return n ? recurse(n - 1) + big[n % 4096] : 0;
}

static void end(int how) {
  switch (how) {
    case ABORT: abort();
    case NOWHERE: *nowhere = 1; break;
    case ZERO: zero = depth / zero; break;
    case STACK: zero = recurse(depth); break;
    case EXIT: exit(0);
    case QUICK_EXIT: quick_exit(0);
    case TRAP: raise(SIGTRAP); break;
    case SYSTEM: raise(SIGSYS); break;
    case THREAD_EXIT: pthread_exit(NULL);
    case CANCEL:
      pthread_cancel(pthread_self());
      pthread_testcancel();
  }
}

static void own_handler(int sig) { _exit(sig == SIGSEGV ? 99 : 98); }

static void set_handler(const char *when, void (*handler)(int)) {
  const char *which = getenv("SP_TEST_HANDLER");
  if (which && strcmp(which, when) == 0) signal(SIGSEGV, handler);
}

__attribute__((constructor)) static void loaded(void) {
  set_handler("default", SIG_DFL);
  const char *how = getenv("SP_TEST_CRASH");
  for (int i = 0; how && ways[i]; i++)
    if (strcmp(how, ways[i]) == 0) end(i);
}

/* As those of a library, which frees what its calls use. */
__attribute__((destructor)) static void ended(void) {
  if (getenv("SP_TEST_ENDED")) fputs("crash.so is gone\n", stderr);
}

static int create(sp_ctx *ctx, const void *params, void **self) {
  const crash_params *p = params;
  (void)ctx;
  *self = (void *)(uintptr_t)p;
  set_handler("own", own_handler);
  if (p->at == CREATE) end(p->how);
  return SP_OK;
}

static void destroy(void *self) { (void)self; }

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  const crash_params *params = self;
  (void)ctx;
  p->out[0].spec[0] = p->in[0].spec[0];
  if (getenv("SP_TEST_SCRATCH")) p->scratch_bytes = strtoull(getenv("SP_TEST_SCRATCH"), NULL, 10);
  if (params->at == PLAN) end(params->how);
  if (params->at != PLANNED) return SP_OK;
  p->weights = (const sp_weight *)(uintptr_t)64;
  p->n_weights = 1;
  return SP_OK;
}

/* The caller stays in its item: the helpers end the program, all of them at once; what only one thread may do,
 * one does. */
static int item(void *arg, int64_t i, int worker) {
  static const struct timespec while_more = {0, 1000000};
  int how = ((const crash_params *)arg)->how;
  (void)i;
  if (how == EXIT || how == QUICK_EXIT ? worker == 1 : worker > 0) end(how);
  for (;;) nanosleep(&while_more, NULL);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const crash_params *p = self;
  memcpy(io->out[0].t[0].data, io->in[0].t[0].data, io->step->n * 4 * sizeof(float));
  if ((uint64_t)p->step != io->step->step) return SP_OK;
  if (p->at == FORWARD) end(p->how);
  if (p->at != HELPER) return SP_OK;
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  return par->run(ctx, 0, 1000, item, self);
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const crash_params *p = self;
  (void)ctx;
  if (p->at == BACKWARD && (uint64_t)p->step == io->step->step) end(p->how);
  if (io->din[0].t[0].data) memset(io->din[0].t[0].data, 0, io->step->n * 4 * sizeof(float));
  return SP_OK;
}

static const sp_param params[] = {
    {.name = "how", .type = SP_PARAM_CHOICE, .offset = offsetof(crash_params, how), .choices = ways, .doc = "how"},
    {.name = "at", .type = SP_PARAM_CHOICE, .offset = offsetof(crash_params, at), .choices = places, .doc = "where"},
    {.name = "step",
     .type = SP_PARAM_INT,
     .offset = offsetof(crash_params, step),
     .imax = 1000000000,
     .doc = "at which step"},
    {0}};
static const sp_port in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "values"}, {0}};
static const sp_port out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "values"}, {0}};
static const sp_stage_type crash = {
    .size = sizeof crash,
    .name = "crash",
    .device = "cpu",
    .doc = "Ends the program",
    .inputs = in,
    .outputs = out,
    .params = params,
    .params_size = sizeof(crash_params),
    .create = create,
    .destroy = destroy,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
static const sp_stage_type *const stages[] = {&crash, NULL};

/* A format that does so when it writes or is opened, as SP_TEST_END says. */
static void end_here(void) {
  const char *how = getenv("SP_TEST_END");
  for (int i = 0; how && ways[i]; i++)
    if (strcmp(how, ways[i]) == 0) end(i);
}

static int file_open(sp_ctx *ctx, const char *path, void **file) {
  (void)file;
  end_here();
  return ctx->host->fail(ctx, SP_E_IO, "%s: it never opens", path);
}

static int file_entries(void *file, const sp_entry **entries, size_t *n, const sp_meta **meta, size_t *n_meta) {
  (void)file, (void)entries, (void)meta;
  *n = *n_meta = 0;
  return SP_OK;
}

static int file_read(sp_ctx *ctx, void *file, size_t i, void *dst, size_t bytes) {
  (void)ctx, (void)file, (void)i, (void)dst, (void)bytes;
  return SP_OK;
}

static void file_close(void *file) { (void)file; }

static int file_write(sp_ctx *ctx, const char *path, const sp_entry *entries, size_t n, const sp_meta *meta,
                      size_t n_meta) {
  (void)ctx, (void)path, (void)entries, (void)n, (void)meta, (void)n_meta;
  end_here();
  const char *how = getenv("SP_TEST_END");
  while (how && strcmp(how, "never") == 0) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  return SP_OK;
}

static const sp_format_type format = {.size = sizeof format,
                                      .name = "crash",
                                      .extension = ".crash",
                                      .doc = "Ends the program",
                                      .open = file_open,
                                      .entries = file_entries,
                                      .read = file_read,
                                      .close = file_close,
                                      .write = file_write};
static const sp_format_type *const formats[] = {&format, NULL};
SP_PLUGIN_WITH("crash", "For tests", stages, NULL, formats);
