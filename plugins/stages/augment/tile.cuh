/* SPDX-License-Identifier: MIT
 * tile.cuh - tiles of the result of `augment`: what of the window they show, that in shared memory, and the turned
 * pixels made of it. */
#ifndef AUGMENT_TILE_CUH
#define AUGMENT_TILE_CUH

#include "../../kits/aug/kit.cuh"
#include "augment.h"

/* A tile is WIDE x HIGH pixels; a thread makes STRIP rows of four elements of it. BLOCKS of a size that a GPU of
 * compute capability 9.0 has room for at a time; SHARED bytes, with what is declared, fit the 64 KiB of 7.5. */
enum { THREADS = 192, WARPS = THREADS / 32, BLOCKS = 4, ONE_WAVE = 132 * BLOCKS };
enum { WIDE = 64, QUADS = WIDE / 4, HIGH = 24, STRIP = 6, SHARED = 50 * 1024 };
enum { SPAN = 96 };            /* pixels of the resized window that the tables of a tile have room for */
enum { SPOTS = 16, DEEP = 4 }; /* tiles that are looked at together; rows of the patch that a thread fetches */
enum { ANY = -1, LED = 1 << 8 };

typedef aug_quad<float> quad;

/* How a tensor is cut: a tile has a group of channels of WIDE x HIGH pixels. */
struct cut {
  int32_t planes, pix;       /* of a group: in memory apart, or side by side */
  int32_t halo, pitch, rows; /* in shared memory: elements before a row's first pixel, and in all; rows of a plane */
  int32_t patch;             /* floats that it may have */
  int32_t across, down, groups, kind;
  int64_t tiles;
};

/* Which kernel makes images of this kind. */
template <int PLANES, int PIX, typename T> static __host__ __device__ constexpr int kind_of() {
  return (PIX == 3 ? 2 : PLANES == 3) + (sizeof(T) == 1 ? 0 : 3);
}

static constexpr __host__ __device__ int halo_of(int rx, int pix) { return (rx * pix + 3) / 4 * 4; }

/* Floats of the turned pixels of a tile. */
static __host__ __device__ int32_t lay_out(cut *c, const augment_how &how) {
  c->halo = halo_of(how.rx, c->pix);
  c->pitch = WIDE * c->pix + 2 * c->halo;
  c->rows = HIGH + 2 * how.ry;
  return c->planes * c->rows * c->pitch;
}

static __host__ __device__ cut cut_of(const aug_job &j, const augment_how &how) {
  cut c = {};
  c.pix = j.pix == 3 ? 3 : 1;
  c.planes = j.pix == 1 && j.planes % 3 == 0 ? 3 : 1;
  int32_t floats = lay_out(&c, how);
  if (floats * 4 > SHARED) { /* one channel always fits */
    c.pix = c.planes = 1;
    floats = lay_out(&c, how);
  }
  c.kind = (c.pix == 3 ? 2 : c.planes == 3) + (j.dtype == SP_U8 ? 0 : 3);
  c.patch = SHARED / 4 - floats;
  c.across = (j.out_w + WIDE - 1) / WIDE;
  c.down = (j.out_h + HIGH - 1) / HIGH;
  c.groups = (int32_t)(j.planes * j.pix / (c.planes * c.pix));
  c.tiles = (int64_t)c.across * c.down * c.groups;
  return c;
}

/* The layout in shared memory, of which a kernel knows what it can: R is the blur's reach, or ANY. */
template <int R, int PLANES, int PIX> struct lie {
  enum { CHANNELS = PLANES * PIX, DEPTH = CHANNELS == 3 ? 4 : 1 }; /* DEPTH: floats of a pixel of the patch */
  int halo, pitch, plane;
  __device__ __forceinline__ explicit lie(const cut &c)
      : halo(R < 0 ? c.halo : halo_of(R, PIX)), pitch(R < 0 ? c.pitch : WIDE * PIX + 2 * halo_of(R, PIX)),
        plane(pitch * (R < 0 ? c.rows : HIGH + 2 * R)) {}
};

/* The window of a sample. */
template <typename T> struct window {
  int64_t pitch, plane; /* elements */
  int step, right, low; /* elements from pixel to pixel; pixels from the corner to the image's edges */
  bool mean;
};

/* Two by two pixels, in the order of the cpu; the sum of bytes is exact. */
static __device__ __forceinline__ float mean_of(float a, float b, float c, float d) {
  return __fmul_rn(__fadd_rn(__fadd_rn(__fadd_rn(a, b), c), d), 0.25f);
}
static __device__ __forceinline__ float mean_of(int a, int b, int c, int d) {
  return __fmul_rn((float)(a + b + (c + d)), 0.25f);
}
static __device__ __forceinline__ int wide(uint8_t v) { return v; }
static __device__ __forceinline__ float wide(float v) { return v; }

