/* SPDX-License-Identifier: MIT
 * tones_cpu_rows.c - one step of rows of a sample on the CPU, in loops that the compiler vectorises. */
#include "../../kits/warp/warp_cpu.h"
#include "point_lanes.h"
#include "tones_cpu.h"

#include <string.h>

/* ---- bytes, one by one ---- */
AUG_VEC static void invert_bytes(uint8_t *restrict y, const uint8_t *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)~x[i];
}
AUG_VEC static void solarize_bytes(uint8_t *restrict y, const uint8_t *restrict x, int64_t n, uint8_t from) {
  for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(x[i] ^ (x[i] >= from ? 0xff : 0));
}
AUG_VEC static void keep_bits(uint8_t *restrict y, const uint8_t *restrict x, int64_t n, uint8_t bits) {
  for (int64_t i = 0; i < n; i++) y[i] = x[i] & bits;
}
static void look_up(uint8_t *restrict y, const uint8_t *restrict x, int64_t n, const uint8_t *restrict table) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t v, r;
    memcpy(&v, x + i, 8);
    r = table[v & 255] | (uint64_t)table[v >> 8 & 255] << 8 | (uint64_t)table[v >> 16 & 255] << 16 |
        (uint64_t)table[v >> 24 & 255] << 24 | (uint64_t)table[v >> 32 & 255] << 32 |
        (uint64_t)table[v >> 40 & 255] << 40 | (uint64_t)table[v >> 48 & 255] << 48 | (uint64_t)table[v >> 56] << 56;
    memcpy(y + i, &r, 8);
  }
  for (; i < n; i++) y[i] = table[x[i]];
}
static void look_up_three(uint8_t *restrict y, const uint8_t *restrict x, int64_t n, const uint8_t table[3][256]) {
  for (int64_t i = 0; i < n; i += 3) {
    y[i] = table[0][x[i]];
    y[i + 1] = table[1][x[i + 1]];
    y[i + 2] = table[2][x[i + 2]];
  }
}

/* ---- floats, one by one ---- */
/* f(v, p) of n values. p.a and p.b are of the channel, which takes turns where channels lie side by side: vector
 * number i has those of i % pix. */
typedef struct each_with {
  lanes a[TONES_BESIDE], b[TONES_BESIDE];
  float levels, up, down, by, gain, max;
} each_with;

#define EACH(name, ...)                                                                          \
  LANES_VEC static void name(float *restrict y, const float *restrict x, int64_t n, int32_t pix, \
                             const each_with *restrict p) {                                      \
    const float max = p->max;                                                                    \
    int64_t i = 0;                                                                               \
    int32_t k = 0;                                                                               \
    for (; i + LANES <= n; i += LANES, k = k + 1 < pix ? k + 1 : 0) {                            \
      const lanes v = lanes_of(x + i), a = p->a[k], b = p->b[k];                                 \
      (void)a, (void)b, (void)max;                                                               \
      lanes_to(y + i, __VA_ARGS__);                                                              \
    }                                                                                            \
    if (i == n) return;                                                                          \
    const lanes v = lanes_some(x + i, n - i), a = p->a[k], b = p->b[k];                          \
    (void)a, (void)b, (void)max;                                                                 \
    lanes_some_to(y + i, __VA_ARGS__, n - i);                                                    \
  }
EACH(solarize_floats, lanes_if(v >= a, max - v, v))
EACH(posterize_floats, lanes_posterize(v, p->levels, p->up, p->down))
EACH(invert_floats, max - v)
EACH(gamma_floats, lanes_gamma(v, p->by, p->gain, max))
EACH(stretch_floats, lanes_clamp((v - a) * b, max))
EACH(blend_floats, lanes_clamp(p->by *v + a, max))

/* equalize: as bytes, and what becomes of each of them. */
LANES_VEC static void as_bytes(int32_t *restrict y, const float *restrict x, int64_t n, float max) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    lane_ints v = lanes_bytes(lanes_of(x + i), max);
    memcpy(y + i, &v, sizeof v);
  }
  for (; i < n; i++) y[i] = point_byte(x[i], max);
}
void tones_bytes(int32_t *y, const float *x, int64_t n, float max) { as_bytes(y, x, n, max); }

