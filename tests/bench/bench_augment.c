/* SPDX-License-Identifier: MIT
 * bench_augment.c - each stage that changes images beside a copy of as many bytes on the same device.
 *
 *   bench_augment [DEVICE [BATCH [SIZE [MIB [REPEATS [STAGES]]]]]]
 *
 * STAGES is a list of names with commas; without it all. Stages that are not there are named and left out.
 *
 * Bytes: those of the input that the result depends on, once (twice where a mean over the image comes first), and those
 * of the output, once. The copy reads and writes half of them each: the faster of the stage `add` over one tensor and
 * the device's own copy. All three take turns. Their buffers come in sets, used one after the other, of MIB in all, so
 * that none is in a cache still when its turn comes again. On a device that captures a measurement is one graph of many
 * calls, launched behind another one, so that what the host does is not in the time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/harness_impl.h"

enum { PORTS = 8, MAX_SETS = 128, CALLS = 64, MAX_REPEATS = 1000 };
enum { STAGE, KERNEL, COPY, KINDS };
enum { MEASURED, FAILED, ABSENT };

static const struct one_case {
  const char *stage, *what, *params; /* $size and $half of it are put in */
  int half_in;                       /* the input is half as large */
  int window;                        /* of the input only a window is read, half as high and half as wide */
  int reads;
} cases[] = {
    {"to_float", "", "{}", 0, 0, 1},
    {"batch_crop", "exact", "{ size = $half }", 0, 1, 1},
    {"batch_crop", "roi_align", "{ size = $half, mode = \"roi_align\" }", 0, 1, 1},
    {"resize", "doubled", "{ size = $size }", 1, 0, 1},
    {"resize", "halved", "{ size = $half }", 0, 0, 1},
    {"resize", "to 100", "{ size = 100 }", 0, 0, 1},
    {"batch_rotate", "nearest", "{ degrees = 45 }", 0, 0, 1},
    {"batch_rotate", "bilinear", "{ degrees = 45, mode = \"bilinear\" }", 0, 0, 1},
    {"affine", "nearest", "{ degrees = 30, translate = 0.1, scale = { 0.8, 1.2 }, shear = 10 }", 0, 0, 1},
    {"affine", "bilinear", "{ degrees = 30, translate = 0.1, scale = { 0.8, 1.2 }, shear = 10, mode = \"bilinear\" }",
     0, 0, 1},
    {"perspective", "bilinear", "{ p = 1 }", 0, 0, 1},
    {"elastic", "sigma 3", "{ sigma = 3 }", 0, 0, 1},
    {"erase", "a value", "{ p = 1 }", 0, 0, 1},
    {"erase", "noise", "{ p = 1, noise = 1 }", 0, 0, 1},
    {"blur", "7", "{ kernel = 7, sigma = { 0.1, 2 } }", 0, 0, 1},
    {"normalize", "", "{ mean = { 0.4, 0.5, 0.6 }, std = { 0.2, 0.3, 0.4 } }", 0, 0, 1},
    {"flip", "both", "{ horizontal = 0.5, vertical = 0.5 }", 0, 0, 1},
    {"color_jitter", "all four", "{ brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1 }", 0, 0, 2},
    {"solarize", "", "{ p = 1 }", 0, 0, 1},
    {"posterize", "", "{ p = 1 }", 0, 0, 1},
    {"invert", "", "{ p = 1 }", 0, 0, 1},
    {"gamma", "", "{ p = 1 }", 0, 0, 1},
    {"autocontrast", "", "{ p = 1 }", 0, 0, 2},
    {"equalize", "", "{ p = 1 }", 0, 0, 2},
    {"grey", "", "{ p = 1 }", 0, 0, 1},
    {"channel_drop", "", "{ p = 1 }", 0, 0, 1},
    {"sharpness", "", "{ p = 1 }", 0, 0, 1},
    {"gaussian_noise", "", "{ p = 1 }", 0, 0, 1},
    {"jpeg_noise", "", "{ p = 1 }", 0, 0, 1},
    {"rand_augment", "two", "{}", 0, 0, 2},
    {"trivial_augment", "", "{}", 0, 0, 2},
    {"augment", "without blur", "{ crop = $half, mode = \"roi_align\", size = $size, degrees = 45 }", 0, 1, 1},
    {"augment", "blur 7", "{ crop = $half, mode = \"roi_align\", size = $size, degrees = 45, kernel = 7 }", 0, 1, 1},
};

