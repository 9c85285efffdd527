/* SPDX-License-Identifier: MIT
 * values.c - a picture's numbers, of logits of one channel, to a file, a row at a time: as .npy or TIFF of float32, or
 * as a PNG of 16 bits, in which a number is a whole multiple of values_scale, and 0 says that there is none. */
#include "image_writer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed(iw_values *v, int status, const char *why) {
  snprintf(v->file.why, sizeof v->file.why, "%s", why);
  return status;
}

static uint16_t number_of(iw_values *v, double x) {
  double n = floor(x / v->scale + 0.5);
  if (!isfinite(x)) return v->clipped++, 0;
  if (n < 1) return v->clipped++, 1;
  if (n > UINT16_MAX) return v->clipped++, UINT16_MAX;
  return (uint16_t)n;
}

int iw_values_begin(iw_worker *w, const iw_params *p, const char *path, int width, int height) {
  iw_values *v = &w->values;
  *v = (iw_values){.w = width, .h = height, .npy = iw_is_npy(path), .tiff = iw_is_tiff(path),
                   .file = {.fd = -1}, .numbers = v->numbers,
                   .mean = p->values_mean, .std = p->values_std, .scale = p->values_scale, .least = INFINITY,
                   .most = -INFINITY};
  size_t each = v->tiff ? sizeof(float) : sizeof(uint16_t);
  if (!v->npy && !im_reserve(&v->numbers, (size_t)width * (size_t)height * each))
    return failed(v, SP_E_NOMEM, "no memory");
  if (!v->npy) return SP_OK;
  if (snprintf(v->part, sizeof v->part, "%s.part-%ld", path, (long)getpid()) >= (int)sizeof v->part)
    return failed(v, SP_E_INVALID, "the path is too long");
  return npy_open(&v->file, v->part);
}

int iw_values_row(iw_worker *w, float *row, int y) {
  iw_values *v = &w->values;
  size_t line = (size_t)v->w;
  uint16_t *numbers = v->npy || v->tiff ? NULL : (uint16_t *)v->numbers.p + (size_t)y * line;
  for (size_t x = 0; x < line; x++) {
    double value = (double)row[x] * v->std + v->mean;
    row[x] = (float)value;
    v->least = fminf(v->least, row[x]);
    v->most = fmaxf(v->most, row[x]);
    if (numbers) numbers[x] = number_of(v, value);
  }
  if (v->tiff) memcpy((float *)v->numbers.p + (size_t)y * line, row, line * sizeof *row);
  return v->npy ? npy_put(&v->file, (size_t)y * line * sizeof *row, row, line * sizeof *row) : SP_OK;
}

int iw_values_end(iw_worker *w, const char *path, int rc) {
  iw_values *v = &w->values;
  if (!v->npy && !rc) {
    rc = v->tiff ? im_floats_to_tiff(&w->encoder, v->numbers.p, v->w, v->h)
                 : im_grey16_to_png(&w->encoder, v->numbers.p, v->w, v->h);
    if (!rc) rc = im_save(&w->encoder, path);
    if (rc) failed(v, rc, w->encoder.why);
  }
  if (!v->npy) return rc;
  if (!rc) rc = npy_describe(&v->file, SP_F32, 2, (const int64_t[]){v->h, v->w});
  int closed = npy_close(&v->file);
  if (!rc) rc = closed;
  if (!rc && rename(v->part, path)) rc = failed(v, SP_E_IO, strerror(errno));
  if (rc) unlink(v->part);
  return rc;
}
