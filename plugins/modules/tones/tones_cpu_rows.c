/* SPDX-License-Identifier: MIT
 * tones_cpu_rows.c - one step of rows of a sample on the CPU, in loops that the compiler vectorises. */
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

/* ---- floats, one by one: `all` are n, every pix-th ---- */
#define EACH(name, ...)                                                                                          \
  AUG_VEC static void name(float *restrict y, const float *restrict x, int64_t n, int32_t pix, float a, float b, \
                           float max) {                                                                          \
    if (pix == 1) {                                                                                              \
      for (int64_t i = 0; i < n; i++) {                                                                          \
        float v = x[i];                                                                                          \
        y[i] = __VA_ARGS__;                                                                                      \
      }                                                                                                          \
      return;                                                                                                    \
    }                                                                                                            \
    for (int64_t i = 0; i < n; i += pix) {                                                                       \
      float v = x[i];                                                                                            \
      y[i] = __VA_ARGS__;                                                                                        \
    }                                                                                                            \
  }
EACH(solarize_floats, ((void)b, PIXEL_IF(v >= a, max - v, v)))
EACH(posterize_floats, ((void)b, point_posterize(v, a, max)))
EACH(invert_floats, ((void)a, (void)b, max - v))
EACH(gamma_floats, point_gamma(v / max, a, b) * max)
EACH(stretch_floats, point_stretch(v, a, b, max))
EACH(blend_floats, pixel_blend(v, a, b, 0, max))

static void equalize_floats(float *y, const float *x, int64_t n, int32_t pix, const uint8_t *table, float max) {
  for (int64_t i = 0; i < n; i += pix) y[i] = point_float(table[point_byte(x[i], max)], max);
}

/* Element by element, with the channel's own look where there is one. */
static void point_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int op = t->step.op, bytes = j->dtype == SP_U8, own = op == TONES_AUTOCONTRAST || op == TONES_EQUALIZE;
  float by = t->step.by, max = t->max;
  int64_t n = (int64_t)j->w * j->pix;
  int32_t tables = own && bytes ? j->pix : 1;
  uint8_t table[3][256];
  for (int64_t plane = 0; plane < j->planes; plane++) {
    for (int32_t c = 0; bytes && tables <= 3 && c < tables; c++)
      for (int i = 0; i < 256; i++) table[c][i] = point_entry(op, by, t->how->gain, &t->looks[own ? plane + c : 0], i);
    for (int64_t row = part->from; row < part->to; row++) {
      const void *in = aug_in_row(j, part->sample, plane, row, aug_element(j->dtype));
      void *out = aug_out_row(j, part->sample, plane, row, aug_element(j->dtype));
      const uint8_t *x = in;
      uint8_t *y = out;
      if (bytes) {
        if (op == TONES_INVERT) invert_bytes(y, x, n);
        else if (op == TONES_SOLARIZE && by * 255.0f <= 255.0f) {
          int from = 0;
          while (from < 256 && table[0][from] == from) from++;
          if (from == 256) memcpy(y, x, (size_t)n);
          else solarize_bytes(y, x, n, (uint8_t)from);
        } else if (op == TONES_POSTERIZE) keep_bits(y, x, n, table[0][255]);
        else if (tables == 1) look_up(y, x, n, table[0]);
        else if (tables == 3) look_up_three(y, x, n, (const uint8_t(*)[256])table);
        else
          for (int64_t i = 0; i < n; i++) y[i] = point_entry(op, by, t->how->gain, &t->looks[i % j->pix], x[i]);
        continue;
      }
      for (int32_t c = 0; c < (own ? j->pix : 1); c++) {
        const float *v = (const float *)in + c;
        float *to = (float *)out + c;
        const tones_look *look = &t->looks[own ? plane + c : 0];
        int32_t pix = own ? j->pix : 1;
        float lo = own ? look->lo : 0.0f;
        switch (op) {
          case TONES_SOLARIZE: solarize_floats(to, v, n, pix, by * max, 0, max); break;
          case TONES_POSTERIZE: posterize_floats(to, v, n, pix, (float)(1 << (int)by), 0, max); break;
          case TONES_INVERT: invert_floats(to, v, n, pix, 0, 0, max); break;
          case TONES_GAMMA: gamma_floats(to, v, n, pix, by, t->how->gain, max); break;
          case TONES_AUTOCONTRAST: {
            float scale = point_scale(&lo, look->hi, max);
            stretch_floats(to, v, n, pix, lo, scale, max);
            break;
          }
          case TONES_EQUALIZE: equalize_floats(to, v, n, pix, look->table, max); break;
          case TONES_BRIGHTNESS: blend_floats(to, v, n, pix, by, 0, max); break;
          default: blend_floats(to, v, n, pix, by, (1.0f - by) * look->mean, max);
        }
      }
    }
  }
}