/* One call: of a stage, or a copy. */
typedef struct op {
  sp_inst *inst; /* NULL: a copy */
  sp_io io;
  sp_list in[PORTS], out[PORTS];
  sp_tensor x, y;
  void *dst;
  const void *src;
  size_t bytes;
  int rc;
  sp_err err;
} op;

typedef struct work {
  op *ops; /* one a set of buffers */
  int sets, calls;
  void *graph; /* NULL: each call is submitted */
  double us[MAX_REPEATS];
} work;

static struct {
  const char *device, *stages;
  int64_t batch, size;
  size_t bytes;
  int repeats;
} opt;

static int oops(const char *what, const sp_err *err) {
  printf("%-46s failed: %s\n", what, err->msg);
  return FAILED;
}

/* ---- calls ---- */
static int call_stage(void *arg, void *native) {
  op *o = arg;
  if (!o->rc) o->rc = sp_inst_forward(o->inst, &o->io, 0, native, NULL, &o->err);
  return SP_OK;
}

static int submit(sp_solo *s, op *o, sp_err *err) {
  sp_ctx_holder h;
  sp_ctx *ctx = sp_ctx_for(&h, s->type->name, err);
  if (!o->inst) return s->type->stream_copy(ctx, s->stream, o->dst, o->src, o->bytes);
  return s->type->stream_submit(ctx, s->stream, call_stage, o);
}

static int play(sp_solo *s, const work *w, sp_err *err) {
  sp_ctx_holder h;
  int rc = SP_OK;
  if (w->graph) return s->type->graph_launch(sp_ctx_for(&h, s->type->name, err), w->graph, s->stream);
  for (int i = 0; i < w->calls && !rc; i++) rc = submit(s, &w->ops[i % w->sets], err);
  return rc;
}

static int capture(sp_solo *s, work *w, sp_err *err) {
  sp_ctx_holder h;
  sp_err end;
  if (!(s->type->flags & SP_DEVICE_CAPTURE)) return SP_OK;
  int rc = s->type->capture_begin(sp_ctx_for(&h, s->type->name, err), s->stream);
  if (rc) return rc;
  for (int i = 0; i < w->calls && !rc; i++) rc = submit(s, &w->ops[i % w->sets], err);
  int ended = s->type->capture_end(sp_ctx_for(&h, s->type->name, &end), s->stream, &w->graph);
  if (rc || !ended) return rc;
  *err = end;
  return ended;
}

static int stage_failure(const work *w, sp_err *err) {
  for (int i = 0; i < w->sets; i++)
    if (w->ops[i].rc) return *err = w->ops[i].err, w->ops[i].rc;
  return SP_OK;
}

/* us a call, by events around what follows a first round: by the time that is over, the second was enqueued. */
static int measure(sp_solo *s, work *w, void *const event[2], double *us, sp_err *err) {
  sp_ctx_holder h;
  double ms = 0;
  int rc;
#define DEVICE(call, ...) s->type->call(sp_ctx_for(&h, s->type->name, err), __VA_ARGS__)
  if ((rc = play(s, w, err)) || (rc = DEVICE(event_record, event[0], s->stream)) || (rc = play(s, w, err)) ||
      (rc = DEVICE(event_record, event[1], s->stream)) || (rc = DEVICE(event_sync, event[1])) ||
      (rc = stage_failure(w, err)) || (rc = DEVICE(event_elapsed, event[0], event[1], &ms)))
    return rc;
#undef DEVICE
  *us = ms * 1e3 / w->calls;
  return SP_OK;
}

