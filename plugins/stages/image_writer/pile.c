/* SPDX-License-Identifier: MIT
 * pile.c - see pile.h.
 *
 * Windows come in the order of their numbers, and each is added by rows that no two threads share, so the sums do not
 * depend on how many threads there are, nor on the batch. */
#include "pile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 16 }; /* of an item of work */

typedef struct job {
  iw_self *self;
  im_scores scores; /* of the window, or of a scale */
  const im_window *at;
  int w, h; /* they are enlarged to */
} job;

static int no_memory(const job *j, int64_t item, int worker) {
  char *why = j->self->workers[worker].why;
  snprintf(why, sizeof j->self->workers[worker].why, "no memory for rows of %d scores", j->scores.classes * j->w);
  return im_work_failed(&j->self->work, item, SP_E_NOMEM, why);
}

void iw_pile_free(iw_pile *p) {
  im_buf_free(&p->sum);
  im_buf_free(&p->total);
  im_buf_free(&p->count);
}

/* The rows of one item: of the window's scores at its size, added where they belong, mirrored back. */
static int add_rows(void *arg, int64_t item, int worker) {
  const job *j = arg;
  iw_pile *p = &j->self->pile;
  const im_window *at = j->at;
  im_enlarger *e = &j->self->workers[worker].enlarger;
  if (im_enlarge_begin(e, &j->scores, j->w, j->h, NULL)) return no_memory(j, item, worker);
  size_t line = (size_t)at->w, plane = line * (size_t)at->h;
  int end = (int)(item + 1) * ROWS < j->h ? (int)(item + 1) * ROWS : j->h;
  for (int y = (int)item * ROWS; y < end; y++) {
    const float *row = im_enlarge_row(e, y);
    size_t from = (size_t)(at->y + y) * line + (size_t)at->x;
    for (int c = 0; c < j->scores.classes; c++, row += j->w) {
      float *to = (float *)p->sum.p + (size_t)c * plane + from;
      if (at->flip)
        for (int x = 0; x < j->w; x++) to[x] += row[j->w - 1 - x];
      else
        for (int x = 0; x < j->w; x++) to[x] += row[x];
    }
    uint32_t *count = (uint32_t *)p->count.p + from;
    for (int x = 0; x < j->w; x++) count[x]++;
  }
  return SP_OK;
}

/* The sums of a scale become means. */
static int divide_rows(void *arg, int64_t item, int worker) {
  const job *j = arg;
  iw_pile *p = &j->self->pile;
  const im_window *at = j->at;
  size_t line = (size_t)at->w, plane = line * (size_t)at->h, from = (size_t)item * ROWS * line;
  size_t end = from + ROWS * line < plane ? from + ROWS * line : plane;
  const uint32_t *count = p->count.p;
  (void)worker;
  for (int c = 0; c < j->scores.classes; c++) {
    float *v = (float *)p->sum.p + (size_t)c * plane;
    for (size_t k = from; k < end; k++) v[k] /= (float)(count[k] ? count[k] : 1);
  }
  return SP_OK;
}

/* The means of a scale, at the size of scale 1, are part of the image's. */
static int join_rows(void *arg, int64_t item, int worker) {
  const job *j = arg;
  iw_pile *p = &j->self->pile;
  im_enlarger *e = &j->self->workers[worker].enlarger;
  if (im_enlarge_begin(e, &j->scores, j->w, j->h, NULL)) return no_memory(j, item, worker);
  size_t plane = (size_t)j->w * (size_t)j->h;
  int end = (int)(item + 1) * ROWS < j->h ? (int)(item + 1) * ROWS : j->h;
  for (int y = (int)item * ROWS; y < end; y++) {
    const float *row = im_enlarge_row(e, y);
    for (int c = 0; c < j->scores.classes; c++, row += j->w) {
      float *to = (float *)p->total.p + (size_t)c * plane + (size_t)y * (size_t)j->w;
      for (int x = 0; x < j->w; x++) to[x] += row[x] / (float)j->at->scales;
    }
  }
  return SP_OK;
}