static void equalize_floats(float *y, const float *x, int64_t n, int32_t pix, const tones_look *looks, float max) {
  int32_t at[TONES_RUN];
  float made[TONES_BESIDE][256];
  for (int32_t c = 0; c < pix; c++)
    for (int i = 0; i < 256; i++) made[c][i] = point_float(looks[c].table[i], max);
  for (int64_t i = 0, some; i < n; i += some) {
    some = n - i < TONES_RUN ? n - i : TONES_RUN / pix * pix;
    as_bytes(at, x + i, some, max);
    if (pix == 1)
      for (int64_t k = 0; k < some; k++) y[i + k] = made[0][at[k]];
    else
      for (int64_t k = 0; k < some; k += pix)
        for (int32_t c = 0; c < pix; c++) y[i + k + c] = made[c][at[k + c]];
  }
}

/* What the channels of a plane are changed with. */
static each_with each_of(const tones_task *t, int64_t plane) {
  int op = t->step.op;
  int32_t pix = op == TONES_AUTOCONTRAST ? t->job->pix : 1;
  each_with p = {.by = t->step.by, .gain = t->how->gain, .max = t->max};
  for (int c = 0; c < pix; c++) {
    const tones_look *look = &t->looks[op == TONES_CONTRAST ? 0 : plane + c];
    float a = 0.0f, b = 0.0f;
    if (op == TONES_SOLARIZE) a = p.by * p.max;
    if (op == TONES_AUTOCONTRAST) a = look->lo, b = point_scale(&a, look->hi, p.max);
    if (op == TONES_CONTRAST) a = (1.0f - p.by) * look->mean;
    if (pix == 1) p.a[0] = lanes_all(a), p.b[0] = lanes_all(b);
    for (int i = c; pix > 1 && i < pix * LANES; i += pix) p.a[i / LANES][i % LANES] = a, p.b[i / LANES][i % LANES] = b;
  }
  if (op == TONES_POSTERIZE) p.levels = (float)(1 << (int)p.by), p.up = p.levels / p.max, p.down = p.max / p.levels;
  return p;
}

/* Channels that lie side by side, too many of them for vectors of their own: one value after another. */
static void many_channels(const tones_task *t, float *y, const float *x, int64_t n) {
  int32_t pix = t->job->pix;
  for (int64_t i = 0; i < n; i += pix)
    for (int32_t c = 0; c < pix; c++)
      y[i + c] = point_value(t->step.op, t->step.by, t->how->gain, t->max, &t->looks[c], x[i + c]);
}

static void float_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int op = t->step.op, own = op == TONES_AUTOCONTRAST || op == TONES_EQUALIZE;
  int64_t n = (int64_t)j->w * j->pix * (part->to - part->from);
  int32_t pix = own ? j->pix : 1;
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const float *x = aug_in_row(j, part->sample, plane, part->from, sizeof(float));
    float *y = aug_out_row(j, part->sample, plane, part->from, sizeof(float));
    if (pix > TONES_BESIDE) {
      many_channels(t, y, x, n);
      continue;
    }
    if (op == TONES_EQUALIZE) {
      equalize_floats(y, x, n, pix, &t->looks[plane], t->max);
      continue;
    }
    each_with p = each_of(t, plane);
    switch (op) {
      case TONES_SOLARIZE: solarize_floats(y, x, n, pix, &p); break;
      case TONES_POSTERIZE: posterize_floats(y, x, n, pix, &p); break;
      case TONES_INVERT: invert_floats(y, x, n, pix, &p); break;
      case TONES_GAMMA: gamma_floats(y, x, n, pix, &p); break;
      case TONES_AUTOCONTRAST: stretch_floats(y, x, n, pix, &p); break;
      default: blend_floats(y, x, n, pix, &p);
    }
  }
}

