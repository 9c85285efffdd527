/* SPDX-License-Identifier: MIT
 * check_sim.c - random schedules executed under many timings of the sim device give the bits of the serialized program,
 * and with any one wait taken away some timing gives others. */
#include "base/util.h"
#include "device/cpu.h"
#include "tests/kit/sched_random.h"
#include "tests/kit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 26, MAX_BUFFERS = 2048, MAX_RING = 64 };

static char words[512];

static int keep_words(sp_ctx *ctx, int status, const char *fmt, ...) {
  va_list ap;
  (void)ctx;
  va_start(ap, fmt);
  vsnprintf(words, sizeof words, fmt, ap);
  va_end(ap);
  return status;
}

static void say(sp_ctx *ctx, int level, const char *fmt, ...) { (void)ctx, (void)level, (void)fmt; }

static const void *nothing(sp_ctx *ctx, const char *id) {
  (void)ctx, (void)id;
  return NULL;
}

static const sp_host host = {sizeof host, SP_ABI, keep_words, say, nothing};
static sp_ctx ctx = {sizeof ctx, 0, &host, NULL, NULL};
static const sp_device_type *const dev = &sp_device_sim;

#define ok(call) ck_assert_msg((call) == SP_OK, "%s", words)

/* All that a program computes: what every run has seen, and what is left in the buffers. */
typedef struct result {
  uint64_t seen[RS_TASKS][STEPS], buf[MAX_BUFFERS];
} result;

typedef struct op {
  const rs *g;
  const sp_schedule *s;
  result *out;
  const size_t *first; /* buffer 0 of each resource */
  int task, step;
} op;

static uint64_t mix(uint64_t h, uint64_t v) { return sp_fnv64(h, &v, sizeof v); }

static int run_op(void *arg, void *native) {
  const op *o = arg;
  const sp_sched_task *t = &o->g->task[o->task];
  uint64_t h = mix(mix(SP_FNV64, (uint64_t)o->task), (uint64_t)o->step);
  (void)native;
  for (int mode = SP_READ; mode <= SP_WRITE; mode++)
    for (size_t a = 0; a < t->n_acc; a++) {
      int r = t->acc[a].resource;
      uint64_t *b = &o->out->buf[o->first[r] + (size_t)(o->step % o->s->slots[r])];
      if (!(t->acc[a].mode & mode)) continue;
      if (mode == SP_READ) h = mix(h, *b);
      else *b = mix(h, (uint64_t)r);
    }
  o->out->seen[o->task][o->step] = h;
  return SP_OK;
}

typedef struct machine {
  void *device, *stream[RS_LANES], *event[RS_TASKS][MAX_RING];
  op ops[RS_TASKS][STEPS];
} machine;

static void machine_open(machine *m, const rs *g, const sp_schedule *s, uint64_t seed) {
  sp_device_sim_seed(seed);
  ok(dev->open(&ctx, 0, &m->device));
  for (size_t l = 0; l < g->in.n_lanes; l++)
    if (!g->lane[l].host) ok(dev->stream_open(&ctx, m->device, g->lane[l].name, 0, &m->stream[l]));
  for (size_t t = 0; t < g->in.n_tasks; t++) {
    ck_assert_int_le(s->items[t].ring, MAX_RING);
    for (int k = 0; k < s->items[t].ring; k++) ok(dev->event_open(&ctx, m->device, 0, &m->event[t][k]));
  }
}

static void machine_close(machine *m, const rs *g, const sp_schedule *s) {
  for (size_t t = 0; t < g->in.n_tasks; t++)
    for (int k = 0; k < s->items[t].ring; k++) dev->event_close(m->event[t][k]);
  for (size_t l = 0; l < g->in.n_lanes; l++)
    if (!g->lane[l].host) dev->stream_close(m->stream[l]);
  dev->close(m->device);
}

static void *event_of(machine *m, const rs *g, const sp_schedule *s, int task, int step) {
  const sp_sched_task *t = &g->task[task];
  return m->event[task][(step - t->phase) / t->every % s->items[task].ring];
}

static void submit(machine *m, const rs *g, const sp_schedule *s, int task, int step) {
  const sp_sched_item *it = &s->items[task];
  int lane = g->task[task].lane;
  bool blocks = g->lane[lane].host;
  for (size_t i = 0; i < it->n_waits; i++) {
    const sp_sched_task *src = &g->task[it->waits[i].task];
    int run = step - it->waits[i].back;
    if (run < src->phase) continue;
    run -= (run - src->phase) % src->every;
    void *e = event_of(m, g, s, it->waits[i].task, run);
    ok(blocks ? dev->event_sync(&ctx, e) : dev->stream_wait(&ctx, m->stream[lane], e));
  }
  op *o = &m->ops[task][step];
  if (blocks) run_op(o, NULL);
  else ok(dev->stream_submit(&ctx, m->stream[lane], run_op, o));
  if (it->record) ok(dev->event_record(&ctx, event_of(m, g, s, task, step), m->stream[lane]));
}