template <typename T>
static __device__ __forceinline__ float cropped(const window<T> &from, const T *channel, int x, int y) {
  const T *a = channel + y * from.pitch + (int64_t)x * from.step;
  if (!from.mean) return (float)*a;
  const T *b = y + 1 < from.low ? a + from.pitch : a;
  int next = x + 1 < from.right ? from.step : 0;
  return mean_of(wide(a[0]), wide(a[next]), wide(b[0]), wide(b[next]));
}

/* Of one axis of a tile: where an output's first input lies in the patch, and how much the second counts. */
struct tap {
  int at;
  float second;
};

/* A column's or row's part of a place. */
struct part {
  float x, y;
};

/* A tile: its first pixel, how many of its pixels are there, and how far around it the blur reaches. */
struct tile {
  int x, y, wide, high, rx, ry;
};

/* What the patch covers. */
struct cover {
  int x, y, nx, ny;      /* pixels of the resized window; none where a tile lies outside */
  int left, top, pw, ph; /* pixels of the window */
  int pitch;             /* pixels from row to row of the patch */
  bool fits;
};

struct spot {
  tile t;
  cover c;
  int channel; /* the first of its group */
};

/* What a block keeps in shared memory: not in as many registers as it has members. */
struct memory {
  aug_job j;
  cut c;
  augment_drawn d;
  rotate_turn turn;
  float w[2][BLUR_WEIGHTS];
  double bell[2][BLUR_WEIGHTS];
  part col[WIDE + BLUR_MAX], row[HIGH + BLUR_MAX];
  tap x[SPAN], y[SPAN];
  spot at[SPOTS];
};

static __device__ __forceinline__ int mirror(int i, int n) {
  i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  return max(0, min(i, n - 1)); /* behind the tile nothing is kept */
}

/* A thread's items, THREADS apart, as row and column of a table of `cols` columns: no division in the loop. */
struct walk {
  int row, col, rows, cols;
  __device__ __forceinline__ explicit walk(int all)
      : row((int)threadIdx.x / all), col((int)threadIdx.x % all), rows(THREADS / all), cols(THREADS % all) {}
  __device__ __forceinline__ void next(int all) {
    row += rows;
    col += cols;
    if (col < all) return;
    col -= all;
    row++;
  }
};

/* A place of the turned image as a pixel of the resized one; the roundings of rotate_x and rotate_y. */
static __device__ __forceinline__ int placed(float column, float row, float size) {
  float g = __fadd_rn(column, row);
  return __float2int_rn(__fmul_rn(__fadd_rn(__fmul_rn(__fadd_rn(g, 1.0f), size), -1.0f), 0.5f));
}

/* Places only grow or only fall along an axis: the corners of a tile say what it covers. */
static __device__ __forceinline__ cover cover_of(const memory &m, const augment_how &how, const tile &t, int depth) {
  const rotate_turn &r = m.turn;
  int xa = max(0, t.x - t.rx), xb = min(m.j.out_w, t.x + t.wide + t.rx) - 1;
  int ya = max(0, t.y - t.ry), yb = min(m.j.out_h, t.y + t.high + t.ry) - 1;
  bool xx = r.xx >= 0, xy = r.xy >= 0, yx = r.yx >= 0, yy = r.yy >= 0;
  int x0 = __float2int_rn(rotate_x(&r, xx ? xa : xb, xy ? ya : yb));
  int x1 = __float2int_rn(rotate_x(&r, xx ? xb : xa, xy ? yb : ya));
  int y0 = __float2int_rn(rotate_y(&r, yx ? xa : xb, yy ? ya : yb));
  int y1 = __float2int_rn(rotate_y(&r, yx ? xb : xa, yy ? yb : ya));
  cover c;
  c.x = max(x0, 0);
  c.y = max(y0, 0);
  c.nx = min(x1, m.j.out_w - 1) - c.x + 1;
  c.ny = min(y1, m.j.out_h - 1) - c.y + 1;
  if (c.nx <= 0 || c.ny <= 0) c.x = c.y = c.nx = c.ny = 0;
  float second;
  c.left = resize_two(&how.x, c.x, &second);
  c.top = resize_two(&how.y, c.y, &second);
  c.pw = c.nx ? min(resize_two(&how.x, c.x + c.nx - 1, &second) + 2, how.x.in) - c.left : 0;
  c.ph = c.ny ? min(resize_two(&how.y, c.y + c.ny - 1, &second) + 2, how.y.in) - c.top : 0;
  c.pitch = depth > 1 ? c.pw | 1 : (c.pw + 1) / 4 * 4 + 2; /* pixels along a slanted line are in different banks */
  int64_t floats = (int64_t)((c.ph + DEEP - 1) / DEEP * DEEP) * c.pitch * depth;
  c.fits = c.nx <= SPAN && c.ny <= SPAN && floats <= m.c.patch;
  return c;
}

