/* SPDX-License-Identifier: MIT
 * aug.h - what the stages that change images share: ports for a list of images and masks, one set of parameters a
 * sample for all of them, checks of sizes.
 *
 * An image is planes of rows: row-major images have C planes of W elements a row (pix = 1), channels-last ones have one
 * plane of W * C elements a row (pix = C). So most of what is done to a row is the same loop for both.
 */
#ifndef SP_PLUGINS_AUG_H
#define SP_PLUGINS_AUG_H

#include "../stateless.h"

/* The first ports of every such stage, in and out. Random stages then take and give their parameters on AUG_DRAWN, and
 * have AUG_STATUS behind it, for values of that port that only a kernel can see to be wrong. */
enum { AUG_IMAGES, AUG_MASKS, AUG_DRAWN, AUG_STATUS };

#define AUG_MAX 16               /* images and masks of one stage: a kernel gets them all as its argument */
#define AUG_MAX_SIDE (1 << 20)   /* pixels: so that an index in a row fits 32 bits */
#define AUG_MAX_PIXELS (1 << 30) /* and the index of a pixel in a plane as well */
#define AUG_MAX_CHANNELS 1024
#define AUG_MAX_BATCH 65535 /* as many blocks has a grid's second dimension */

/* Of float32: maps of values, which are moved as their bits are; places of their own become NaN. */
#define AUG_MASK_DTYPES (SP_DT(SP_U8) | SP_DT(SP_I32) | SP_DT(SP_I64) | SP_DT(SP_F32))
#define AUG_PORT_IMAGES(words)                                                                                   \
  {                                                                                                              \
    .name = "images", .dtypes = SP_DT(SP_U8) | SP_DT(SP_F32), .ndim = 4, .flags = SP_PORT_LIST | SP_PORT_NOGRAD, \
    .doc = words                                                                                                 \
  }
#define AUG_PORT_MASKS(words)                                                                                         \
  {                                                                                                                   \
    .name = "masks", .dtypes = AUG_MASK_DTYPES, .ndim = 3, .flags = SP_PORT_LIST | SP_PORT_OPTIONAL | SP_PORT_NOGRAD, \
    .doc = words                                                                                                      \
  }
#define AUG_IN_IMAGES AUG_PORT_IMAGES("images of one height and width, N x C x H x W each, row-major or channels-last")
#define AUG_IN_MASKS AUG_PORT_MASKS("label masks or maps of values of the same height and width, N x H x W each")
#define AUG_PORT_STATUS                                                            \
  {                                                                                \
    .name = "status", .dtypes = SP_DT(SP_I64), .ndim = 1, .flags = SP_PORT_STATUS, \
    .doc = "bad values of the port of parameters"                                  \
  }

/* What is drawn for each sample, as it is given and taken. */
#define AUG_PORT_DRAWN(word, type, dims, words) \
  { .name = word, .dtypes = SP_DT(type), .ndim = dims, .flags = SP_PORT_OPTIONAL | SP_PORT_NOGRAD, .doc = words }

/* Height and width that a stage makes: an sp_ints. */
#define AUG_SIZE_PARAM(word, at, more, words)                                                                      \
  {                                                                                                                \
    .name = word, .type = SP_PARAM_INTS, .flags = more, .offset = at, .imin = 1, .imax = AUG_MAX_SIDE, .min_n = 1, \
    .max_n = 2, .unit = "px", .doc = words                                                                         \
  }

/* The first members of the parameters of every random stage, and their entries in its table. */
typedef struct aug_draws {
  int32_t same_on_batch, always;
} aug_draws;
#define AUG_DRAW_PARAMS(holder, member)                                                            \
  {.name = "same_on_batch",                                                                        \
   .type = SP_PARAM_BOOL,                                                                          \
   .offset = offsetof(holder, member.same_on_batch),                                               \
   .doc = "one draw for the whole batch, by the id of its first sample, instead of one a sample"}, \
  {                                                                                                \
    .name = "always", .type = SP_PARAM_BOOL, .offset = offsetof(holder, member.always),            \
    .doc = "draw outside of training too; otherwise evaluations and plain loops leave chance out"  \
  }