static size_t number_buffers(const rs *g, const sp_schedule *s, size_t *first) {
  size_t n = 0;
  for (size_t r = 0; r < g->in.n_resources; r++) {
    first[r] = n;
    n += (size_t)s->slots[r];
  }
  ck_assert_uint_le(n, MAX_BUFFERS);
  return n;
}

static void prepare(machine *m, const rs *g, const sp_schedule *s, result *out) {
  static size_t first[RS_RESOURCES];
  size_t n = number_buffers(g, s, first);
  memset(out, 0, sizeof *out);
  for (size_t b = 0; b < n; b++) out->buf[b] = mix(SP_FNV64, ~(uint64_t)b); /* as if poisoned */
  for (size_t t = 0; t < g->in.n_tasks; t++)
    for (int k = 0; k < STEPS; k++) m->ops[t][k] = (op){g, s, out, first, (int)t, k};
}

static bool runs(const rs *g, int task, int step) {
  const sp_sched_task *t = &g->task[task];
  return step >= t->phase && (step - t->phase) % t->every == 0;
}

static machine m;

static void serialized(const rs *g, const sp_schedule *s, result *out) {
  prepare(&m, g, s, out);
  for (int step = 0; step < STEPS; step++)
    for (size_t t = 0; t < g->in.n_tasks; t++)
      if (runs(g, (int)t, step)) run_op(&m.ops[t][step], NULL);
}

/* One timing: the seed draws which stream goes next, and after how many steps the run drains. */
static void scheduled(const rs *g, const sp_schedule *s, uint64_t seed, result *out) {
  rs dice;
  dice.state = seed;
  prepare(&m, g, s, out);
  machine_open(&m, g, s, seed);
  for (int base = 0, end; base < STEPS; base = end) {
    end = base + 1 + rs_below(&dice, rs_below(&dice, 2) ? 4 : STEPS);
    if (end > STEPS) end = STEPS;
    for (int tick = base; tick < end + s->depth; tick++)
      for (size_t k = 0; k < g->in.n_tasks; k++) {
        int t = s->order[k], step = tick - s->delay[t];
        if (step >= base && step < end && runs(g, t, step)) submit(&m, g, s, t, step);
      }
    for (size_t l = 0; l < g->in.n_lanes; l++)
      if (!g->lane[l].host) ok(dev->stream_sync(&ctx, m.stream[l]));
  }
  machine_close(&m, g, s);
}

static rs g;
static result want, got;

static void make(sp_schedule *s, uint64_t seed) {
  sp_err err;
  rs_make(&g, seed, 0, 0);
  ck_assert_msg(sp_schedule_derive(s, &g.in, &err) == SP_OK, "seed %llu: %s", (unsigned long long)seed, err.msg);
  serialized(&g, s, &want);
}

START_TEST(every_timing_gives_the_serialized_bits) {
  for (uint64_t k = 0; k < 10; k++) {
    sp_schedule s;
    make(&s, (uint64_t)_i * 10 + k);
    for (uint64_t seed = 0; seed < 12; seed++) {
      scheduled(&g, &s, seed, &got);
      ck_assert_msg(memcmp(&want, &got, sizeof want) == 0, "schedule %llu, timing %llu",
                    (unsigned long long)_i * 10 + k, (unsigned long long)seed);
    }
    sp_schedule_free(&s);
  }
}
END_TEST

START_TEST(some_timing_shows_each_missing_wait) {
  size_t tried = 0;
  for (uint64_t k = 0; k < 10; k++) {
    sp_schedule s;
    make(&s, 1000 + (uint64_t)_i * 10 + k);
    for (size_t t = 0; t < s.n_items; t++) {
      sp_sched_item *it = &s.items[t];
      for (size_t i = 0; i < it->n_waits; i++, tried++) {
        /* the last takes the place of the one left out */
        sp_sched_wait w = it->waits[i];
        it->waits[i] = it->waits[--it->n_waits];
        bool same = true;
        for (uint64_t seed = 0; seed < 200 && same; seed++) {
          scheduled(&g, &s, seed, &got);
          same = memcmp(&want, &got, sizeof want) == 0;
        }
        ck_assert_msg(!same, "schedule %llu: '%s' without its wait for '%s' (%d back) is never seen to be wrong",
                      1000 + (unsigned long long)_i * 10 + k, g.task[t].name, g.task[w.task].name, w.back);
        it->waits[it->n_waits++] = it->waits[i];
        it->waits[i] = w;
      }
    }
    sp_schedule_free(&s);
  }
  ck_assert_uint_gt(tried, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sim");
  TCase *same = tcase_create("same bits"), *missing = tcase_create("missing waits");
  tcase_add_loop_test(same, every_timing_gives_the_serialized_bits, 0, 10);
  tcase_add_loop_test(missing, some_timing_shows_each_missing_wait, 0, 10);
  tcase_set_timeout(same, 60);
  tcase_set_timeout(missing, 60);
  suite_add_tcase(suite, same);
  suite_add_tcase(suite, missing);
  return suite_run(suite);
}