/* ---- colours: red, green and blue lie `step` apart ---- */
#define COLOURS(type, bytes, step, name)                                                                              \
  AUG_VEC static void grey_##name(type *restrict r, type *restrict g, type *restrict b, const type *restrict x,       \
                                  const type *restrict y, const type *restrict z, int64_t n) {                        \
    for (int64_t i = 0; i < n; i++)                                                                                   \
      r[i * step] = g[i * step] = b[i * step] =                                                                       \
          (type)pixel_grey((float)x[i * step], (float)y[i * step], (float)z[i * step], bytes);                        \
  }                                                                                                                   \
  AUG_VEC static void colour_##name(type *restrict r, type *restrict g, type *restrict b, const type *restrict x,     \
                                    const type *restrict y, const type *restrict z, int64_t n, float by, float max) { \
    for (int64_t i = 0; i < n; i++) {                                                                                 \
      pixel v = {(float)x[i * step], (float)y[i * step], (float)z[i * step]};                                         \
      v = pixel_saturate(v, by, bytes, max);                                                                          \
      r[i * step] = (type)v.r, g[i * step] = (type)v.g, b[i * step] = (type)v.b;                                      \
    }                                                                                                                 \
  }
COLOURS(uint8_t, 1, 1, bytes)
COLOURS(uint8_t, 1, 3, bytes_3)
COLOURS(float, 0, 1, floats)
COLOURS(float, 0, 3, floats_3)