/* The stage `called` on a device as a plugin. It takes id_inputs, id_outputs, id_param_table and id_params from the
 * stage's header; behind `more` flags come its callbacks and what else it has, as in an sp_stage_type. */
#define AUG_STAGE(id, called, plugin, where, words, more, ...)                                        \
  static const sp_stage_type id##_type = {.size = sizeof(sp_stage_type),                              \
                                          .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT | (more), \
                                          .name = called,                                             \
                                          .device = where,                                            \
                                          .doc = words,                                               \
                                          .inputs = id##_inputs,                                      \
                                          .outputs = id##_outputs,                                    \
                                          .params = id##_param_table,                                 \
                                          .params_size = sizeof(id##_params),                         \
                                          __VA_ARGS__};                                               \
  static const sp_stage_type *const stages[] = {&id##_type, NULL};                                    \
  SP_PLUGIN(plugin, words, stages)
#define AUG_CPU_STAGE(id, called, words, more, ...) AUG_STAGE(id, called, called, "cpu", words, more, __VA_ARGS__)
#define AUG_CUDA_STAGE(id, called, words, more, ...) \
  AUG_STAGE(id, called, called "_cuda", "cuda", words, more, __VA_ARGS__)

/* One tensor as a kernel sees it. */
typedef struct aug_job {
  const void *in;
  void *out;
  int64_t planes;
  int32_t h, w, pix; /* of the input */
  int32_t out_h, out_w;
  int32_t dtype, out_dtype; /* SP_U8, SP_F32, SP_I32, SP_I64; SP_I32 of maps, whose bits are moved */
  int32_t mask;
} aug_job;

typedef struct aug_jobs {
  int64_t n; /* samples */
  int32_t count;
  aug_job job[AUG_MAX];
} aug_jobs;

/* Checks what is wired: at least one image, all of one N, H and W, known orders. h and w: their size. */
int aug_plan_in(sp_ctx *ctx, const sp_plan *plan, int64_t *h, int64_t *w);
/* Outputs of h x w, as many as there are inputs; images get `dtype`, 0: that of their input. */
int aug_plan_out(sp_plan *plan, int64_t h, int64_t w, int dtype);
/* Elements of a pixel of the widest image, as far as they lie side by side. */
int64_t aug_widest(const sp_plan *plan);
/* The ports AUG_DRAWN and AUG_STATUS: N numbers, or N x columns where columns > 1, of the type of the ports. `what` is
 * the port's name. scratch_bytes holds the drawn values afterwards. */
int aug_plan_drawn(sp_ctx *ctx, sp_plan *plan, int dtype, int64_t columns, const char *what);
/* One such port alone, for stages that have several. */
int aug_plan_port(sp_ctx *ctx, sp_plan *plan, int port, int dtype, int64_t columns, const char *what);

/* What images get in places of their own, one number or one a channel, and what masks get: whether their types have it;
 * bytes: images of bytes stay such. A list of images may have several channel counts: numbers of channels then fit none
 * but one. `what`: the parameter. */
int aug_check_fill(sp_ctx *ctx, const sp_plan *plan, const char *what, const sp_floats *fill, int bytes);
int aug_check_mask_fill(sp_ctx *ctx, const sp_plan *plan, int64_t fill);
/* mask_fill as kernels and loops get it: beside maps a NaN whose last byte is what masks of bytes become. */
int32_t aug_mask_fill(const sp_io *io, int64_t fill);

/* All images of a call, then the masks that somebody reads. */
void aug_jobs_of(const sp_io *io, aug_jobs *jobs);

/* The values that a call is given on AUG_DRAWN; NULL: it draws them, which needs ids: where the graph has none, that is
 * a failure, noted in *rc. */
const void *aug_given(sp_ctx *ctx, const sp_io *io, const char *what, int *rc);
const void *aug_given_on(sp_ctx *ctx, const sp_io *io, int port, const char *what, int *rc);

#endif
