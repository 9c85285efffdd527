/* SPDX-License-Identifier: MIT
 * tones_cpu_look.c - what is found out of a channel before it is changed, and normal numbers, on the CPU. */
#include "../../kits/aug/words.h"
#include "point_lanes.h"
#include "tones_cpu.h"

#include <string.h>

enum { MANY = 16 };

/* Sixteen at a time, each with limits of its own, which the compiler vectorises. */
AUG_VEC static void limits(const float *restrict x, int64_t n, float *restrict least, float *restrict most) {
  float lo[MANY], hi[MANY];
  for (int l = 0; l < MANY; l++) lo[l] = least[l], hi[l] = most[l];
  for (int64_t i = 0; i + MANY <= n; i += MANY)
    for (int l = 0; l < MANY; l++) {
      lo[l] = PIXEL_IF(x[i + l] < lo[l], x[i + l], lo[l]);
      hi[l] = PIXEL_IF(x[i + l] > hi[l], x[i + l], hi[l]);
    }
  for (int l = 0; l < MANY; l++) least[l] = lo[l], most[l] = hi[l];
}

AUG_VEC static int outside(const float *restrict x, int64_t n, float lo, float hi) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= (x[i] < lo) | (x[i] > hi);
  return bad;
}

int tones_any_outside(const float *x, int64_t n, float max) {
  return outside(x, n, -tones_slack(max), max + tones_slack(max));
}

void tones_limits(const float *x, int64_t n, float reach[2]) {
  float lo[MANY], hi[MANY];
  for (int l = 0; l < MANY; l++) lo[l] = reach[0], hi[l] = reach[1];
  limits(x, n, lo, hi);
  for (int64_t i = n / MANY * MANY; i < n; i++) {
    lo[0] = x[i] < lo[0] ? x[i] : lo[0];
    hi[0] = x[i] > hi[0] ? x[i] : hi[0];
  }
  for (int l = 0; l < MANY; l++) {
    reach[0] = lo[l] < reach[0] ? lo[l] : reach[0];
    reach[1] = hi[l] > reach[1] ? hi[l] : reach[1];
  }
}

AUG_VEC static void byte_limits(const uint8_t *restrict x, int64_t n, uint8_t *restrict lo, uint8_t *restrict hi) {
  for (int64_t i = 0; i + 32 <= n; i += 32)
    for (int l = 0; l < 32; l++) {
      uint8_t v = x[i + l];
      lo[l] = v < lo[l] ? v : lo[l];
      hi[l] = v > hi[l] ? v : hi[l];
    }
}

/* A channel's first element of row y, and how far its elements are apart. */
static const void *row_of(const aug_job *j, int64_t sample, int64_t channel, int64_t y) {
  size_t bytes = aug_element(j->dtype);
  if (j->pix == 1) return aug_in_row(j, sample, channel, y, bytes);
  return (const char *)aug_in_row(j, sample, 0, y, bytes) + (size_t)channel * bytes;
}

static void find_limits(const tones_task *t, int64_t sample, int64_t channel, tones_look *look) {
  const aug_job *j = t->job;
  int64_t n = j->pix == 1 ? (int64_t)j->h * j->w : (int64_t)j->h * j->w * j->pix;
  const void *all = row_of(j, sample, channel, 0);
  if (j->dtype == SP_F32) {
    const float *x = all;
    look->lo = look->hi = x[0];
    float reach[2] = {x[0], x[0]};
    if (j->pix == 1) tones_limits(x, n, reach);
    for (int64_t i = 0; j->pix > 1 && i < n; i += j->pix) {
      reach[0] = x[i] < reach[0] ? x[i] : reach[0];
      reach[1] = x[i] > reach[1] ? x[i] : reach[1];
    }
    look->lo = reach[0] + 0.0f;
    look->hi = reach[1] + 0.0f;
    return;
  }
  const uint8_t *x = all;
  uint8_t lo[32], hi[32];
  memset(lo, x[0], sizeof lo);
  memset(hi, x[0], sizeof hi);
  if (j->pix == 1) byte_limits(x, n, lo, hi);
  for (int64_t i = j->pix == 1 ? n / 32 * 32 : 0; i < n; i += j->pix) {
    lo[0] = x[i] < lo[0] ? x[i] : lo[0];
    hi[0] = x[i] > hi[0] ? x[i] : hi[0];
  }
  for (int l = 0; l < 32; l++) {
    lo[0] = lo[l] < lo[0] ? lo[l] : lo[0];
    hi[0] = hi[l] > hi[0] ? hi[l] : hi[0];
  }
  look->lo = lo[0];
  look->hi = hi[0];
}

/* Channels side by side take turns in the lanes. */
LANES_VEC static void limits_beside(const float *restrict x, int64_t n, int32_t pix, lanes *restrict least,
                                    lanes *restrict most) {
  lanes lo[TONES_BESIDE], hi[TONES_BESIDE];
  for (int32_t k = 0; k < pix; k++) {
    lo[k] = lanes_of(x);
    for (int l = 0; l < LANES; l++) lo[k][l] = x[(k * LANES + l) % pix];
    hi[k] = lo[k];
  }
  int64_t i = 0;
  for (; i + pix * LANES <= n; i += pix * LANES)
    for (int32_t k = 0; k < pix; k++) {
      lanes v = lanes_of(x + i + k * LANES);
      lo[k] = lanes_min(v, lo[k]);
      hi[k] = lanes_max(v, hi[k]);
    }
  for (int32_t c = 0; i < n; i++, c = c + 1 < pix ? c + 1 : 0) {
    lo[0][c] = x[i] < lo[0][c] ? x[i] : lo[0][c];
    hi[0][c] = x[i] > hi[0][c] ? x[i] : hi[0][c];
  }
  for (int32_t k = 0; k < pix; k++) least[k] = lo[k], most[k] = hi[k];
}

