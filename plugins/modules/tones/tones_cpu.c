/* SPDX-License-Identifier: MIT
 * tones_cpu.c - the stages of the module `tones` on the CPU. Where there are enough samples for all threads, each goes
 * through all of its steps alone: it is looked at, where a step needs that, and changed. Few samples go step by step
 * together: they are looked at, and then changed in parts. Several steps take turns between the output and a copy.
 */
#include "tones_cpu.h"
#include "tones_types.h"

#include <string.h>

typedef struct tones_call {
  const tones_how *how;
  const aug_jobs *jobs, *first; /* of this step; of the first one */
  const float *rows;            /* [n][columns] */
  tones_look *looks;            /* [tensors][n][channels] */
  float *reach;                 /* [tensors][n][h][2], of float images alone; NULL: there is none */
  char *work, *copy;            /* each worker's; what steps take turns with */
  const uint64_t *ids;
  uint64_t key;
  size_t each, each_copy;
  int32_t step, channels, same;
} tones_call;

/* Parts of the scratch begin at multiples of this. */
static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Step number `step` of one tensor of a sample, to be done on `j`. */
static tones_task task_of(const tones_call *c, const aug_job *j, int64_t tensor, int64_t sample, int32_t step) {
  tones_task t = {.how = c->how, .job = j, .max = j->dtype == SP_U8 ? 255.0f : c->how->max, .key = c->key};
  t.step = tones_step_of(c->how, c->rows + sample * tones_columns(c->how), step);
  t.looks = c->looks + (tensor * c->first->n + sample) * c->channels;
  t.id = c->ids ? c->ids[c->same ? 0 : sample] : 0;
  if (j->mask && !tones_moves(t.step.op)) t.step.op = TONES_LEAVE;
  return t;
}

/* How far the values of rows that are changed reach: reach[2 y] up to reach[2 y + 1]. */
static void note_reach(float *reach, const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  for (int64_t y = part->from; y < part->to; y++) {
    reach[2 * y] = reach[2 * y + 1] = 0.0f;
    for (int64_t plane = 0; tones_bounded(t->step.op) && plane < j->planes; plane++) {
      const float *row = aug_in_row(j, part->sample, plane, y, sizeof(float));
      int64_t n = (int64_t)j->w * j->pix;
      if (tones_any_outside(row, n, t->max)) tones_limits(row, n, &reach[2 * y]);
    }
  }
}

/* Rows of a sample; `reach`: of it, NULL where that is known or of no use. Few rows at a time, so that those that were
 * looked at are still near. */
static void change_rows(const tones_task *t, const aug_part *part, float *reach, char *work) {
  aug_part some = *part;
  int64_t row = (int64_t)part->job->planes * part->job->w * part->job->pix, rows = reach ? 4096 / row + 1 : INT32_MAX;
  if (t->step.op == TONES_JPEG) {
    if (reach) note_reach(reach, t, part);
    if (part->from == 0) tones_jpeg(t, part->sample, (uint8_t *)work);
    return;
  }
  for (; some.from < part->to; some.from = some.to) {
    some.to = part->to - some.from < rows ? part->to : some.from + (int32_t)rows;
    if (reach) note_reach(reach, t, &some);
    tones_rows(t, &some);
  }
}

static float *reach_of(const tones_call *c, const aug_job *j, int64_t tensor, int64_t sample, int32_t step) {
  int wanted = c->reach && step == 0 && j->dtype == SP_F32;
  return wanted ? c->reach + (tensor * c->first->n + sample) * j->h * 2 : NULL;
}

/* ---- sample by sample: all steps of one while it is in a near cache ---- */
static int whole(void *arg, int64_t i, int worker) {
  const tones_call *c = arg;
  int64_t tensor = i / c->first->n, sample = i % c->first->n, h = c->how->h;
  const aug_job *all = &c->first->job[tensor];
  size_t bytes = (size_t)(all->planes * h * all->w * all->pix) * aug_element(all->dtype);
  char *copy = c->copy + (size_t)worker * c->each_copy, *work = c->work + (size_t)worker * c->each;
  aug_job j = *all;
  int left = 0;
  for (int32_t k = 0; k < c->how->steps; k++) left += task_of(c, &j, tensor, sample, k).step.op != TONES_LEAVE;
  j.in = (const char *)all->in + (size_t)sample * bytes;
  for (int32_t k = 0; k < c->how->steps; k++) {
    tones_task t = task_of(c, &j, tensor, sample, k);
    float *reach = reach_of(c, &j, tensor, sample, k);
    aug_part part = {&j, 0, 0, all->h};
    if (t.step.op == TONES_LEAVE && left) {
      if (reach) note_reach(reach, &t, &part);
      continue;
    }
    left -= left > 0;
    j.out = left % 2 ? copy : (char *)all->out + (size_t)sample * bytes;
    if (tones_looks(t.step.op)) tones_look_at(&t, 0, c->looks + (tensor * c->first->n + sample) * c->channels);
    change_rows(&t, &part, reach, work);
    if (!left) break;
    j.in = j.out;
  }
  return SP_OK;
}

