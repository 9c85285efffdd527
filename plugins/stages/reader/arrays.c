/* SPDX-License-Identifier: MIT
 * arrays.c - the layout `npy`: images.npy beside labels.npy or masks.npy, a row for each sample; or train_images.npy
 * and val_images.npy with theirs. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "class_file.h"
#include "maps.h"
#include "values.h"

/* ---- rows as images ---- */
/* The array behind a source, and what a row of it is. */
typedef struct rows {
  rd_array array;
  struct im_raw raw;
} rows;

static int rows_name(const rd_table *t, const rd_ref *ref, char *to, size_t size) {
  return snprintf(to, size, "%s, row %" PRIu64, t->bytes + t->sources[ref->source].path, ref->at);
}

static int rows_load(const rd_table *t, const rd_ref *ref, rd_worker *w) {
  const rows *r = t->sources[ref->source].data;
  size_t bytes = (size_t)rd_array_row(&r->array) * (size_t)r->array.is.item;
  void *to = im_room_raw(&w->decoder, r->raw);
  int rc = to ? SP_OK : SP_E_NOMEM;
  if (!to) snprintf(w->decoder.why, sizeof w->decoder.why, "no memory for its %zu bytes", bytes);
  else if (rd_array_read(&r->array, (int64_t)(ref->at * bytes), to, bytes)) {
    rc = SP_E_IO;
    snprintf(w->decoder.why, sizeof w->decoder.why, "%s",
             errno ? strerror(errno) : "the file has become shorter since it was opened");
  }
  return rc ? rd_blame(t, w, rc, ref) : SP_OK;
}

static void rows_close(rd_source *s) {
  rows *r = s->data;
  rd_array_close(&r->array);
  free(r);
}

/* ---- what arrays must be ---- */
static int refuse(sp_ctx *ctx, const char *path, const rd_array *a, const char *want) {
  char is[160];
  im_npy_words(&a->is, is, sizeof is);
  return ctx->host->fail(ctx, SP_E_DATA, "%s holds %s; %s", path, is, want);
}

/* Whether an array of pictures of so many rows and columns may have `n` channels. */
static int may_be_channels(const im_keep_params *keep, int64_t n, int64_t h, int64_t w) {
  if (keep->channels) return n == keep->channels;
  return keep->as == IM_AS_UINT8 ? n == 3 || n == 1 : n <= 64 && n < h && n < w;
}

static int refuse_channels(sp_ctx *ctx, const char *path, const rd_array *a) {
  const int64_t *s = a->is.shape;
  char want[240];
  int64_t least = s[1] < s[3] ? s[1] : s[3];
  if (a->is.ndim == 4 && least <= IM_MOST_CHANNELS)
    snprintf(want, sizeof want,
             "N x H x W x C or N x C x H x W of 1 or 3 channels, or N x H x W, are read; `channels = %" PRId64
             "` reads all of these",
             least);
  else snprintf(want, sizeof want, "images are N x H x W, N x H x W x C or N x C x H x W");
  return refuse(ctx, path, a, want);
}

static int image_rows(sp_ctx *ctx, const im_keep_params *keep, const char *path, rows *r) {
  const rd_array *a = &r->array;
  const int64_t *s = a->is.shape;
  int type = im_npy_type(&a->is), last = a->is.ndim == 4 && may_be_channels(keep, s[3], s[1], s[2]),
      first = a->is.ndim == 4 && may_be_channels(keep, s[1], s[2], s[3]);
  if (type < 0) return refuse(ctx, path, a, "images are numbers: whole ones, or floats of 16, 32 or 64 bits");
  if ((type != IM_U8 || a->is.type != 'u') && keep->as == IM_AS_UINT8)
    return refuse(ctx, path, a,
                  type == IM_U16 ? "images are bytes unless `dtype = \"uint16\"` keeps such numbers"
                                 : "images are bytes unless `dtype = \"float32\"` keeps such numbers");
  if (last && first)
    return refuse(
        ctx, path, a,
        "that is N x H x W x C as well as N x C x H x W, of as many channels: save it with H and W other than "
        "these, or grey as N x H x W");
  if (a->is.ndim != 3 && !last && !first) return refuse_channels(ctx, path, a);
  int64_t h = s[first ? 2 : 1], w = s[first ? 3 : 2], channels = a->is.ndim == 3 ? 1 : s[last ? 3 : 1];
  if (s[0] < 1 || h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX || h * channels > IM_MAX_FILE / a->is.item / w)
    return refuse(ctx, path, a, "a row must be a picture, and have 1 GiB at most");
  int is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  r->raw = (struct im_raw){(int)w, (int)h, (int)channels, first, type, a->is.item > 1 && a->is.big_endian != is_big};
  return SP_OK;
}