/* Bytes: each channel has a table where it has a look of its own. */
static void byte_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int op = t->step.op, own = op == TONES_AUTOCONTRAST || op == TONES_EQUALIZE;
  float by = t->step.by;
  int64_t n = (int64_t)j->w * j->pix * (part->to - part->from);
  int32_t tables = own ? j->pix : 1;
  uint8_t table[3][256];
  for (int64_t plane = 0; plane < j->planes; plane++) {
    const uint8_t *x = aug_in_row(j, part->sample, plane, part->from, 1);
    uint8_t *y = aug_out_row(j, part->sample, plane, part->from, 1);
    if (op == TONES_INVERT) {
      invert_bytes(y, x, n);
      continue;
    }
    for (int32_t c = 0; tables <= 3 && c < tables && (own || plane == 0); c++)
      for (int i = 0; i < 256; i++) table[c][i] = point_entry(op, by, t->how->gain, &t->looks[own ? plane + c : 0], i);
    if (op == TONES_SOLARIZE && by * 255.0f <= 255.0f) {
      int from = 0;
      while (from < 256 && table[0][from] == from) from++;
      if (from == 256) memcpy(y, x, (size_t)n);
      else solarize_bytes(y, x, n, (uint8_t)from);
    } else if (op == TONES_POSTERIZE) keep_bits(y, x, n, table[0][255]);
    else if (tables == 1) look_up(y, x, n, table[0]);
    else if (tables == 3) look_up_three(y, x, n, (const uint8_t(*)[256])table);
    else
      for (int64_t i = 0; i < n; i++) y[i] = point_entry(op, by, t->how->gain, &t->looks[i % j->pix], x[i]);
  }
}

/* ---- colours ---- of planes, and side by side */
#define COLOURS(type, bytes, name)                                                                                    \
  AUG_VEC static void grey_##name(type *restrict r, type *restrict g, type *restrict b, const type *restrict x,       \
                                  const type *restrict y, const type *restrict z, int64_t n) {                        \
    for (int64_t i = 0; i < n; i++)                                                                                   \
      r[i] = g[i] = b[i] = (type)pixel_grey((float)x[i], (float)y[i], (float)z[i], bytes);                            \
  }                                                                                                                   \
  AUG_VEC static void grey_##name##_3(type *restrict y, const type *restrict x, int64_t n) {                          \
    for (int64_t i = 0; i < n; i++)                                                                                   \
      y[3 * i] = y[3 * i + 1] = y[3 * i + 2] =                                                                        \
          (type)pixel_grey((float)x[3 * i], (float)x[3 * i + 1], (float)x[3 * i + 2], bytes);                         \
  }                                                                                                                   \
  AUG_VEC static void colour_##name(type *restrict r, type *restrict g, type *restrict b, const type *restrict x,     \
                                    const type *restrict y, const type *restrict z, int64_t n, float by, float max) { \
    for (int64_t i = 0; i < n; i++) {                                                                                 \
      pixel v = {(float)x[i], (float)y[i], (float)z[i]};                                                              \
      v = pixel_saturate(v, by, bytes, max);                                                                          \
      r[i] = (type)v.r, g[i] = (type)v.g, b[i] = (type)v.b;                                                           \
    }                                                                                                                 \
  }                                                                                                                   \
  AUG_VEC static void colour_##name##_3(type *restrict y, const type *restrict x, int64_t n, float by, float max) {   \
    for (int64_t i = 0; i < n; i++) {                                                                                 \
      pixel v = {(float)x[3 * i], (float)x[3 * i + 1], (float)x[3 * i + 2]};                                          \
      v = pixel_saturate(v, by, bytes, max);                                                                          \
      y[3 * i] = (type)v.r, y[3 * i + 1] = (type)v.g, y[3 * i + 2] = (type)v.b;                                       \
    }                                                                                                                 \
  }
COLOURS(uint8_t, 1, bytes)
COLOURS(float, 0, floats)