/* ---- buffers ---- */
/* The harness's tensors, in the device's memory; the first ones lie in `x` and `y`. */
static void op_of(op *o, const spt *t, void *x, void *y) {
  *o = (op){.inst = t->inst};
  for (int p = 0; p < t->n_in && p < PORTS; p++) o->in[p] = (sp_list){t->in[p].n, 0, (sp_tensor *)t->in[p].t};
  for (int p = 0; p < t->n_out && p < PORTS; p++) o->out[p] = (sp_list){t->out[p].n, 0, (sp_tensor *)t->out[p].t};
  o->x = (sp_tensor){t->in[0].t[0].spec, x};
  o->y = (sp_tensor){t->out[0].t[0].spec, y};
  o->in[0].t = &o->x;
  o->out[0].t = &o->y;
  o->io = (sp_io){.size = sizeof(sp_io),
                  .training = 1,
                  .step = spt_buf_lent(&t->step_mem),
                  .ids = spt_buf_lent(&t->ids_mem),
                  .n_in = (uint32_t)t->n_in,
                  .n_out = (uint32_t)t->n_out,
                  .in = o->in,
                  .out = o->out,
                  .scratch = spt_buf_lent(&t->scratch),
                  .saved = spt_buf_lent(&t->saved)};
}

/* From now on the harness's own tensors are those of the device: nothing but forward() is called any more. */
static void lend_all(spt *t) {
  for (int p = 0; p < t->n_in; p++)
    for (uint32_t i = 0; i < t->in[p].n; i++) t->in[p].t[i].data = spt_buf_lent(&t->in[p].mem[i]);
  for (int p = 0; p < t->n_out; p++)
    for (uint32_t i = 0; i < t->out[p].n; i++) t->out[p].t[i].data = spt_buf_lent(&t->out[p].mem[i]);
}

typedef struct rig {
  sp_solo *solo;
  spt *stage, *add;
  size_t in, out, half; /* bytes of a set: the stage's, and each side of its copy */
  void *mem[MAX_SETS][4];
  work work[KINDS];
  void *event[2];
} rig;

static void rig_free(rig *r) {
  for (int k = 0; k < KINDS; k++) {
    if (r->work[k].graph) r->solo->type->graph_close(r->work[k].graph);
    free(r->work[k].ops);
  }
  for (int i = 0; i < MAX_SETS; i++)
    for (int k = 0; k < 4; k++) sp_solo_free(r->solo, r->mem[i][k]);
  for (int i = 0; i < 2; i++)
    if (r->event[i]) r->solo->type->event_close(r->event[i]);
}

static int set_up(rig *r, const void *values, sp_err *err) {
  sp_ctx_holder h;
  size_t bytes[4] = {r->in, r->out, r->half, r->half};
  size_t sets = opt.bytes / (2 * r->half) + 1;
  int rc = SP_OK, n = sets < 2 ? 2 : sets > MAX_SETS ? MAX_SETS : (int)sets;
  bool captures = r->solo->type->flags & SP_DEVICE_CAPTURE;
  for (int k = 0; k < KINDS; k++) {
    r->work[k].sets = n;
    r->work[k].calls = captures ? (CALLS + n - 1) / n * n : n;
    if (!(r->work[k].ops = sp_calloc((size_t)n, sizeof(op)))) return sp_nomem(err, sizeof(op), "calls");
  }
  lend_all(r->stage);
  for (int i = 0; i < n && !rc; i++) {
    void **m = r->mem[i];
    for (int k = 0; k < 4 && !rc; k++) rc = sp_solo_alloc(r->solo, bytes[k], &m[k], err);
    if (!rc) rc = sp_solo_copy(r->solo, m[0], values, r->in, err);
    if (!rc) rc = sp_solo_copy(r->solo, m[2], values, r->half < r->in ? r->half : r->in, err);
    if (rc) return rc;
    op_of(&r->work[STAGE].ops[i], r->stage, m[0], m[1]);
    op_of(&r->work[KERNEL].ops[i], r->add, m[2], m[3]);
    r->work[COPY].ops[i] = (op){.src = m[2], .dst = m[3], .bytes = r->half};
  }
  for (int i = 0; i < 2 && !rc; i++)
    rc = r->solo->type->event_open(sp_ctx_for(&h, opt.device, err), r->solo->dev, SP_EVENT_TIMING, &r->event[i]);
  if (!rc) rc = sp_solo_sync(r->solo, err);
  double first;
  for (int k = 0; k < KINDS && !rc; k++) {
    rc = measure(r->solo, &r->work[k], r->event, &first, err); /* what a first call loads must not be captured */
    if (!rc) rc = capture(r->solo, &r->work[k], err);
    if (!rc) rc = stage_failure(&r->work[k], err);
  }
  return rc;
}

