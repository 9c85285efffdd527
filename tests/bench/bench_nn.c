/* SPDX-License-Identifier: MIT
 * bench_nn.c - seconds of the reference encoder and decoder on the CPU, whole and layer by layer.
 *
 *   bench_nn [size] [batch] [threads] [repeats] [layers]
 *
 * The smallest of `repeats` times counts. The step is encoder forward, decoder forward, decoder backward with the
 * weights updated in place; the loss is not in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/harness.h"
#include "base/util.h"

static int repeats;

static spt *stage(const char *name, const char *params, int threads, int64_t n, int64_t c, int64_t side, int training) {
  int64_t shape[4] = {n, c, side, side}, count = n * c * side * side;
  float *x = malloc((size_t)count * sizeof *x);
  spt *t = spt_new(name, params, threads);
  if (!x || !t || spt_failed(t)) exit((fprintf(stderr, "%s\n", t ? spt_error(t) : "out of memory"), 1));
  spt_random(x, count, 1, -1, 1);
  spt_set_frozen(t, !training);
  if (spt_input_of(t, 0, SP_F32, 4, shape, SP_CHANNELS_LAST, x) || spt_plan(t, training))
    exit((fprintf(stderr, "%s\n", spt_error(t)), 1));
  free(x);
  return t;
}

/* The harness checks and poisons buffers around a call: the time is taken inside the stage's own call. */
static double best(spt *t, int backward) {
  double least = 1e30;
  for (int i = 0; i < repeats; i++) {
    if (spt_forward(t, 0) || (backward && spt_backward(t))) exit((fprintf(stderr, "%s\n", spt_error(t)), 1));
    double s = spt_seconds(t);
    if (s < least) least = s;
  }
  return least;
}

static void random_dout(spt *t, const char *port) {
  int p = spt_port_index(t, SPT_OUT, port);
  int64_t n = sp_spec_count(spt_spec(t, SPT_DOUT, p, 0));
  float *g = malloc((size_t)n * sizeof *g);
  if (!g) exit(1);
  spt_random(g, n, 2, -1e-6f, 1e-6f);
  if (spt_set(t, SPT_DOUT, p, 0, g)) exit(1);
  free(g);
}

static void one(const char *params, int threads, int64_t n, int64_t c, int64_t side, double flop, const char *what) {
  spt *t = stage("layers", params, threads, n, c, side, 1);
  double f, b;
  spt_set_dw_scale(t, -1e-3f);
  random_dout(t, "features");
  f = best(t, 0);
  b = best(t, 1);
  printf("%-34s forward %7.2f ms %6.0f GFLOP/s   backward %7.2f ms %6.0f GFLOP/s\n", what, f * 1e3, flop / f * 1e-9,
         b * 1e3, 2 * flop / b * 1e-9);
  fflush(stdout);
  spt_free(t);
}

static void each_layer(int size, int64_t n, int threads) {
  char params[160], what[64];
  int64_t c = 16;
  snprintf(what, sizeof what, "conv 3 -> 16, 1x1 at %d", size);
  one("{ layers = { { \"conv\", 16, kernel = 1 }, { \"relu\" } } }", threads, n, 3, size,
      2.0 * (double)n * size * size * 48, what);
  for (int64_t s = size; s > 1; s /= 2, c *= 2) {
    double flop = 2.0 * (double)n * (double)(s / 2) * (double)(s / 2) * 8 * (double)c * (double)c;
    snprintf(params, sizeof params, "{ layers = { { \"conv\", %d, kernel = 2, stride = 2 }, { \"relu\" } } }",
             (int)(2 * c));
    snprintf(what, sizeof what, "conv %d -> %d, 2x2/2 at %d", (int)c, (int)(2 * c), (int)s);
    one(params, threads, n, c, s, flop, what);
    snprintf(params, sizeof params, "{ layers = { { \"conv_transpose\", %d }, { \"relu\" } } }", (int)c);
    snprintf(what, sizeof what, "conv_transpose %d -> %d at %d", (int)(2 * c), (int)c, (int)(s / 2));
    one(params, threads, n, 2 * c, s / 2, flop, what);
  }
  snprintf(what, sizeof what, "conv 16 -> 10, 3x3 at %d", size);
  one("{ layers = { { \"conv\", 10, kernel = 3, pad = 1 } } }", threads, n, 16, size,
      2.0 * (double)n * size * size * 1440, what);
}

int main(int argc, char **argv) {
  int size = argc > 1 ? atoi(argv[1]) : 256, n = argc > 2 ? atoi(argv[2]) : 8, threads = argc > 3 ? atoi(argv[3]) : 2;
  int levels = 0;
  double enc, fwd, back;
  spt *e, *d;
  repeats = argc > 4 ? atoi(argv[4]) : 5;
  if (size < 2 || n < 1 || threads < 1 || repeats < 1) return fprintf(stderr, "bench_nn: bad argument\n"), 2;
  while (size >> (levels + 1)) levels++;
  if (argc > 5) each_layer(size, n, threads);
  e = stage("encoder", NULL, threads, n, 3, size, 0);
  enc = best(e, 0);
  spt_free(e);
  d = stage("decoder", "{ classes = 10 }", threads, n, (int64_t)16 << levels, 1, 1);
  spt_set_dw_scale(d, -1e-3f);
  spt_want(d, SPT_DIN, 0, 0, 0);
  random_dout(d, "logits");
  fwd = best(d, 0);
  back = best(d, 1);
  printf("%d x %d, batch %d, %d threads: encoder %.1f ms, decoder forward %.1f ms, backward %.1f ms: %.2f steps/s\n",
         size, size, n, threads, enc * 1e3, fwd * 1e3, back * 1e3, 1 / (enc + fwd + back));
  spt_free(d);
  return 0;
}