static void colour_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int grey = t->step.op == TONES_GREY, bytes = j->dtype == SP_U8;
  int64_t n = (int64_t)(part->to - part->from) * j->w;
  const void *in[3] = {NULL};
  void *out[3] = {NULL};
  for (int64_t c = 0; c < j->planes; c++) {
    in[c] = aug_in_row(j, part->sample, c, part->from, aug_element(j->dtype));
    out[c] = aug_out_row(j, part->sample, c, part->from, aug_element(j->dtype));
  }
  if (j->pix == 3) {
    if (bytes && grey) grey_bytes_3(out[0], in[0], n);
    else if (bytes) colour_bytes_3(out[0], in[0], n, t->step.by, t->max);
    else if (grey) grey_floats_3(out[0], in[0], n);
    else colour_floats_3(out[0], in[0], n, t->step.by, t->max);
  } else {
    if (bytes && grey) grey_bytes(out[0], out[1], out[2], in[0], in[1], in[2], n);
    else if (bytes) colour_bytes(out[0], out[1], out[2], in[0], in[1], in[2], n, t->step.by, t->max);
    else if (grey) grey_floats(out[0], out[1], out[2], in[0], in[1], in[2], n);
    else colour_floats(out[0], out[1], out[2], in[0], in[1], in[2], n, t->step.by, t->max);
  }
}

/* ---- sharpness: elements from .. to of a row, whose neighbours are `pix` away; a, b, c: the rows around it ---- */
AUG_VEC static void sharpen_bytes(uint8_t *restrict y, const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                  int64_t from, int64_t to, int64_t pix, float by, float max) {
  for (int64_t i = from; i < to; i++) {
    int32_t sum = a[i - pix] + a[i] + a[i + pix] + b[i - pix] + b[i] + b[i + pix] + c[i - pix] + c[i] + c[i + pix];
    y[i] = (uint8_t)(int32_t)point_sharpen((float)b[i], point_smooth_byte(sum, b[i]), by, 1, max);
  }
}
AUG_VEC static void sharpen_floats(float *restrict y, const float *a, const float *b, const float *c, int64_t from,
                                   int64_t to, int64_t pix, float by, float max) {
  for (int64_t i = from; i < to; i++) {
    float p[3] = {a[i - pix], a[i], a[i + pix]}, q[3] = {b[i - pix], b[i], b[i + pix]},
          r[3] = {c[i - pix], c[i], c[i + pix]};
    y[i] = point_sharpen(b[i], point_smooth(p, q, r), by, 0, max);
  }
}
/* At the edges nothing is smoothed, but blended all the same. */
static void sharpen_edge(const tones_task *t, void *out, const void *in, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++)
    if (t->job->dtype == SP_U8) {
      float v = ((const uint8_t *)in)[i];
      ((uint8_t *)out)[i] = (uint8_t)point_sharpen(v, v, t->step.by, 1, t->max);
    } else {
      float v = ((const float *)in)[i];
      ((float *)out)[i] = point_sharpen(v, v, t->step.by, 0, t->max);
    }
}

static void sharpen_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int64_t n = (int64_t)j->w * j->pix, pix = j->pix;
  size_t bytes = aug_element(j->dtype);
  for (int64_t plane = 0; plane < j->planes; plane++)
    for (int64_t y = part->from; y < part->to; y++) {
      const void *in = aug_in_row(j, part->sample, plane, y, bytes);
      void *out = aug_out_row(j, part->sample, plane, y, bytes);
      if (y == 0 || y == j->h - 1) {
        sharpen_edge(t, out, in, 0, n);
        continue;
      }
      const char *above = (const char *)in - (size_t)n * bytes, *below = (const char *)in + (size_t)n * bytes;
      sharpen_edge(t, out, in, 0, pix);
      sharpen_edge(t, out, in, n - pix, n);
      if (j->dtype == SP_U8)
        sharpen_bytes(out, (const uint8_t *)above, in, (const uint8_t *)below, pix, n - pix, pix, t->step.by, t->max);
      else sharpen_floats(out, (const float *)above, in, (const float *)below, pix, n - pix, pix, t->step.by, t->max);
    }
}

