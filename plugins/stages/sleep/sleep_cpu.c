/* SPDX-License-Identifier: MIT
 * sleep_cpu.c - the stage `sleep` on the CPU. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "../../kits/spec.h"
#include "sleep.h"

static int before(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* The kernel may wake a thread up to 50 us late, so that many can be woken at once: not these. */
static void be_punctual(void) {
  static _Thread_local int asked;
  if (!asked) prctl(PR_SET_TIMERSLACK, 1UL);
  asked = 1;
}

static void pass_time(double ms, int spin) {
  struct timespec now, end;
  if (ms <= 0) return;
  be_punctual();
  clock_gettime(CLOCK_MONOTONIC, &end);
  int64_t ns = end.tv_nsec + (int64_t)(ms * 1e6);
  end.tv_sec += ns / 1000000000;
  end.tv_nsec = ns % 1000000000;
  if (spin) {
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (before(&now, &end));
  } else {
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {}
  }
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sleep_params *p = self;
  pass_time(p->ms, p->spin);
  if (p->fail_at_step >= 0 && io->step->step == (uint64_t)p->fail_at_step)
    return ctx->host->fail(ctx, SP_E_DATA, "told to fail here (fail_at_step = %lld)", (long long)p->fail_at_step);
  for (uint32_t i = 0; i < io->in[0].n; i++) {
    size_t bytes = spec_bytes(&io->in[0].t[i].spec);
    if (bytes) memcpy(io->out[0].t[i].data, io->in[0].t[i].data, bytes);
  }
  return SP_OK;
}

static int backward(sp_ctx *ctx, void *self, const sp_io *io) {
  const sleep_params *p = self;
  (void)ctx;
  pass_time(p->backward_ms, p->spin);
  for (uint32_t i = 0; i < io->din[0].n; i++) {
    float *dx = io->din[0].t[i].data;
    const float *dy = io->dout[0].t[i].data;
    size_t bytes = spec_bytes(&io->in[0].t[i].spec);
    if (!dx || io->in[0].t[i].spec.dtype != SP_F32) continue;
    if (io->din_acc[0][i])
      for (size_t k = 0; dy && k < bytes / sizeof *dx; k++) dx[k] += dy[k];
    else if (dy) memcpy(dx, dy, bytes);
    else memset(dx, 0, bytes);
  }
  return SP_OK;
}

SP_STAGE_CPU(SLEEP_PAIR, .forward = forward, .backward = backward);
