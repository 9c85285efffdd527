/* SPDX-License-Identifier: MIT
 * batch_resized_crop_cpu.c - the stage `batch_resized_crop` on the CPU: a pair of tables a sample, in scratch. */
#include <string.h>

#include "../resize/resize_part.h"
#include "batch_resized_crop.h"

/* Rows that are begun and not done: an output reaches twice its distance to the next one, and a pixel. */
#define LIVE_MOST 4

/* How scratch is cut. */
typedef struct zoom_room {
  size_t boxes, pair, x, floats; /* bytes: of all boxes, of a sample's tables, of the first of them; of a worker */
  size_t tables, lines;          /* where they begin */
} zoom_room;

typedef struct zoom_call {
  zoom_room room;
  char *scratch;
  int32_t out_h, out_w, how;
} zoom_call;

static size_t rounded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* For the largest window, which is the image. */
static zoom_room room_of(const zoom_params *p, int64_t n, int64_t h, int64_t w, int64_t widest) {
  int how = resize_how(&p->filter);
  resize_axis x = resize_axis_of((int32_t)w, (int32_t)p->size.v[p->size.n - 1], how);
  resize_axis y = resize_axis_of((int32_t)h, (int32_t)p->size.v[0], how);
  zoom_room r = {.boxes = rounded((size_t)n * sizeof(zoom_box)), .x = rounded(resize_table_bytes(&x))};
  r.pair = r.x + rounded(resize_table_bytes(&y));
  r.tables = r.boxes + rounded((size_t)n * 2 * sizeof(resize_table));
  r.lines = r.tables + (size_t)n * r.pair;
  r.floats = sizeof(float) * resize_part_floats(&(resize_room){.in_w = w,
                                                               .out_w = x.out,
                                                               .pix = widest,
                                                               .most_x = x.support > 1.0f ? 3 : 2,
                                                               .most_y = how == RESIZE_CUBIC ? cubic_most(&y.cubic) : 0,
                                                               .live = LIVE_MOST,
                                                               .cubic = how == RESIZE_CUBIC});
  return r;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *plan) {
  const zoom_params *p = self;
  int64_t h, w;
  int rc = zoom_check(ctx, p, plan, &h, &w);
  if (rc) return rc;
  zoom_room r = room_of(p, plan->in[AUG_IMAGES].spec->shape[0], h, w, aug_widest(plan));
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  plan->scratch_bytes = r.lines + r.floats * (size_t)(par ? par->threads(ctx) : 1);
  return SP_OK;
}

static zoom_box *boxes_of(const zoom_call *c) { return (zoom_box *)(void *)c->scratch; }
static resize_table *tables_of(const zoom_call *c, int64_t sample) {
  return (resize_table *)(void *)(c->scratch + c->room.boxes) + 2 * sample;
}

static int make_tables(void *arg, int64_t i, int worker) {
  const zoom_call *c = arg;
  const zoom_box *b = &boxes_of(c)[i];
  resize_axis x = resize_axis_of(b->w, c->out_w, c->how), y = resize_axis_of(b->h, c->out_h, c->how);
  char *memory = c->scratch + c->room.tables + (size_t)i * c->room.pair;
  (void)worker;
  resize_table_in(&tables_of(c, i)[0], &x, memory);
  resize_table_in(&tables_of(c, i)[1], &y, memory + c->room.x);
  return SP_OK;
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const zoom_call *c = arg;
  const zoom_box *b = &boxes_of(c)[part->sample];
  const resize_table *t = tables_of(c, part->sample);
  float *lines = (float *)(void *)(c->scratch + c->room.lines + (size_t)worker * c->room.floats);
  resize_part(&(resize_way){&t[0], &t[1], b->top, b->left, b->w}, part, lines);
  return SP_OK;
}

/* Draws the boxes, or takes those that are given; what the status tells must not be read outside before. */
static void set_boxes(const sp_io *io, const zoom_params *p, const zoom_box *given, int64_t n, const zoom_range *range,
                      zoom_box *boxes) {
  int64_t *status = io->out[AUG_STATUS].t->data, value, limit;
  aug_dice dice = aug_dice_of(io, &p->draws);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < n; i++) {
    boxes[i] = given ? given[i] : zoom_draw(&dice, i, range);
    if (!given || !zoom_bad(range, &boxes[i], &value, &limit)) continue;
    aug_note(status, 1, io->ids ? (int64_t)io->ids[i] : i, value, limit);
    boxes[i] = zoom_middle(range);
  }
  void *told = io->out[AUG_DRAWN].t->data;
  if (told) memcpy(told, given ? given : boxes, (size_t)n * sizeof *boxes);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const zoom_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const zoom_box *given = aug_given(ctx, io, "boxes", &rc);
  if (rc) return rc;
  const aug_job *j = jobs.job;
  int64_t widest = 1;
  for (int i = 0; i < jobs.count; i++) widest = jobs.job[i].pix > widest ? jobs.job[i].pix : widest;
  zoom_range range = zoom_range_of(p, j->h, j->w);
  zoom_call c = {room_of(p, jobs.n, j->h, j->w, widest), io->scratch, j->out_h, j->out_w, resize_how(&p->filter)};
  set_boxes(io, p, given, jobs.n, &range, boxes_of(&c));
  rc = par_run(ctx, jobs.n, make_tables, &c);
  return rc ? rc : resize_in_blocks(ctx, &jobs, rows, &c);
}

AUG_CPU_STAGE(zoom, "batch_resized_crop", ZOOM_DOC, SP_STAGE_STOCHASTIC, .status_doc = ZOOM_STATUS_DOC,
              .create = stateless_create, .destroy = stateless_destroy, .plan = plan, .forward = forward);