/* Tile i, for all threads after the next barrier. */
template <int PLANES, int PIX>
static __device__ __forceinline__ void look_at(memory &m, const augment_how &how, int64_t i, bool blurred) {
  if (i >= m.c.tiles) return;
  int64_t line = i / m.c.across;
  int group = (int)(line / m.c.down);
  spot &at = m.at[threadIdx.x];
  tile t = {(int)(i - line * m.c.across) * WIDE,
            (int)(line - (int64_t)group * m.c.down) * HIGH,
            0,
            0,
            blurred ? how.rx : 0,
            blurred ? how.ry : 0};
  t.wide = min((int)WIDE, m.j.out_w - t.x);
  t.high = min((int)HIGH, m.j.out_h - t.y);
  at.t = t;
  at.c = cover_of(m, how, t, lie<0, PLANES, PIX>::DEPTH);
  at.channel = group * PLANES * PIX;
}

/* The tables that places are made of. */
static __device__ __forceinline__ void make_tables(memory &m, const augment_how &how, const tile &t, const cover &c,
                                                   int depth) {
  const rotate_turn &r = m.turn;
  for (int i = (int)threadIdx.x; i < t.wide + 2 * t.rx; i += THREADS) {
    float x = __fsub_rn((float)mirror(t.x - t.rx + i, m.j.out_w), r.half_w);
    m.col[i] = {__fmul_rn(x, r.xx), __fmul_rn(x, r.yx)};
  }
  for (int i = (int)threadIdx.x; i < t.high + 2 * t.ry; i += THREADS) {
    float y = __fsub_rn((float)mirror(t.y - t.ry + i, m.j.out_h), r.half_h);
    m.row[i] = {__fmul_rn(y, r.xy), __fmul_rn(y, r.yy)};
  }
  if (!c.fits) return;
  for (int i = (int)threadIdx.x; i < c.nx; i += THREADS)
    m.x[i].at = (resize_two(&how.x, c.x + i, &m.x[i].second) - c.left) * depth;
  for (int i = (int)threadIdx.x; i < c.ny; i += THREADS)
    m.y[i].at = (resize_two(&how.y, c.y + i, &m.y[i].second) - c.top) * c.pitch * depth;
}

/* The patch: DEEP rows of a column a thread, so that a row is fetched once for two;
 * rows behind it are not looked at. */
template <int PLANES, int PIX, bool MEAN, typename T>
static __device__ __forceinline__ void fetch(float *patch, const window<T> &from, const T *at, const cover &c) {
  enum { DEPTH = PLANES * PIX == 3 ? 4 : 1 };
  int strips = (c.ph + DEEP - 1) / DEEP, cols = c.pw * PIX, all = strips * PLANES, last = from.low - 1;
  int apart = c.pitch * DEPTH;
  uint32_t pitch = (uint32_t)from.pitch; /* at most 2^30 */
  if (!cols) return;
#pragma unroll 1
  for (walk i(cols); i.row < all; i.next(cols)) {
    int plane = PLANES == 1 ? 0 : (i.row >= strips) + (i.row >= 2 * strips), y = (i.row - plane * strips) * DEEP;
    int column = i.col / PIX, channel = PIX > 1 ? i.col - column * PIX : plane, x = c.left + column;
    const T *a = at + (x * from.step + (PIX > 1 ? channel : 0)), *b;
    if (PLANES > 1) a += plane * from.plane;
    b = a + (x + 1 < from.right ? from.step : 0);
    decltype(wide(T())) u[DEEP + 1], v[DEEP + 1];
#pragma unroll
    for (int k = 0; k < DEEP + MEAN; k++) {
      uint64_t row = (uint64_t)(uint32_t)min(c.top + y + k, last) * pitch;
      u[k] = wide(a[row]);
      if (MEAN) v[k] = wide(b[row]);
    }
    float *to = patch + y * apart + column * DEPTH + channel;
#pragma unroll
    for (int k = 0; k < DEEP; k++) to[k * apart] = MEAN ? mean_of(u[k], v[k], u[k + 1], v[k + 1]) : (float)u[k];
  }
}

static __device__ __forceinline__ float mix(float a, float b, float first, float second) {
  return __fadd_rn(__fmul_rn(a, first), __fmul_rn(b, second));
}

static __device__ __forceinline__ quad quad_at(const float *p) { return *reinterpret_cast<const quad *>(p); }

