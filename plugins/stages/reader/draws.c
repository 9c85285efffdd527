/* SPDX-License-Identifier: MIT
 * draws.c - how often each sample of the split is drawn: as `sampling` says of its class, or a column or file of it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#include "../../kits/text/text.h"

#define MOST_WEIGHTS ((size_t)1 << 32) /* bytes of a file */

static const char *behind(const char *text, const char *word) {
  size_t n = strlen(word);
  return text && !strncmp(text, word, n) ? text + n : NULL;
}

const char *rd_sampling_column(const rd_params *p) { return behind(p->sampling, "column:"); }
const char *rd_sampling_file(const rd_params *p) { return behind(p->sampling, "file:"); }

uint64_t rd_drawable(const rd_self *self) {
  uint64_t n = 0;
  for (uint64_t i = 0; self->draws && i < self->length; i++) n += self->draws[i] > 0;
  return self->draws ? n : self->length;
}

/* How often classes are to come, relative to each other, of "balanced" or a number for each. */
static int read_shares(sp_ctx *ctx, const rd_self *self, double *share) {
  const char *at = self->p->sampling;
  double sum = 0;
  int64_t n = 0;
  if (!strcmp(at, "balanced")) {
    for (int64_t c = 0; c < self->classes; c++) share[c] = 1;
    return SP_OK;
  }
  for (; *at; n++) {
    char *end;
    double v = strtod(at, &end);
    end += strspn(end, " ");
    if (end == at || (*end && *end != ',') || !(v >= 0 && v <= 1e30))
      return ctx->host->fail(
          ctx, SP_E_INVALID,
          "sampling = \"%s\": \"balanced\" or a number of at least 0 for each class is expected, as in "
          "`sampling = \"1,2,1\"`; or column:NAME of a .csv file, or file:PATH with a number for each sample",
          self->p->sampling);
    if (n < self->classes) share[n] = v;
    sum += v;
    at = *end ? end + 1 : end;
  }
  if (n != self->classes)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "sampling = \"%s\": there are %" PRId64 " classes, and %" PRId64 " number%s",
                           self->p->sampling, self->classes, n, n == 1 ? "" : "s");
  if (sum <= 0)
    return ctx->host->fail(ctx, SP_E_INVALID, "sampling = \"%s\": no class is ever drawn", self->p->sampling);
  return SP_OK;
}

static int64_t label_of(const rd_self *self, uint64_t i) { return self->table->samples[self->list[i]].label; }

static int fill(sp_ctx *ctx, rd_self *self, double *share, uint64_t *count) {
  double sum = 0;
  int rc = read_shares(ctx, self, share);
  for (uint64_t i = 0; i < self->length && !rc; i++) count[label_of(self, i)]++;
  for (uint64_t i = 0; i < self->length && !rc; i++) {
    int64_t c = label_of(self, i);
    self->draws[i] = (float)(share[c] / (double)count[c]);
    sum += self->draws[i];
  }
  if (!rc && !(sum > 0))
    rc = ctx->host->fail(ctx, SP_E_DATA, "sampling = \"%s\": of the classes that are drawn there is no sample",
                         self->p->sampling);
  return rc;
}

static int of_classes(sp_ctx *ctx, rd_self *self) {
  if (!self->table || !(self->gives & RD_LABEL))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "sampling = \"%s\" goes by the class of each image, and %s%s; take `sampling = \"\"`",
                           self->p->sampling, self->p->path,
                           self->table ? " has none with this target" : ", which is made up, has all alike");
  double *share = calloc((size_t)self->classes + 1, sizeof *share);
  uint64_t *count = calloc((size_t)self->classes + 1, sizeof *count);
  int rc = share && count ? fill(ctx, self, share, count)
                          : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRId64 " classes", self->classes);
  free(share);
  free(count);
  return rc;
}

/* ---- of each sample ---- */
static int none_drawn(sp_ctx *ctx, const rd_self *self) {
  return ctx->host->fail(ctx, SP_E_DATA,
                         "sampling = \"%s\": the weights of all %" PRIu64
                         " samples are 0, so that none is ever drawn; give some a number above 0",
                         self->p->sampling, self->length);
}