/* ---- step by step: few samples, which are cut ---- */
static int look(void *arg, int64_t i, int worker) {
  const tones_call *c = arg;
  int64_t tensor = i / c->first->n, sample = i % c->first->n;
  tones_task t = task_of(c, &c->jobs->job[tensor], tensor, sample, c->step);
  (void)worker;
  if (tones_looks(t.step.op)) tones_look_at(&t, sample, c->looks + (tensor * c->first->n + sample) * c->channels);
  return SP_OK;
}

static int change(const void *arg, const aug_part *part, int worker) {
  const tones_call *c = arg;
  int64_t tensor = part->job - c->jobs->job;
  tones_task t = task_of(c, part->job, tensor, part->sample, c->step);
  change_rows(&t, part, reach_of(c, part->job, tensor, part->sample, c->step), c->work + (size_t)worker * c->each);
  return SP_OK;
}

/* The first sample with a value that is cut. */
static void judge_reach(const tones_call *c, const uint64_t *ids, int64_t status[4]) {
  const aug_jobs *jobs = c->first;
  for (int64_t i = 0; i < jobs->n && !status[0]; i++) {
    float lo = 0.0f, hi = 0.0f;
    for (int32_t k = 0; k < jobs->count; k++) {
      const aug_job *j = &jobs->job[k];
      const float *reach = c->reach + (k * jobs->n + i) * j->h * 2;
      for (int32_t y = 0; j->dtype == SP_F32 && y < j->h; y++) {
        lo = reach[2 * y] < lo ? reach[2 * y] : lo;
        hi = reach[2 * y + 1] > hi ? reach[2 * y + 1] : hi;
      }
    }
    if (!tones_outside(lo, hi, c->how->max)) continue;
    status[0] = SP_E_RANGE;
    status[1] = ids ? (int64_t)ids[i] : i;
    status[2] = tones_reach(lo, hi, c->how->max);
    status[3] = (int64_t)c->how->max;
  }
}

static size_t job_bytes(const aug_job *j, int64_t n) {
  return rounded((size_t)(n * j->planes * j->h * j->w * j->pix) * aug_element(j->dtype));
}

/* The tensors of a step: those of the first come from the input, those of the last go to the output. */
static void jobs_of_step(const aug_jobs *all, int step, int steps, char *copy, aug_jobs *jobs) {
  *jobs = *all;
  for (int32_t i = 0; i < all->count; i++) {
    aug_job *j = &jobs->job[i];
    if ((steps - step) % 2 == 0) j->out = copy;
    if (step > 0) j->in = (steps - step) % 2 ? (void *)copy : all->job[i].out;
    copy += job_bytes(j, all->n);
  }
}

static int widest(const sp_speclist *images) {
  int64_t most = 1;
  for (uint32_t i = 0; i < images->n; i++) most = images->spec[i].shape[1] > most ? images->spec[i].shape[1] : most;
  return (int)most;
}

/* Bytes of a worker. */
static size_t each_bytes(const tones_how *how, int64_t h, int64_t w) {
  return how->op == TONES_JPEG ? rounded(tones_jpeg_bytes(h, w)) : 0;
}

typedef struct tones_room {
  size_t looks, reach, work; /* where they begin; behind the workers' are copies */
} tones_room;

static tones_room room_of(const tones_how *how, int64_t n, int64_t tensors, int channels, int floats) {
  tones_room r;
  r.looks = rounded((size_t)(n * tones_columns(how)) * sizeof(float));
  r.reach = r.looks + (tones_may_look(how) ? rounded((size_t)(tensors * n * channels) * sizeof(tones_look)) : 0);
  r.work = r.reach + (floats ? rounded((size_t)(tensors * n * how->h * 2) * sizeof(float)) : 0);
  return r;
}

static int any_floats(const sp_speclist *images) {
  for (uint32_t i = 0; i < images->n; i++)
    if (images->spec[i].dtype == SP_F32) return 1;
  return 0;
}

/* Samples are worked on one by one where every thread has some of them. */
enum { FOR_A_THREAD = 4 };