/* The turned image around a tile, into `loaded`: from the patch. */
template <int R, int PLANES, int PIX>
static __device__ __forceinline__ void turn(float *loaded, const float *patch, const memory &m, const augment_how &how,
                                            const spot &at, bool moves) {
  typedef lie<R, PLANES, PIX> lies;
  enum { CHANNELS = lies::CHANNELS, DEPTH = lies::DEPTH };
  lies l(m.c);
  int cols = at.t.wide + 2 * at.t.rx, rows = at.t.high + 2 * at.t.ry, x0 = at.c.x, y0 = at.c.y;
  unsigned nx = (unsigned)at.c.nx, ny = (unsigned)at.c.ny;
  int apart = PLANES > 1 ? l.plane : 1, down = at.c.pitch * DEPTH;
  float size_x = m.turn.w, size_y = m.turn.h, fill[CHANNELS];
#pragma unroll
  for (int k = 0; k < CHANNELS; k++)
    fill[k] = how.turn.fill[how.turn.fills == 1 ? 0 : (at.channel + k) % how.turn.fills];
  loaded += l.halo - at.t.rx * PIX;
#pragma unroll 1
  for (walk i(cols); i.row < rows; i.next(cols)) {
    part column = m.col[i.col], row = m.row[i.row];
    unsigned x = (unsigned)(placed(column.x, row.x, size_x) - x0), y = (unsigned)(placed(column.y, row.y, size_y) - y0);
    float *to = loaded + i.row * l.pitch + i.col * PIX;
    if (x >= nx || y >= ny) { /* all that is covered, so outside of the image */
#pragma unroll
      for (int k = 0; k < CHANNELS; k++) to[k * apart] = fill[k];
      continue;
    }
    tap tx = m.x[x], ty = m.y[y];
    const float *a = patch + tx.at + ty.at;
    if (!moves) {
#pragma unroll
      for (int k = 0; k < CHANNELS; k++) to[k * apart] = a[k];
      continue;
    }
    const float *b = a + (tx.second > 0.0f ? (int)DEPTH : 0);
    int below = ty.second > 0.0f ? down : 0;
    float ux = __fsub_rn(1.0f, tx.second), uy = __fsub_rn(1.0f, ty.second);
    quad p, q, r, s;
    if (CHANNELS == 3) {
      p = quad_at(a);
      q = quad_at(b);
      r = quad_at(a + below);
      s = quad_at(b + below);
    } else {
      p.v[0] = *a;
      q.v[0] = *b;
      r.v[0] = a[below];
      s.v[0] = b[below];
    }
#pragma unroll
    for (int k = 0; k < CHANNELS; k++)
      to[k * apart] = mix(mix(p.v[k], q.v[k], ux, tx.second), mix(r.v[k], s.v[k], ux, tx.second), uy, ty.second);
  }
}

/* The same from the window, where the patch would be too large. */
template <int R, int PLANES, int PIX, typename T>
static __device__ __forceinline__ void turn_direct(float *loaded, const memory &m, const augment_how &how,
                                                   const window<T> &from, const T *corner, const spot &at, bool moves) {
  lie<R, PLANES, PIX> l(m.c);
  int cols = at.t.wide + 2 * at.t.rx, rows = at.t.high + 2 * at.t.ry;
  loaded += l.halo - at.t.rx * PIX;
#pragma unroll 1
  for (walk i(cols); i.row < rows; i.next(cols)) {
    part column = m.col[i.col], row = m.row[i.row];
    int x = placed(column.x, row.x, m.turn.w), y = placed(column.y, row.y, m.turn.h);
    bool inside = (unsigned)x < (unsigned)m.j.out_w && (unsigned)y < (unsigned)m.j.out_h;
    tap tx = {0, 0.0f}, ty = {0, 0.0f};
    if (inside) {
      tx.at = resize_two(&how.x, x, &tx.second);
      ty.at = resize_two(&how.y, y, &ty.second);
    }
    float ux = __fsub_rn(1.0f, tx.second), uy = __fsub_rn(1.0f, ty.second);
    int right = tx.at + (tx.second > 0.0f), below = ty.at + (ty.second > 0.0f);
#pragma unroll 1
    for (int k = 0; k < PLANES * PIX; k++) {
      const T *channel = corner + (PLANES > 1 ? k * from.plane : k);
      float v = how.turn.fill[how.turn.fills == 1 ? 0 : (at.channel + k) % how.turn.fills];
      if (inside) v = cropped(from, channel, tx.at, ty.at);
      if (inside && moves)
        v = mix(mix(v, cropped(from, channel, right, ty.at), ux, tx.second),
                mix(cropped(from, channel, tx.at, below), cropped(from, channel, right, below), ux, tx.second), uy,
                ty.second);
      loaded[(PLANES > 1 ? k * l.plane : k) + i.row * l.pitch + i.col * PIX] = v;
    }
  }
}

#endif