static int of_column(sp_ctx *ctx, rd_self *self) {
  const rd_lister *l = self->table ? self->table->lister : NULL;
  if (l != &rd_csv_class && l != &rd_csv_labels && l != &rd_csv_maps && l != &rd_csv_masks && l != &rd_csv_numbers)
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "sampling = \"%s\" goes by a column of a .csv file, and %s is none; "
                           "`sampling = \"file:PATH\"` takes a file with a number for each sample",
                           self->p->sampling, self->p->path);
  for (uint64_t i = 0; i < self->length; i++) self->draws[i] = self->table->samples[self->list[i]].weight;
  return rd_drawable(self) ? SP_OK : none_drawn(ctx, self);
}

static int bad_weight(sp_ctx *ctx, const char *path, uint64_t line, const char *text, size_t n) {
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s line %" PRIu64 ": \"%.*s\" is no weight, which is a number of at least 0; "
                         "write one a line, and 0 where a sample is never to be drawn",
                         path, line, (int)(n < 40 ? n : 40), text);
}

/* Numbers of a text, one a line; empty lines and what follows a # are left out. *n: how many there are, of which those
 * that have room in to[most] are taken. */
static int take_weights(sp_ctx *ctx, const char *path, char *text, float *to, uint64_t most, uint64_t *n) {
  uint64_t line = 1;
  for (char *p = text; *p; line++) {
    size_t all = strcspn(p, "\n");
    char *begin = p, *end = p + strcspn(p, "#\n"), *last;
    p += all + (p[all] == '\n');
    text_trim(&begin, &end);
    if (begin == end) continue;
    char after = *end;
    *end = 0;
    float v = strtof(begin, &last);
    if (last != end || !(v >= 0) || !isfinite(v)) return bad_weight(ctx, path, line, begin, (size_t)(end - begin));
    *end = after;
    if (*n < most) to[*n] = v;
    ++*n;
  }
  return SP_OK;
}

static int of_text(sp_ctx *ctx, rd_self *self, const char *path, char *text, float *all) {
  uint64_t n = 0;
  int rc = take_weights(ctx, path, text, all, self->total, &n);
  if (rc) return rc;
  if (n != self->total && n != self->length)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "sampling = \"%s\": the file has %" PRIu64 " number%s, but the data %" PRIu64
                           " samples, of which %" PRIu64 " are in this part: a number a line is wanted for each of the "
                           "ones or of the others, in their order",
                           self->p->sampling, n, n == 1 ? "" : "s", self->total, self->length);
  for (uint64_t i = 0; i < self->length; i++) self->draws[i] = all[n == self->total ? self->list[i] : i];
  return rd_drawable(self) ? SP_OK : none_drawn(ctx, self);
}

static int of_file(sp_ctx *ctx, rd_self *self, const char *path) {
  char why[TEXT_WHY];
  text_file file = {0};
  float *all = calloc(self->total + 1, sizeof *all);
  int rc = all ? SP_OK : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for %" PRIu64 " weights", self->total);
  if (!rc && (rc = text_read(path, MOST_WEIGHTS, 0, &file, why))) rc = ctx->host->fail(ctx, rc, "%s: %s", path, why);
  if (!rc && !file.p)
    rc = ctx->host->fail(ctx, SP_E_NOTFOUND, "sampling = \"%s\": there is no file %s", self->p->sampling, path);
  if (!rc) rc = of_text(ctx, self, path, file.p, all);
  text_free(&file);
  free(all);
  return rc;
}

int rd_make_draws(sp_ctx *ctx, rd_self *self) {
  if (!*self->p->sampling) return SP_OK;
  const char *file = rd_sampling_file(self->p);
  self->draws = calloc(self->length + 1, sizeof *self->draws);
  if (!self->draws)
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for the draws of %" PRIu64 " samples", self->length);
  return file ? of_file(ctx, self, file) : rd_sampling_column(self->p) ? of_column(ctx, self) : of_classes(ctx, self);
}
