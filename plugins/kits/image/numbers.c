/* SPDX-License-Identifier: MIT
 * numbers.c - numbers of pixels of any type; and .npy files of one picture. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "formats.h"
#include "npy.h"

/* ---- types ---- */
static const struct {
  const char *name;
  uint8_t bytes;
} types[] = {[IM_U8] = {"uint8", 1},    [IM_I8] = {"int8", 1},     [IM_U16] = {"uint16", 2}, [IM_I16] = {"int16", 2},
             [IM_U32] = {"uint32", 4},  [IM_I32] = {"int32", 4},   [IM_U64] = {"uint64", 8}, [IM_I64] = {"int64", 8},
             [IM_F16] = {"float16", 2}, [IM_F32] = {"float32", 4}, [IM_F64] = {"float64", 8}};

const char *im_type_name(int type) { return types[type].name; }
size_t im_type_bytes(int type) { return types[type].bytes; }

static float half_of(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  float v = exponent == 31 ? (fraction ? NAN : INFINITY)
            : exponent     ? ldexpf((float)(fraction | 1024), exponent - 25)
                           : ldexpf((float)fraction, -24);
  return h & 0x8000 ? -v : v;
}

#define EACH(T, EXPRESSION)                                  \
  for (size_t i = 0; i < n; i++) {                           \
    T v;                                                     \
    memcpy(&v, (const char *)from + i * sizeof v, sizeof v); \
    to[i] = EXPRESSION;                                      \
  }                                                          \
  return

void im_to_floats(const void *from, int type, size_t n, float *to) {
  switch (type) {
    case IM_U8: EACH(uint8_t, (float)v);
    case IM_I8: EACH(int8_t, (float)v);
    case IM_U16: EACH(uint16_t, (float)v);
    case IM_I16: EACH(int16_t, (float)v);
    case IM_U32: EACH(uint32_t, (float)v);
    case IM_I32: EACH(int32_t, (float)v);
    case IM_U64: EACH(uint64_t, (float)v);
    case IM_I64: EACH(int64_t, (float)v);
    case IM_F16: EACH(uint16_t, half_of(v));
    case IM_F32: EACH(float, v);
    default: EACH(double, (float)v);
  }
}

/* NaN is none of them, either. */
#define WHOLE(T, VALUE)                                                           \
  for (size_t i = 0; i < n; i++) {                                                \
    T v;                                                                          \
    memcpy(&v, (const char *)from + i * sizeof v, sizeof v);                      \
    double x = (double)(VALUE);                                                   \
    if (!(x >= INT32_MIN && x <= INT32_MAX) || x != (double)(int32_t)x) return i; \
    to[i] = (int32_t)x;                                                           \
  }                                                                               \
  return n

size_t im_to_whole(const void *from, int type, size_t n, int32_t *to) {
  switch (type) {
    case IM_U8: WHOLE(uint8_t, v);
    case IM_I8: WHOLE(int8_t, v);
    case IM_U16: WHOLE(uint16_t, v);
    case IM_I16: WHOLE(int16_t, v);
    case IM_U32: WHOLE(uint32_t, v);
    case IM_I32: WHOLE(int32_t, v);
    case IM_U64: WHOLE(uint64_t, v);
    case IM_I64: WHOLE(int64_t, v);
    case IM_F16: WHOLE(uint16_t, half_of(v));
    case IM_F32: WHOLE(float, v);
    default: WHOLE(double, v);
  }
}

/* ---- .npy ---- */
/* Which of three dimensions has the channels: the last or the first; -1: it cannot be told. */
static int channels_of(const int64_t s[3], int wanted) {
  int last = wanted ? s[2] == wanted : s[2] <= 64 && s[2] < s[0] && s[2] < s[1];
  int first = wanted ? s[0] == wanted : s[0] <= 64 && s[0] < s[1] && s[0] < s[2];
  if (wanted && !last && !first) return channels_of(s, 0);
  return last == first ? -1 : last ? 2 : 0;
}

int im_npy_raw(im_decoder *d, struct im_raw *out, size_t *at) {
  const uint8_t *p = d->file.p;
  char words[256], header[IM_NPY_HEADER + 1];
  size_t bytes = 0;
  im_npy a;
  const char *why = im_npy_begin(p, d->size, at, &bytes, words, sizeof words);
  if (!why && d->size - *at < bytes) why = "it ends within its header";
  if (why) return im_say(d, IM_BROKEN, "%s", why);
  memcpy(header, p + *at, bytes);
  header[bytes] = 0;
  *at += bytes;
  if ((why = im_npy_parse(header, &a))) return im_say(d, IM_BROKEN, "%s", why);
  int type = im_npy_type(&a), place = a.ndim == 3 ? channels_of(a.shape, d->channels) : 2;
  const int64_t *s = a.shape;
  im_npy_words(&a, words, sizeof words);
  if (type < 0 || a.ndim < 2 || a.ndim > 3)
    return im_say(d, IM_BROKEN,
                  "it is a NumPy array (.npy) of %s; a picture is H x W, H x W x C or C x H x W of numbers", words);
  if (place < 0)
    return im_say(d, SP_E_DATA,
                  "it holds %.100s, and either the first or the last may be the channels: save it with "
                  "other sides than channels",
                  words);
  int64_t channels = a.ndim == 3 ? s[place] : 1, h = s[place == 0], w = s[1 + (place == 0)], all = im_npy_bytes(&a);
  if (channels < 1 || channels > IM_MOST_CHANNELS || h < 1 || w < 1 || h > INT32_MAX || w > INT32_MAX)
    return im_say(d, IM_BROKEN, "it holds %.100s, which is no picture", words);
  if (all < 0 || (!d->only_head && (uint64_t)all > d->size - *at))
    return im_say(d, IM_BROKEN, "its header says %.100s, and the file has %zu bytes of that: it is cut off", words,
                  d->size - *at);
  int is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  *out = (struct im_raw){(int)w, (int)h, (int)channels, place == 0, type, a.item > 1 && a.big_endian != is_big};
  return SP_OK;
}