/* A number for each pixel; or as many planes as there are classes, one behind the other or side by side. */
static int mask_rows(sp_ctx *ctx, const char *path, rows *r, const rows *images) {
  const rd_array *a = &r->array;
  const struct im_raw *i = &images->raw;
  const int64_t *s = a->is.shape;
  int type = im_npy_type(&a->is), planes = a->is.ndim == 4 && s[2] == i->h && s[3] == i->w; /* N x C x H x W */
  int apart = a->is.ndim == 4 && s[1] == i->h && s[2] == i->w, plain = a->is.ndim == 3 && s[1] == i->h && s[2] == i->w;
  char want[200];
  snprintf(want, sizeof want,
           "masks are whole numbers, and these %" PRId64
           " x %d x %d, as the images are, perhaps with a plane for each class",
           images->array.is.shape[0], i->h, i->w);
  int64_t channels = plain ? 1 : planes ? s[1] : apart ? s[3] : 0;
  if (type < 0 || s[0] != images->array.is.shape[0] || channels < 1 || channels > 255)
    return refuse(ctx, path, a, want);
  if (planes && apart && s[1] != s[3])
    return refuse(ctx, path, a,
                  "either the second or the last of these may be the planes of classes: save the argmax over them");
  int is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  r->raw = (struct im_raw){i->w, i->h, (int)channels, planes, type, a->is.item > 1 && a->is.big_endian != is_big};
  return SP_OK;
}

/* ---- listing ---- */
/* How image_writer calls the files of samples without names. */
static void stem_of(const rd_table *t, const rd_sample *s, char *to, size_t size) {
  (void)t;
  snprintf(to, size, "%05" PRIu64, s->image.at);
}

/* A source of rows; NULL: it has failed. */
static rows *add_rows(rd_listing *l, const char *path, uint32_t *source) {
  rows *r = calloc(1, sizeof *r);
  if (!r || rd_add_source(l->t, RD_ARRAY, path, source)) {
    free(r);
    rd_no_memory(l);
    return NULL;
  }
  r->array.fd = -1;
  l->t->sources[*source].data = r;
  return rd_array_open(l->ctx, path, &r->array) ? NULL : r;
}

/* second: the source of second images; UINT32_MAX: there are none. */
static int add_samples(rd_listing *l, uint32_t images, uint32_t second, uint32_t masks, int64_t n) {
  char name[32];
  for (int64_t i = 0; i < n; i++) {
    rd_sample *s = rd_add_sample(l->t);
    if (!s) return rd_no_memory(l);
    s->image = (rd_ref){.at = (uint64_t)i, .source = images};
    rd_ref *other = second < UINT32_MAX ? rd_add_second(l->t) : NULL;
    if (!other && second < UINT32_MAX) return rd_no_memory(l);
    if (other) *other = (rd_ref){.at = (uint64_t)i, .source = second};
    s->mask = (rd_ref){.at = (uint64_t)i, .source = masks};
    stem_of(l->t, s, name, sizeof name);
    s->key = rd_hash_name(name);
  }
  return SP_OK;
}

static int list_masks(rd_listing *l, const char *path, const rows *images, const uint32_t source[2]) {
  uint32_t masks;
  rows *r = add_rows(l, path, &masks);
  int rc = r ? mask_rows(l->ctx, path, r, images) : SP_E_DATA;
  return rc ? rc : add_samples(l, source[0], source[1], masks, images->array.is.shape[0]);
}

