/* SPDX-License-Identifier: MIT
 * guest.c - a stage that copies, and in one of its calls changes what the whole program shares. With SP_TEST_GUEST=WHAT
 * in the environment the file does so as it is loaded. */
#include <spcore/plugin.h>

#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTHING, HANDLER, IGNORED, FATAL, MASK, LOCALE, THREAD, ENVIRONMENT, FOLDER, UMASK, MODE };
static const char *const changes[] = {"nothing", "handler",     "ignored", "fatal", "mask", "locale",
                                      "thread",  "environment", "folder",  "umask", "mode", NULL};
enum { CREATE, PLAN, PREPARE, DESTROY };
static const char *const places[] = {"create", "plan", "prepare", "destroy", NULL};

typedef struct guest_params {
  int32_t what, at;
} guest_params;

static void handler(int sig) { _exit(sig); }

static void change(int what) {
  static locale_t other;
  sigset_t some;
  sigemptyset(&some);
  sigaddset(&some, SIGTERM);
  switch (what) {
    case HANDLER: signal(SIGTERM, handler); break;
    case IGNORED: signal(SIGUSR1, SIG_IGN), signal(SIGUSR2, handler); break;
    case FATAL: signal(SIGSEGV, SIG_DFL); break;
    case MASK: sigprocmask(SIG_BLOCK, &some, NULL); break;
    case LOCALE: setlocale(LC_ALL, "C.UTF-8"); break;
    case THREAD:
      if (!other) other = newlocale(LC_NUMERIC_MASK, "C.UTF-8", (locale_t)0); /* as long as the program */
      uselocale(other);
      break;
    case ENVIRONMENT: setenv("LC_NUMERIC", "de_DE.UTF-8", 1), unsetenv("LC_MESSAGES"); break;
    case FOLDER:
      if (chdir("/")) abort();
      break;
    case UMASK: umask(0); break;
    case MODE: fesetround(FE_UPWARD); break;
    default: break;
  }
}

__attribute__((constructor)) static void loaded(void) {
  const char *what = getenv("SP_TEST_GUEST");
  for (int i = 0; what && changes[i]; i++)
    if (strcmp(what, changes[i]) == 0) change(i);
}

static void at(const guest_params *p, int place) {
  if (p->at == place) change(p->what);
}

static int create(sp_ctx *ctx, const void *params, void **self) {
  (void)ctx;
  *self = (void *)(uintptr_t)params;
  at(params, CREATE);
  return SP_OK;
}

static void destroy(void *self) { at(self, DESTROY); }

static int plan(sp_ctx *ctx, void *self, sp_plan *p) {
  (void)ctx;
  p->out[0].spec[0] = p->in[0].spec[0];
  p->const_bytes = 64;
  at(self, PLAN);
  return SP_OK;
}

static int prepare(sp_ctx *ctx, void *self, const sp_io *io) {
  (void)ctx;
  memset(io->consts, 0, 64);
  at(self, PREPARE);
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  (void)ctx, (void)self;
  memcpy(io->out[0].t[0].data, io->in[0].t[0].data, io->step->n * 4 * sizeof(float));
  return SP_OK;
}

static const sp_param params[] = {
    {.name = "what",
     .type = SP_PARAM_CHOICE,
     .offset = offsetof(guest_params, what),
     .choices = changes,
     .doc = "what it changes"},
    {.name = "at", .type = SP_PARAM_CHOICE, .offset = offsetof(guest_params, at), .choices = places, .doc = "where"},
    {0}};
static const sp_port in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "values"}, {0}};
static const sp_port out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "values"}, {0}};
static const sp_stage_type guest = {
    .size = sizeof guest,
    .name = "guest",
    .device = "cpu",
    .doc = "Changes what the whole program shares",
    .inputs = in,
    .outputs = out,
    .params = params,
    .params_size = sizeof(guest_params),
    .create = create,
    .destroy = destroy,
    .plan = plan,
    .prepare = prepare,
    .forward = forward,
};
static const sp_stage_type *const stages[] = {&guest, NULL};
SP_PLUGIN("guest", "A guest that leaves things other than it found them", stages);