static int by_rows(const iw_batch *b, int h, int (*rows)(void *arg, int64_t item, int worker), job *j) {
  return im_work_run(b->ctx, &b->self->work, b->self->n_workers, (h + ROWS - 1) / ROWS, rows, j);
}

static uint64_t bytes_of(int classes, int w, int h) {
  return (uint64_t)classes * (uint64_t)w * (uint64_t)h * sizeof(float);
}

/* Room for a scale, and for all of them where there are several: cleared with the first window of each.
 * What fails goes to `why`. */
static int begin(const iw_batch *b, const im_window *at, const char *path, int classes, char why[IM_WORDS]) {
  iw_pile *p = &b->self->pile;
  uint64_t sum = bytes_of(classes, at->w, at->h),
           total = at->scales > 1 ? bytes_of(classes, at->base_w, at->base_h) : 0;
  uint64_t mib = (sum + total + (1 << 20) - 1) >> 20;
  if (sum + total > (uint64_t)b->self->p->max_scores << 20) {
    snprintf(why, IM_WORDS,
             "%.700s: %d classes at %d x %d pixels need %" PRIu64 " MiB for their scores, and max_scores is %" PRId64
             "; scale the image to fewer pixels, or give `max_scores = %" PRIu64 "`",
             path, classes, at->w, at->h, mib, b->self->p->max_scores, mib);
    return SP_E_RANGE;
  }
  size_t pixels = (size_t)at->w * (size_t)at->h;
  if (!im_reserve(&p->sum, sum) || !im_reserve(&p->count, pixels * sizeof(uint32_t)) ||
      (total && !im_reserve(&p->total, total))) {
    snprintf(why, IM_WORDS, "%.700s: no memory for its scores: %" PRIu64 " MiB", path, mib);
    return SP_E_NOMEM;
  }
  memset(p->sum.p, 0, sum);
  memset(p->count.p, 0, pixels * sizeof(uint32_t));
  if (total && at->index == 0) memset(p->total.p, 0, total);
  return SP_OK;
}

int iw_pile_add(const iw_batch *b, int64_t i, const im_window *at, const char *path, im_scores *scores) {
  const sp_spec *s = &b->logits->spec;
  iw_pile *p = &b->self->pile;
  job j = {.self = b->self, .at = at, .w = at->window_w, .h = at->window_h};
  int rc;
  j.scores = (im_scores){(const float *)b->logits->data + i * s->shape[1] * s->shape[2] * s->shape[3], (int)s->shape[1],
                         (int)s->shape[3], (int)s->shape[2], s->order == SP_CHANNELS_LAST};
  *scores = (im_scores){.classes = (int)s->shape[1], .w = at->base_w, .h = at->base_h};
  char why[IM_WORDS];
  snprintf(why, sizeof why, "%.700s: another window of this image is missing", path);
  rc = at->index && at->index != p->next ? SP_E_STATE : at->first ? begin(b, at, path, j.scores.classes, why) : SP_OK;
  p->next = rc ? 0 : at->index + 1;
  if (rc) {
    b->f.api->reject(b->f.queue, b->ids[i], rc, why);
    return SP_OK;
  }
  if ((rc = by_rows(b, j.h, add_rows, &j))) return rc;
  if (!at->last) return SP_OK;
  if ((rc = by_rows(b, at->h, divide_rows, &j))) return rc;
  if (at->scales > 1) {
    j = (job){.self = b->self,
              .at = at,
              .w = at->base_w,
              .h = at->base_h,
              .scores = {p->sum.p, scores->classes, at->w, at->h, 0}};
    if ((rc = by_rows(b, j.h, join_rows, &j))) return rc;
  }
  if (at->index + 1 == at->count) scores->v = at->scales > 1 ? p->total.p : p->sum.p;
  return SP_OK;
}