/* The names of arrays of images, without their ending; second: NULL: samples have one. */
static const struct {
  const char *first, *second;
  int is_stereo;
} names[] = {{"images", "images2", 0},
             {"images_a", "images_b", 0},
             {"images_1", "images_2", 0},
             {"images1", "images2", 0},
             {"before", "after", 0},
             {"pre", "post", 0},
             {"t1", "t2", 0},
             {"a", "b", 0},
             {"A", "B", 0},
             {"left", "right", 1},
             {"images_left", "images_right", 1},
             {"left_images", "right_images", 1}};
enum { NAMES = sizeof names / sizeof *names };

static int there(const char *prefix, const char *stem) {
  char path[4096];
  return snprintf(path, sizeof path, "%s%s.npy", prefix, stem) < (int)sizeof path && !access(path, F_OK);
}

/* The row of the two arrays that are there; -1: there is one, or none. */
static int find_two(const char *prefix) {
  int one = there(prefix, "images") ? 1 : NAMES;
  for (int i = 0; i < one; i++)
    if (there(prefix, names[i].first) && there(prefix, names[i].second)) return i;
  return -1;
}

/* The second images; they are as many as the first, of one size and as many channels. */
static int open_seconds(rd_listing *l, const char *first, const char *path, const rows *images, uint32_t *source) {
  rows *r = add_rows(l, path, source);
  int rc = r ? image_rows(l->ctx, &l->p->keep, path, r) : SP_E_DATA;
  if (rc) return rc;
  char is[2][160];
  for (int k = 0; k < 2; k++) im_npy_words(k ? &r->array.is : &images->array.is, is[k], sizeof is[k]);
  const struct im_raw *a = &images->raw, *b = &r->raw;
  if (images->array.is.shape[0] == r->array.is.shape[0] && a->w == b->w && a->h == b->h && a->channels == b->channels)
    return SP_OK;
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s holds %s, and %s %s: row by row they are the two images of a sample, so save both with one shape", first,
      is[0], path, is[1]);
}

/* prefix: of the files' paths. */
static int list_part(rd_listing *l, rd_words *words, const char *prefix, int k) {
  char path[4096], other_path[4096];
  uint32_t source[2] = {0, UINT32_MAX};
  int has_masks = l->t->gives == RD_MASK, two = find_two(prefix);
  if (snprintf(path, sizeof path, "%s%s.npy", prefix, two < 0 ? "images" : names[two].first) >= (int)sizeof path ||
      snprintf(other_path, sizeof other_path, "%s%s.npy", prefix, two < 0 ? "" : names[two].second) >= (int)sizeof path)
    return rd_too_long(l->ctx, prefix, path);
  if (k && (two >= 0) != !!l->t->seconds)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s: one part has two images a sample, the other one has one; give both the same", path);
  rows *images = add_rows(l, path, &source[0]);
  int rc = images ? image_rows(l->ctx, &l->p->keep, path, images) : SP_E_DATA;
  if (!rc && two >= 0) rc = open_seconds(l, path, other_path, images, &source[1]);
  if (rc) return rc;
  if (two >= 0 && !k) rd_note(l, "two images a sample: %s has the first, %s the second", path, other_path);
  if (two >= 0) l->t->is_stereo = names[two].is_stereo;
  const char *truth = l->p->target == RD_TARGET_MAP && there(prefix, "depth")  ? "depth"
                      : l->p->target == RD_TARGET_MAP && there(prefix, "maps") ? "maps"
                      : has_masks                                              ? "masks"
                                                                               : "labels",
             *other = has_masks ? "labels" : "masks";
  if (snprintf(path, sizeof path, "%s%s.npy", prefix, truth) >= (int)sizeof path)
    return rd_too_long(l->ctx, prefix, path);
  if (access(path, F_OK))
    return l->ctx->host->fail(l->ctx, SP_E_NOTFOUND,
                              "%s is missing, which target = \"%s\" wants beside images.npy; of "
                              "%s.npy it reads nothing",
                              path, rd_targets[l->p->target], other);
  rc = has_masks ? list_masks(l, path, images, source)
                 : rd_list_array_labels(l, words, path, images->array.is.shape[0], source);
  l->t->ends[k] = l->t->n;
  return rc;
}