static void find_limits_beside(const aug_job *j, int64_t sample, tones_look *looks) {
  const float *x = aug_in_row(j, sample, 0, 0, sizeof(float));
  int32_t pix = j->pix;
  lanes lo[TONES_BESIDE], hi[TONES_BESIDE];
  limits_beside(x, (int64_t)j->h * j->w * pix, pix, lo, hi);
  for (int32_t c = 0; c < pix; c++) looks[c].lo = looks[c].hi = x[c];
  for (int32_t i = 0; i < pix * LANES; i++) {
    tones_look *to = &looks[i % pix];
    float least = lo[i / LANES][i % LANES], most = hi[i / LANES][i % LANES];
    to->lo = least < to->lo ? least : to->lo;
    to->hi = most > to->hi ? most : to->hi;
  }
  for (int32_t c = 0; c < pix; c++) looks[c].lo += 0.0f, looks[c].hi += 0.0f;
}

/* Four counters of each value, so that equal neighbours do not wait for each other. */
static void count(const tones_task *t, int64_t sample, int64_t channel, tones_look *look) {
  const aug_job *j = t->job;
  uint32_t n[4][256], all[256];
  int64_t elements = (int64_t)j->h * j->w, pix = j->pix;
  const void *from = row_of(j, sample, channel, 0);
  const uint8_t *x = from;
  memset(n, 0, sizeof n);
  if (j->dtype == SP_F32) {
    int32_t at[TONES_RUN];
    int64_t run = pix > TONES_RUN ? 1 : TONES_RUN / pix; /* of all channels beside; where they are many, one by one */
    for (int64_t i = 0; i < elements; i += run) {
      int64_t some = elements - i < run ? elements - i : run;
      tones_bytes(at, (const float *)from + i * pix, (some - 1) * pix + 1, t->max);
      for (int64_t k = 0; k < some; k++) n[k & 3][at[k * pix]]++;
    }
  } else {
    int64_t i = 0;
    for (; i + 4 <= elements; i += 4, x += 4 * pix) {
      n[0][x[0]]++;
      n[1][x[pix]]++;
      n[2][x[2 * pix]]++;
      n[3][x[3 * pix]]++;
    }
    for (; i < elements; i++, x += pix) n[0][*x]++;
  }
  for (int i = 0; i < 256; i++) all[i] = n[0][i] + n[1][i] + n[2][i] + n[3][i];
  point_equalize(all, look->table);
}

static void find_mean(const tones_task *t, int64_t sample, tones_look *look) {
  const aug_job *j = t->job;
  int64_t sum = 0, n = (int64_t)j->w;
  int colours = j->planes * j->pix == 3, bytes = j->dtype == SP_U8;
  for (int64_t y = 0; y < j->h; y++) {
    const void *row[3];
    for (int c = 0; c < 3; c++) row[c] = row_of(j, sample, colours ? c : 0, y);
    int64_t line = 0;
    for (int64_t i = 0; i < n; i++) {
      float v[3];
      for (int c = 0; c < 3; c++)
        v[c] = bytes ? (float)((const uint8_t *)row[c])[i * j->pix] : ((const float *)row[c])[i * j->pix];
      float grey = colours ? pixel_grey(v[0], v[1], v[2], bytes) : v[0];
      line += bytes ? (int64_t)grey : point_grey_sum(grey, t->max);
    }
    sum += line;
  }
  look->mean = bytes ? (float)((double)sum / (double)(j->h * n)) : point_grey_mean(sum, j->h * n, t->max);
}

void tones_look_at(const tones_task *t, int64_t sample, tones_look *looks) {
  const aug_job *j = t->job;
  int few = j->dtype == SP_F32 && j->pix > 1 && j->pix <= TONES_BESIDE;
  if (t->step.op == TONES_CONTRAST) find_mean(t, sample, looks);
  else if (t->step.op == TONES_AUTOCONTRAST && few) find_limits_beside(j, sample, looks);
  else
    for (int64_t channel = 0; channel < j->planes * j->pix; channel++)
      if (t->step.op == TONES_AUTOCONTRAST) find_limits(t, sample, channel, &looks[channel]);
      else count(t, sample, channel, &looks[channel]);
}

/* ---- normal numbers ---- */
LANES_VEC static void normals(float *restrict z, const aug_words *restrict w, int32_t n) {
  _Alignas(32) float v[4][AUG_DRAWS];
  for (int32_t i = 0; i < n; i += LANES)
    for (int k = 0; k < 4; k += 2) {
      lanes x, y;
      lanes_normal(lanes_words(&w->v[k][i]), lanes_words(&w->v[k + 1][i]), &x, &y);
      lanes_to(&v[k][i], x);
      lanes_to(&v[k + 1][i], y);
    }
  for (int32_t i = 0; i < n; i++)
    for (int k = 0; k < 4; k++) z[4 * i + k] = v[k][i];
}

void tones_normals(float *z, uint64_t key, uint64_t id, uint32_t draw, int32_t fours) {
  for (int32_t at = 0; at < fours; at += AUG_DRAWS) {
    aug_words w;
    int32_t n = fours - at < AUG_DRAWS ? fours - at : AUG_DRAWS;
    aug_words_of(&w, key, id, draw + (uint32_t)at, n);
    normals(z + 4 * at, &w, n);
  }
}