/* Bytes of what steps take turns with: a worker's sample, or a batch that is too small for that. */
static void copy_room(const sp_plan *pl, const tones_how *how, int threads, size_t *all) {
  size_t largest = 0, few = 0;
  for (int port = AUG_IMAGES; port <= AUG_MASKS; port++)
    for (uint32_t i = 0; i < pl->in[port].n; i++) {
      const sp_spec *s = &pl->in[port].spec[i];
      int64_t most = (int64_t)threads * FOR_A_THREAD, n = s->shape[0] < most ? s->shape[0] : most;
      size_t one = aug_element(s->dtype);
      for (int d = 1; d < s->ndim; d++) one *= (size_t)s->shape[d];
      largest = rounded(one) > largest ? rounded(one) : largest;
      few += rounded((size_t)n * one);
    }
  largest *= (size_t)threads;
  *all = how->steps < 2 ? 0 : largest > few ? largest : few;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  const tones_how *how = &((tones_self *)self)->how;
  int status = tones_plan(ctx, self, pl), threads = par_threads(ctx);
  if (status) return status;
  const sp_speclist *images = &pl->in[AUG_IMAGES];
  tones_room r = room_of(how, images->spec->shape[0], images->n, widest(images), any_floats(images));
  size_t copies;
  copy_room(pl, how, threads, &copies);
  pl->scratch_bytes = r.work + (size_t)threads * each_bytes(how, how->h, how->w) + copies;
  return SP_OK;
}

static int32_t images_of(const aug_jobs *jobs) {
  int32_t n = 0;
  while (n < jobs->count && !jobs->job[n].mask) n++;
  return n;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  tones_how filled = ((tones_self *)self)->how;
  const tones_how *how = &filled;
  filled.mask_fill = aug_mask_fill(io, filled.mask_fill);
  aug_jobs jobs, some;
  aug_jobs_of(io, &jobs);
  int rc, threads = par_threads(ctx);
  const float *given = aug_given(ctx, io, "changes", &rc);
  if (rc) return rc;
  if (how->op == TONES_NOISE && !io->ids)
    return ctx->host->fail(ctx, SP_E_STATE, "noise is drawn by the ids of samples, but the graph has no source");
  int32_t images = images_of(&jobs), floats = 0, channels = 1, columns = tones_columns(how);
  for (int32_t i = 0; i < images; i++) {
    int32_t own = (int32_t)(jobs.job[i].planes * jobs.job[i].pix);
    floats |= jobs.job[i].dtype == SP_F32;
    channels = own > channels ? own : channels;
  }
  tones_room r = room_of(how, jobs.n, images, channels, floats);
  char *room = io->scratch;
  float *rows = io->scratch;
  int64_t *status = io->out[AUG_STATUS].t->data;
  aug_dice dice = aug_dice_of(io, &((tones_self *)self)->p->draws);
  memset(status, 0, 4 * sizeof *status);
  if (given) memcpy(rows, given, (size_t)(jobs.n * columns) * sizeof *rows);
  for (int64_t i = 0; i < jobs.n; i++) {
    if (!given) tones_draw(&dice, i, how, rows + i * columns);
    int bad = tones_bad(how, rows + i * columns);
    aug_note(status, bad, io->ids ? (int64_t)io->ids[i] : i, bad, columns);
  }
  if (io->out[AUG_DRAWN].t->data) memcpy(io->out[AUG_DRAWN].t->data, rows, (size_t)(jobs.n * columns) * sizeof *rows);
  tones_call c = {.how = how,
                  .jobs = &some,
                  .first = &jobs,
                  .rows = rows,
                  .looks = (tones_look *)(room + r.looks),
                  .reach = floats ? (float *)(room + r.reach) : NULL,
                  .work = room + r.work,
                  .ids = io->ids,
                  .key = io->step->key,
                  .each = each_bytes(how, how->h, how->w),
                  .channels = channels,
                  .same = ((tones_self *)self)->p->draws.same_on_batch};
  c.copy = c.work + (size_t)threads * c.each;
  int by_sample = jobs.count * jobs.n >= (int64_t)FOR_A_THREAD * threads;
  for (int32_t i = 0; i < jobs.count; i++)
    c.each_copy = job_bytes(&jobs.job[i], 1) > c.each_copy ? job_bytes(&jobs.job[i], 1) : c.each_copy;
  if (by_sample && (rc = par_run(ctx, jobs.count * jobs.n, whole, &c))) return rc;
  for (c.step = 0; !by_sample && c.step < how->steps; c.step++) {
    jobs_of_step(&jobs, c.step, how->steps, c.copy, &some);
    if (tones_may_look(how) && (rc = par_run(ctx, images * jobs.n, look, &c))) return rc;
    if ((rc = aug_rows(ctx, &some, change, &c))) return rc;
  }
  if (c.reach) judge_reach(&c, io->ids, status);
  return SP_OK;
}

TONES_STAGES(TONES_CREATE)
#define TYPE(id, op, words) TONES_TYPE(id, "cpu", words, plan, forward)
TONES_STAGES(TYPE)
static const sp_stage_type *const stages[] = {TONES_STAGES(TONES_POINTER) NULL};

SP_PLUGIN("tones", "Brightness, colours and quality of images changed, and what draws among such changes", stages);