/* ---- noise: z is of each value ---- */
LANES_VEC static void noisy_bytes(uint8_t *restrict y, const uint8_t *restrict x, const float *restrict z, int64_t n,
                                  float sigma, float mean) {
  float v[TONES_RUN];
  for (int64_t at = 0; at < n; at += TONES_RUN) {
    int64_t some = n - at < TONES_RUN ? n - at : TONES_RUN, i = 0;
    for (int64_t k = 0; k < some; k++) v[k] = (float)x[at + k];
    for (; i + LANES <= some; i += LANES)
      lanes_to(v + i, lanes_noisy_byte(lanes_of(v + i), lanes_of(z + at + i), sigma, mean));
    for (; i < some; i++) v[i] = point_noisy_byte(v[i], z[at + i], sigma, mean);
    for (int64_t k = 0; k < some; k++) y[at + k] = (uint8_t)(int32_t)v[k];
  }
}
AUG_VEC static void noisy_floats(float *restrict y, const float *restrict x, const float *restrict z, int64_t n,
                                 float sigma, float mean, float max) {
  for (int64_t i = 0; i < n; i++) y[i] = point_noisy(x[i], z[i], sigma, mean, max, 0);
}
LANES_VEC static void noisy_cut(float *restrict y, const float *restrict x, const float *restrict z, int64_t n,
                                float sigma, float mean, float max) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    lanes_to(y + i, lanes_clamp(lanes_of(x + i) + (mean + sigma * lanes_of(z + i)) * max, max));
  for (; i < n; i++) y[i] = point_noisy(x[i], z[i], sigma, mean, max, 1);
}
AUG_VEC static void beside_each_other(float *restrict y, const float *restrict a, const float *restrict b,
                                      const float *restrict c, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    y[3 * i] = a[i];
    y[3 * i + 1] = b[i];
    y[3 * i + 2] = c[i];
  }
}

static void noisy(const tones_task *t, void *y, const void *x, const float *z, int64_t n) {
  float sigma = t->step.by, mean = t->how->mean;
  if (t->job->dtype == SP_U8) noisy_bytes(y, x, z, n, sigma, mean);
  else if (t->how->clip) noisy_cut(y, x, z, n, sigma, mean, t->max);
  else noisy_floats(y, x, z, n, sigma, mean, t->max);
}

/* Pixels of a row, so many at a time that the normal numbers of all channels stay near. */
static void noise_row(const tones_task *t, int64_t plane, int64_t y, char *out, const char *in) {
  enum { PIXELS = 256 };
  const aug_job *j = t->job;
  size_t bytes = aug_element(j->dtype);
  float z[3][PIXELS], beside[3 * PIXELS];
  for (int32_t x = 0; x < j->w; x += PIXELS) {
    int32_t n = j->w - x < PIXELS ? j->w - x : PIXELS;
    uint32_t draw = point_noise_draw(y, j->w, x / 4);
    size_t at = (size_t)x * (size_t)j->pix * bytes;
    int together = j->pix == 3;
    for (int32_t c = 0; c < j->pix; c++) {
      float *to = z[together ? c : 0];
      tones_normals(to, point_noise_key(t->key, plane + c), t->id, draw, (n + 3) / 4);
      if (j->pix == 1) noisy(t, out + at, in + at, to, n);
      for (int32_t i = 0; !together && j->pix > 1 && i < n; i++) {
        size_t k = at + ((size_t)i * (size_t)j->pix + (size_t)c) * bytes;
        noisy(t, out + k, in + k, to + i, 1);
      }
    }
    if (!together) continue;
    beside_each_other(beside, z[0], z[1], z[2], n);
    noisy(t, out + at, in + at, beside, 3 * (int64_t)n);
  }
}

static void noise_rows(const tones_task *t, const aug_part *part) {
  size_t bytes = aug_element(t->job->dtype);
  for (int64_t plane = 0; plane < t->job->planes; plane++)
    for (int64_t y = part->from; y < part->to; y++)
      noise_row(t, plane, y, aug_out_row(t->job, part->sample, plane, y, bytes),
                aug_in_row(t->job, part->sample, plane, y, bytes));
}