static void colour_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  int grey = t->step.op == TONES_GREY;
  for (int64_t row = part->from; row < part->to; row++) {
    const void *in[3];
    void *out[3];
    size_t bytes = aug_element(j->dtype);
    for (int c = 0; c < 3; c++) {
      in[c] = (const char *)aug_in_row(j, part->sample, j->pix == 3 ? 0 : c, row, bytes) +
              (j->pix == 3 ? (size_t)c * bytes : 0);
      out[c] =
          (char *)aug_out_row(j, part->sample, j->pix == 3 ? 0 : c, row, bytes) + (j->pix == 3 ? (size_t)c * bytes : 0);
    }
#define PLANES out[0], out[1], out[2], in[0], in[1], in[2], j->w
    if (j->dtype == SP_U8 && grey) j->pix == 3 ? grey_bytes_3(PLANES) : grey_bytes(PLANES);
    else if (j->dtype == SP_U8)
      j->pix == 3 ? colour_bytes_3(PLANES, t->step.by, t->max) : colour_bytes(PLANES, t->step.by, t->max);
    else if (grey) j->pix == 3 ? grey_floats_3(PLANES) : grey_floats(PLANES);
    else j->pix == 3 ? colour_floats_3(PLANES, t->step.by, t->max) : colour_floats(PLANES, t->step.by, t->max);
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

/* ---- noise: z is of the pixels, `pix` elements apart ---- */
AUG_VEC static void noisy_bytes(uint8_t *restrict y, const uint8_t *restrict x, const float *restrict z, int64_t n,
                                int64_t pix, float sigma, float mean) {
  if (pix == 1)
    for (int64_t i = 0; i < n; i++) y[i] = point_noisy_byte((float)x[i], z[i], sigma, mean);
  else
    for (int64_t i = 0; i < n; i++) y[i * pix] = point_noisy_byte((float)x[i * pix], z[i], sigma, mean);
}
AUG_VEC static void noisy_floats(float *restrict y, const float *restrict x, const float *restrict z, int64_t n,
                                 int64_t pix, float sigma, float mean, float max, int clip) {
  for (int64_t i = 0; i < n; i++) y[i * pix] = point_noisy(x[i * pix], z[i], sigma, mean, max, clip);
}

static void noise_rows(const tones_task *t, const aug_part *part, float *z) {
  const aug_job *j = t->job;
  size_t bytes = aug_element(j->dtype);
  for (int64_t channel = 0; channel < j->planes * j->pix; channel++)
    for (int64_t y = part->from; y < part->to; y++) {
      int64_t plane = j->pix == 1 ? channel : 0, at = j->pix == 1 ? 0 : channel;
      const void *in = aug_in_row(j, part->sample, plane, y, bytes);
      void *out = aug_out_row(j, part->sample, plane, y, bytes);
      tones_normals(z, point_noise_key(t->key, channel), t->id, point_noise_draw(y, j->w, 0), (j->w + 3) / 4);
      if (j->dtype == SP_U8)
        noisy_bytes((uint8_t *)out + at, (const uint8_t *)in + at, z, j->w, j->pix, t->step.by, t->how->mean);
      else
        noisy_floats((float *)out + at, (const float *)in + at, z, j->w, j->pix, t->step.by, t->how->mean, t->max,
                     t->how->clip);
    }
}

/* ---- moves ---- */
AUG_VEC static void where_from(int32_t *restrict at, const point_move *move, int32_t y, int32_t h, int32_t w) {
  const point_move m = *move;
  for (int32_t x = 0; x < w; x++) at[x] = point_from(&m, x, y, h, w);
}

#define MOVE_ROW(name, type)                                                                                         \
  static void name(void *to, const void *from, const int32_t *at, int32_t w, int32_t pix, const type *fill) {        \
    type *restrict y = to;                                                                                           \
    const type *restrict x = from;                                                                                   \
    if (pix == 1) {                                                                                                  \
      for (int32_t i = 0; i < w; i++) y[i] = at[i] < 0 ? fill[0] : x[at[i]];                                         \
      return;                                                                                                        \
    }                                                                                                                \
    for (int32_t i = 0; i < w; i++)                                                                                  \
      for (int32_t c = 0; c < pix; c++) y[(int64_t)i * pix + c] = at[i] < 0 ? fill[c] : x[(int64_t)at[i] * pix + c]; \
  }
MOVE_ROW(move_bytes, uint8_t)
MOVE_ROW(move_ints, int32_t)
MOVE_ROW(move_floats, float)
MOVE_ROW(move_longs, int64_t)

static void move_rows(const tones_task *t, const aug_part *part, int32_t *at) {
  const aug_job *j = t->job;
  point_move m = point_move_of(t->step.op, t->step.by, j->h, j->w);
  size_t bytes = aug_element(j->dtype);
  for (int32_t y = part->from; y < part->to; y++) {
    where_from(at, &m, y, j->h, j->w);
    for (int64_t plane = 0; plane < j->planes; plane++) {
      const void *in = aug_in_row(j, part->sample, plane, 0, bytes);
      void *out = aug_out_row(j, part->sample, plane, y, bytes);
      uint8_t b[4];
      float f[4];
      for (int c = 0; c < 4; c++) {
        f[c] = j->mask ? 0.0f : t->how->fill[(plane + c) % t->how->fills];
        b[c] = j->mask ? (uint8_t)t->how->mask_fill : (uint8_t)rintf(f[c]);
      }
      if (j->dtype == SP_U8) move_bytes(out, in, at, j->w, j->pix, b);
      else if (j->dtype == SP_F32) move_floats(out, in, at, j->w, j->pix, f);
      else if (j->dtype == SP_I32) move_ints(out, in, at, j->w, j->pix, &t->how->mask_fill);
      else move_longs(out, in, at, j->w, j->pix, &(int64_t){t->how->mask_fill});
    }
  }
}

static void copy_rows(const aug_job *j, const aug_part *part, int64_t plane) {
  size_t bytes = aug_element(j->dtype);
  memcpy(aug_out_row(j, part->sample, plane, part->from, bytes), aug_in_row(j, part->sample, plane, part->from, bytes),
         (size_t)((part->to - part->from) * j->w * j->pix) * bytes);
}

/* Bits of t->step.by say which channels are filled. */
static void drop_rows(const tones_task *t, const aug_part *part) {
  const aug_job *j = t->job;
  uint32_t dropped = (uint32_t)t->step.by;
  int64_t n = (int64_t)(part->to - part->from) * j->w;
  for (int64_t plane = 0; plane < j->planes; plane++) {
    copy_rows(j, part, plane);
    void *out = aug_out_row(j, part->sample, plane, part->from, aug_element(j->dtype));
    for (int32_t c = 0; c < j->pix; c++) {
      int64_t channel = plane + c;
      if (!(dropped >> channel & 1u)) continue;
      float v = t->how->fill[channel % t->how->fills];
      if (j->dtype == SP_F32)
        for (int64_t i = 0; i < n; i++) ((float *)out)[i * j->pix + c] = v;
      else if (j->pix == 1) memset(out, (int)rintf(v), (size_t)n);
      else
        for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[i * j->pix + c] = (uint8_t)rintf(v);
    }
  }
}

void tones_rows(const tones_task *t, const aug_part *part, void *work) {
  const aug_job *j = t->job;
  int64_t channels = j->planes * j->pix;
  int op = t->step.op, alone = channels != 3 && (op == TONES_GREY || op == TONES_COLOUR);
  if (op == TONES_SHARPNESS && (j->h <= 2 || j->w <= 2)) alone = 1;
  if (op == TONES_LEAVE || alone) {
    for (int64_t plane = 0; plane < j->planes; plane++) copy_rows(j, part, plane);
  } else if (tones_moves(op)) {
    move_rows(t, part, work);
  } else if (op == TONES_DROP) {
    drop_rows(t, part);
  } else if (op == TONES_GREY || op == TONES_COLOUR) {
    colour_rows(t, part);
  } else if (op == TONES_SHARPNESS) {
    sharpen_rows(t, part);
  } else if (op == TONES_NOISE) {
    noise_rows(t, part, work);
  } else {
    point_rows(t, part);
  }
}