/* ---- a row ---- */
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(work *w) {
  qsort(w->us, (size_t)opt.repeats, sizeof *w->us, by_value);
  return w->us[opt.repeats / 2];
}

static void row(const char *what, rig *r, double bytes) {
  double us = median(&r->work[STAGE]), kernel = median(&r->work[KERNEL]), copy = median(&r->work[COPY]);
  double best = kernel < copy ? kernel : copy;
  printf("%-46s %8.2f %5d %9.2f %9.2f %9.2f %9.1f %9.1f %9.1f %6.1f%%\n", what, bytes * 1e-6, r->work[STAGE].sets, us,
         r->work[STAGE].us[0], r->work[STAGE].us[opt.repeats - 1], bytes / us * 1e-3, bytes / kernel * 1e-3,
         bytes / copy * 1e-3, best / us * 100);
  fflush(stdout);
}

/* Bytes of any value, or floats between 0 and 1. */
static void fill(void *values, int dtype, int64_t n) {
  if (dtype == SP_F32) spt_random(values, n, 1, 0, 1);
  for (int64_t i = 0; dtype == SP_U8 && i < n; i++) ((uint8_t *)values)[i] = (uint8_t)(i * 2654435761u >> 13);
}

static spt *make(const char *stage, const char *params, int dtype, int ndim, const int64_t *shape, int order,
                 const void *values) {
  spt *t = spt_new_on(opt.device, stage, params, (int)sysconf(_SC_NPROCESSORS_ONLN));
  if (!t) exit((fprintf(stderr, "bench_augment: out of memory\n"), 1));
  if (spt_failed(t)) return t;
  if (t->n_in > PORTS || t->n_out > PORTS) {
    sp_err err;
    sp_fail(&err, SP_E_RANGE, "more than %d ports", PORTS);
    spt_note(t, &err);
    return t;
  }
  if (spt_input_of(t, 0, dtype, ndim, shape, order, values) || spt_plan(t, 1)) return t;
  spt_forward(t, 0); /* checked: nothing written outside, no bad status */
  return t;
}

static int bench(const struct one_case *c, const char *what, const char *params, int dtype, int order) {
  int64_t side = c->half_in ? opt.size / 2 : opt.size, shape[4] = {opt.batch, 3, side, side};
  int64_t n = opt.batch * 3 * side * side, words;
  rig r = {0};
  sp_err err = {0};
  int rc = SP_OK, failed = MEASURED;
  void *values = malloc((size_t)n * 4);
  if (!values) return fprintf(stderr, "bench_augment: out of memory\n"), 1;
  fill(values, dtype, n);
  r.stage = make(c->stage, params, dtype, 4, shape, order, values);
  if (spt_failed(r.stage)) {
    bool absent = spt_failed(r.stage) == SP_E_NOTFOUND && !r.stage->inst;
    snprintf(err.msg, sizeof err.msg, "%s", spt_error(r.stage));
    if (absent) printf("%-46s skipped: %s\n", c->stage, err.msg);
    failed = absent ? ABSENT : oops(what, &err);
  } else {
    r.solo = r.stage->solo;
    r.in = r.stage->in[0].mem[0].bytes;
    r.out = r.stage->out[0].mem[0].bytes;
    double share = (double)(opt.size / 2 * (opt.size / 2)) / (double)(opt.size * opt.size);
    double bytes = (double)c->reads * (double)r.in * (c->window ? share : 1) + (double)r.out;
    words = (int64_t)(bytes / 8) / 4 * 4;
    r.half = (size_t)words * 4;
    r.add = make("add", NULL, SP_F32, 1, &words, SP_ROW_MAJOR, NULL);
    rc = spt_failed(r.add);
    if (rc) snprintf(err.msg, sizeof err.msg, "%s", spt_error(r.add));
    if (!rc) rc = set_up(&r, values, &err);
    for (int k = 0; k < opt.repeats && !rc; k++)
      for (int i = 0; i < KINDS && !rc; i++) rc = measure(r.solo, &r.work[i], r.event, &r.work[i].us[k], &err);
    if (rc) failed = oops(what, &err);
    else row(what, &r, bytes);
    rig_free(&r);
    spt_free(r.add);
  }
  spt_free(r.stage);
  free(values);
  return failed;
}