/* ---- moves ---- */
static void move_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  point_move m = point_move_of(t->step.op, t->step.by, j->h, j->w);
  warp_map map = {.x = {m.xx, m.xy, m.x0}, .y = {m.yx, m.yy, m.y0}, .w = m.w, .h = m.h, .kind = WARP_AFFINE};
  warp_how how = {.mode = WARP_NEAREST, .mask_fill = t->how->mask_fill, .fills = t->how->fills};
  map.left = -m.half_w;
  map.top = -m.half_h;
  memcpy(how.fill, t->how->fill, sizeof how.fill);
  warp_part(part, &how, &map);
}

static void copy_rows(const aug_job *j, const aug_part *part, int64_t plane) {
  size_t bytes = aug_element(j->dtype);
  memcpy(aug_out_row(j, part->sample, plane, part->from, bytes), aug_in_row(j, part->sample, plane, part->from, bytes),
         (size_t)((part->to - part->from) * j->w * j->pix) * bytes);
}

/* y = x where keep has ones, else fill; of values that lie side by side, whose channels repeat after `period` bytes. */
AUG_VEC static void keep_some(uint8_t *restrict y, const uint8_t *restrict x, int64_t n, const uint8_t *restrict keep,
                              const uint8_t *restrict fill, int64_t period) {
  int64_t i = 0;
  for (; i + period <= n; i += period)
    for (int64_t k = 0; k < period; k++) y[i + k] = (x[i + k] & keep[k]) | fill[k];
  for (int64_t k = 0; i < n; i++, k++) y[i] = (x[i] & keep[k]) | fill[k];
}

/* Bits of t->step.by say which channels are filled. */
static void drop_rows(const tones_task *t, const aug_part *part) {
  enum { PIXELS = 32 };
  const aug_job *j = t->job;
  uint32_t dropped = (uint32_t)t->step.by;
  size_t bytes = aug_element(j->dtype), period = PIXELS * (size_t)j->pix * bytes;
  int64_t n = (int64_t)(part->to - part->from) * j->w;
  uint8_t keep[PIXELS * TONES_DROPPED * sizeof(float)], fill[sizeof keep];
  for (int64_t plane = 0; plane < j->planes; plane++) {
    void *out = aug_out_row(j, part->sample, plane, part->from, bytes);
    float v = t->how->fill[plane % t->how->fills];
    if (j->pix == 1 && !(dropped >> plane & 1u)) copy_rows(j, part, plane);
    else if (j->pix == 1 && j->dtype == SP_U8) memset(out, (int)rintf(v), (size_t)n);
    else if (j->pix == 1)
      for (int64_t i = 0; i < n; i++) ((float *)out)[i] = v;
    if (j->pix == 1) continue;
    memset(keep, 255, period);
    memset(fill, 0, period);
    for (int32_t i = 0; i < PIXELS * j->pix; i++) {
      float f = t->how->fill[i % j->pix % t->how->fills];
      uint8_t b = (uint8_t)rintf(f);
      if (!(dropped >> i % j->pix & 1u)) continue;
      memset(keep + (size_t)i * bytes, 0, bytes);
      memcpy(fill + (size_t)i * bytes, j->dtype == SP_U8 ? (const void *)&b : &f, bytes);
    }
    keep_some(out, aug_in_row(j, part->sample, plane, part->from, bytes), n * j->pix * (int64_t)bytes, keep, fill,
              (int64_t)period);
  }
}

void tones_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int64_t channels = j->planes * j->pix;
  int op = t->step.op, alone = channels != 3 && (op == TONES_GREY || op == TONES_COLOUR);
  if (op == TONES_SHARPNESS && (j->h <= 2 || j->w <= 2)) alone = 1;
  if (op == TONES_LEAVE || alone) {
    for (int64_t plane = 0; plane < j->planes; plane++) copy_rows(j, part, plane);
  } else if (tones_moves(op)) {
    move_rows(t, part);
  } else if (op == TONES_DROP) {
    drop_rows(t, part);
  } else if (op == TONES_GREY || op == TONES_COLOUR) {
    colour_rows(t, part);
  } else if (op == TONES_SHARPNESS) {
    sharpen_rows(t, part);
  } else if (op == TONES_NOISE) {
    noise_rows(t, part);
  } else if (j->dtype == SP_U8) {
    byte_rows(t, part);
  } else {
    float_rows(t, part);
  }
}
