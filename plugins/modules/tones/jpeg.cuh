/* SPDX-License-Identifier: MIT
 * jpeg.cuh - what JPEG leaves of images on CUDA: a kernel makes all blocks of both kinds of planes, eight threads
 * each, and another one pixels of the planes.
 */
#ifndef TONES_JPEG_CUH
#define TONES_JPEG_CUH

#include "../../kits/aug/kit.cuh"

#define JPEG_INT int32_t
#define JPEG_FN static __device__ __forceinline__
#include "jpeg.h"

enum { JPEG_THREADS = 256, JPEG_BLOCKS = JPEG_THREADS / 8, JPEG_PITCH = 9 };

/* One tensor of one sample. */
template <typename T> struct jpeg_source {
  const T *in;
  int64_t plane;
  int h, w, pix;
  float max;
  __device__ __forceinline__ jpeg_source(const aug_job &j, float white)
      : in(aug_row<T>(j, blockIdx.y, 0, 0)), plane((int64_t)j.h * j.w), h(j.h), w(j.w), pix(j.pix), max(white) {}
  __device__ __forceinline__ int32_t at(int c, int x, int y) const {
    int64_t i = (int64_t)min(y, h - 1) * w + min(x, w - 1);
    T v = pix == 1 ? in[c * plane + i] : in[i * pix + c];
    if (sizeof(T) == 1) return (int32_t)v;
    float f = PIXEL_MUL(PIXEL_DIV((float)v, max), 255.0f);
    return __float2int_rn(f > 0.0f ? f < 255.0f ? f : 255.0f : 0.0f);
  }
  __device__ __forceinline__ int32_t colour(int which, int x, int y) const {
    int32_t r = at(0, x, y), g = at(1, x, y), b = at(2, x, y);
    return which == 0 ? jpeg_bright(r, g, b) : which == 1 ? jpeg_blue(r, g, b) : jpeg_red(r, g, b);
  }
};

static __device__ __forceinline__ int32_t jpeg_quantise(int32_t v, int32_t by) {
  int32_t far = v < 0 ? -v : v, n = (far + 4 * by) / (8 * by) * by;
  return v < 0 ? -n : n;
}

/* Where in memory planes of this block's sample and tensor are. */
static __device__ __forceinline__ uint8_t *jpeg_planes(uint8_t *planes, const jpeg_size &s) {
  return planes + ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * s.bytes;
}

static __device__ __forceinline__ int jpeg_usual(int colour, int i) {
  static const uint8_t usual[2][64] = JPEG_TABLES;
  return usual[colour][i];
}

template <typename T>
static __device__ __forceinline__ void jpeg_block(const aug_job &j, const jpeg_size &s, int quality, float max,
                                                  uint8_t *planes, int32_t (*v)[8][JPEG_PITCH]) {
  jpeg_source<T> from(j, max);
  int lane = (int)threadIdx.x % 8, slot = (int)threadIdx.x / 8, three = j.planes * j.pix == 3;
  int bright = s.pitch / 8 * (s.rows / 8), coloured = s.c_pitch / 8 * (s.c_rows / 8);
  int i = (int)blockIdx.x * JPEG_BLOCKS + slot, which = 0;
  bool there = i < bright + (three ? 2 * coloured : 0);
  if (i >= bright) i -= bright, which = 1;
  if (which && i >= coloured) i -= coloured, which = 2;
  int wide = (which ? s.c_pitch : s.pitch) / 8, by = i / wide, bx = i - by * wide, y = 8 * by + lane;
  int32_t *row = v[slot][lane], *column = &v[slot][0][lane];
  if (there) {
    for (int k = 0; k < 8; k++) {
      int x = 8 * bx + k, value;
      if (which) {
        int cy = 2 * min(y, s.half_h - 1);
        int32_t sum = from.colour(which, 2 * x, cy) + from.colour(which, 2 * x + 1, cy) +
                      from.colour(which, 2 * x, cy + 1) + from.colour(which, 2 * x + 1, cy + 1);
        value = jpeg_of_four(sum, x);
      } else {
        value = three ? from.colour(0, x, y) : from.at(0, x, y);
      }
      row[k] = value - 128;
    }
    jpeg_forward(row, 1, 0);
  }
  __syncthreads();
  if (there) {
    jpeg_forward(column, JPEG_PITCH, 1);
    for (int k = 0; k < 8; k++)
      column[k * JPEG_PITCH] =
          jpeg_quantise(column[k * JPEG_PITCH], jpeg_divisor(jpeg_usual(which > 0, 8 * k + lane), quality));
    jpeg_inverse(column, JPEG_PITCH, 0);
  }
  __syncthreads();
  if (!there) return;
  jpeg_inverse(row, 1, 1);
  int64_t pitch = which ? s.c_pitch : s.pitch;
  uint8_t *out = planes + (which ? (int64_t)s.pitch * s.rows + (which - 1) * pitch * s.c_rows : 0) + y * pitch + 8 * bx;
  for (int k = 0; k < 8; k++) out[k] = (uint8_t)jpeg_cut(row[k] + 128);
}

/* What a byte is in the image. */
static __device__ __forceinline__ uint8_t jpeg_to(uint8_t, int32_t v, float) { return (uint8_t)v; }
static __device__ __forceinline__ float jpeg_to(float, int32_t v, float max) { return point_float(v, max); }

/* Element of channel c at (x, y). */
static __device__ __forceinline__ int32_t jpeg_pixel(const uint8_t *planes, const jpeg_size &s, int three, int c, int x,
                                                     int y) {
  int32_t v = planes[(int64_t)y * s.pitch + x];
  if (!three) return v;
  const uint8_t *blue = planes + (int64_t)s.pitch * s.rows, *red = blue + (int64_t)s.c_pitch * s.c_rows;
  if (c == 0) return jpeg_r(v, jpeg_smooth(red, &s, x, y));
  if (c == 2) return jpeg_b(v, jpeg_smooth(blue, &s, x, y));
  return jpeg_g(v, jpeg_smooth(blue, &s, x, y), jpeg_smooth(red, &s, x, y));
}

#endif