static bool wanted(const char *stage) {
  size_t n = strlen(stage);
  for (const char *p = opt.stages; p && (p = strstr(p, stage)); p += n)
    if ((p == opt.stages || p[-1] == ',') && (!p[n] || p[n] == ',')) return true;
  return !opt.stages;
}

static int64_t number(char **argv, int argc, int i, int64_t usual, int64_t least, int64_t most) {
  if (argc <= i) return usual;
  char *end;
  long long v = strtoll(argv[i], &end, 10);
  if (*end || end == argv[i] || v < least || v > most)
    exit((fprintf(stderr, "bench_augment: argument %d is '%s', not a number of %lld..%lld\n", i, argv[i],
                  (long long)least, (long long)most),
          2));
  return v;
}

/* Both types of images, both orders. */
static int each_kind(const struct one_case *c) {
  int failed = MEASURED;
  char params[160], what[80];
  size_t n = 0;
  for (const char *p = c->params; *p && n + 24 < sizeof params;) {
    bool half = !strncmp(p, "$half", 5), size = !strncmp(p, "$size", 5);
    if (half || size) n += (size_t)sprintf(params + n, "%d", (int)(half ? opt.size / 2 : opt.size));
    else params[n++] = *p;
    p += half || size ? 5 : 1;
  }
  params[n] = 0;
  for (int k = 0; k < 4; k++) {
    bool floats = k & 2, pixels = k & 1;
    if (floats && !strcmp(c->stage, "to_float")) break;
    snprintf(what, sizeof what, "%s%s%s, %s, %s", c->stage, *c->what ? " " : "", c->what, floats ? "float32" : "uint8",
             pixels ? "channels last" : "row-major");
    int found = bench(c, what, params, floats ? SP_F32 : SP_U8, pixels ? SP_CHANNELS_LAST : SP_ROW_MAJOR);
    if (found == ABSENT) return found;
    failed |= found;
  }
  return failed;
}

int main(int argc, char **argv) {
  char why[1024];
  int failed = 0, rows = 0;
  opt.device = argc > 1 && strcmp(argv[1], "cpu") ? argv[1] : "copy"; /* the cpu with a stream */
  opt.batch = number(argv, argc, 2, 32, 1, 4096);
  opt.size = number(argv, argc, 3, 256, 8, 4096);
  opt.bytes = (size_t)number(argv, argc, 4, 256, 0, 65536) << 20;
  opt.repeats = (int)number(argv, argc, 5, 30, 1, MAX_REPEATS);
  opt.stages = argc > 6 ? argv[6] : NULL;
  if (spt_device_ready(opt.device, why, sizeof why)) return fprintf(stderr, "bench_augment: %s\n", why), 1;
  printf("augmentation on device %s: batch %lld, %lld x %lld, medians of %d, buffers of %zu MiB in turn\n",
         argc > 1 ? argv[1] : "cpu", (long long)opt.batch, (long long)opt.size, (long long)opt.size, opt.repeats,
         opt.bytes >> 20);
  printf("%-46s %8s %5s %9s %9s %9s %9s %9s %9s %7s\n", "", "MB", "sets", "us", "least", "most", "GB/s", "kernel",
         "copy", "of it");
  const char *absent = "";
  for (size_t i = 0; i < SP_ARRAY(cases); i++) {
    if (!wanted(cases[i].stage) || !strcmp(absent, cases[i].stage)) continue;
    int found = each_kind(&cases[i]);
    rows++;
    if (found == ABSENT) absent = cases[i].stage;
    failed |= found == FAILED;
  }
  spt_device_close();
  if (!rows) return fprintf(stderr, "bench_augment: none of '%s' is a stage that is measured here\n", opt.stages), 2;
  printf("bytes: what is read and written of images, once each, color_jitter reads twice; kernel, copy: GB/s of an "
         "elementwise kernel and of the device's copy over as many bytes, of it: share of the faster one\n");
  return failed;
}