/* ---- the layout ---- */
/* Images, beside labels or masks, with that in front of their names. */
static int has_truth(const char *prefix) {
  return there(prefix, "labels") || there(prefix, "masks") || there(prefix, "depth") || there(prefix, "maps");
}

static int has(const char *dir, const char *front) {
  char prefix[4096];
  if (snprintf(prefix, sizeof prefix, "%s/%s", dir, front) >= (int)sizeof prefix) return 0;
  return there(prefix, "images") || (find_two(prefix) >= 0 && has_truth(prefix));
}

static int has_both(const char *dir) { return has(dir, "train_") && has(dir, "val_"); }

static int arrays_like(const char *dir) { return has(dir, "") || has_both(dir); }

/* What the paths of the parts' files begin with. */
static int find_prefixes(rd_listing *l, char prefix[2][4096]) {
  const char *base = l->p->path;
  int rc = SP_OK, by_name = !has(base, "") && has_both(base);
  if (by_name) {
    rc = rd_check_own(l, "has train_images.npy and val_images.npy, which say");
    l->t->n_parts = 2;
    l->parts[1] = l->parts[0];
  } else if (!has(base, "") || *l->p->val_path) {
    rc = rd_find_parts(l, "images.npy");
  }
  for (int k = 0; !rc && k < l->t->n_parts; k++) {
    const char *rel = !by_name ? l->parts[k].rel : k ? "val_" : "train_";
    if (snprintf(prefix[k], 4096, "%s/%s", l->parts[k].base, rel) >= 4096 - 16) rc = rd_too_long(l->ctx, base, rel);
  }
  return rc;
}

/* prefix: of each part. */
static void look_beside(rd_listing *l, char prefix[2][4096]) {
  static const char *const fronts[] = {"", "train_", "val_"}, *const truths[] = {"labels", "masks", "depth", "maps"};
  char text[3 * 6][64];
  const char *known[3 * 6 + 4] = {"classes.txt", "train", "val"};
  size_t n = 3;
  int two = find_two(prefix[0]);
  for (int i = 0; i < 3; i++) {
    const char *const stems[] = {two < 0 ? "images" : names[two].first, two < 0 ? "images" : names[two].second,
                                 truths[0], truths[1], truths[2], truths[3]};
    for (int k = 0; k < 6; k++) {
      snprintf(text[i * 6 + k], sizeof text[0], "%s%s.npy", fronts[i], stems[k]);
      known[n++] = text[i * 6 + k];
    }
  }
  rd_look_beside(l, 2, known);
}

static int arrays_list(rd_listing *l) {
  char prefix[2][4096];
  rd_words words = {0};
  int rc = find_prefixes(l, prefix);
  l->t->gives = rd_gives(l->p->target);
  for (int k = 0; !rc && k < l->t->n_parts; k++) rc = list_part(l, &words, prefix[k], k);
  if (!rc) look_beside(l, prefix);
  if (!rc && l->t->gives == RD_LABEL) rc = rd_number_words(l, l->p->path, &words, stem_of);
  if (!rc && l->t->gives == RD_NUMBERS) rc = rd_note_constant(l);
  rd_words_free(&words);
  return rc;
}

static int arrays_settle(sp_ctx *ctx, rd_self *self) {
  if (self->p->target == RD_TARGET_MAP) return rd_settle_maps(ctx, self);
  return self->table->gives != RD_MASK ? rd_settle_words(ctx, self) : rd_settle_masks(ctx, self, self->p->path, NULL);
}

const rd_source_kind rd_array_source = {NULL, rows_close, rows_load, rows_name};
const rd_lister rd_arrays = {"npy", RD_TARGET_ANY, arrays_like, arrays_list, arrays_settle, RD_IN_SPLITS};
