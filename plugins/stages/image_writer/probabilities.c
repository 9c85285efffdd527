/* SPDX-License-Identifier: MIT
 * probabilities.c - the probabilities of a picture's classes to a file, a row at a time: all of them as .npy, or those
 * of the best classes as a PNG of 16 bits. */
#include "image_writer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed(iw_probabilities *p, int status, const char *why) {
  snprintf(p->file.why, sizeof p->file.why, "%s", why);
  return status;
}

float iw_cut(const iw_params *p) { return (float)log(p->threshold / (1 - p->threshold)); }

int iw_probabilities_begin(iw_worker *w, const iw_params *params, const char *path, int classes, int width,
                           int height) {
  iw_probabilities *p = &w->probabilities;
  *p = (iw_probabilities){.classes = classes,
                          .w = width,
                          .h = height,
                          .npy = iw_is_npy(path),
                          .is_one = params->threshold > 0,
                          .cut = params->threshold > 0 ? iw_cut(params) : 0,
                          .file = {.fd = -1},
                          .best = p->best};
  if (!p->npy && im_reserve(&p->best, (size_t)width * (size_t)height * sizeof(uint16_t))) return SP_OK;
  if (!p->npy) return failed(p, SP_E_NOMEM, "no memory");
  if (snprintf(p->part, sizeof p->part, "%s.part-%ld", path, (long)getpid()) >= (int)sizeof p->part)
    return failed(p, SP_E_INVALID, "the path is too long");
  return npy_open(&p->file, p->part);
}

/* Log odds of 1 become its probability, or where only the label's own is wanted, that of 0 below the cut. */
static void sigmoid(const iw_probabilities *p, float *row) {
  for (int x = 0; x < p->w; x++) {
    int is_zero = !p->npy && !(row[x] >= p->cut);
    row[x] = 1.0f / (1.0f + expf(is_zero ? row[x] : -row[x]));
  }
}

/* The classes' numbers of a pixel lie a row apart; they become probabilities. */
int iw_probabilities_row(iw_worker *w, float *row, int y) {
  iw_probabilities *p = &w->probabilities;
  size_t line = (size_t)p->w, plane = line * (size_t)p->h;
  if (p->is_one) sigmoid(p, row);
  else im_softmax(row, p->classes, p->w);
  if (!p->npy) {
    uint16_t *best = (uint16_t *)p->best.p + (size_t)y * line;
    for (int x = 0; x < p->w; x++) {
      float most = row[x];
      for (int c = 1; c < p->classes; c++)
        if (row[(size_t)c * line + (size_t)x] > most) most = row[(size_t)c * line + (size_t)x];
      best[x] = (uint16_t)(most * 65535.0f + 0.5f);
    }
    return SP_OK;
  }
  int rc = SP_OK;
  for (int c = 0; c < p->classes && !rc; c++, row += line)
    rc = npy_put(&p->file, ((size_t)c * plane + (size_t)y * line) * sizeof *row, row, line * sizeof *row);
  return rc;
}

int iw_probabilities_end(iw_worker *w, const char *path, int rc) {
  iw_probabilities *p = &w->probabilities;
  if (!p->npy && !rc) {
    rc = im_grey16_to_png(&w->encoder, p->best.p, p->w, p->h);
    if (!rc) rc = im_save(&w->encoder, path);
    if (rc) failed(p, rc, w->encoder.why);
  }
  if (!p->npy) return rc;
  if (!rc) rc = npy_describe(&p->file, SP_F32, 3, (const int64_t[]){p->classes, p->h, p->w});
  int closed = npy_close(&p->file);
  if (!rc) rc = closed;
  if (!rc && rename(p->part, path)) rc = failed(p, SP_E_IO, strerror(errno));
  if (rc) unlink(p->part);
  return rc;
}
