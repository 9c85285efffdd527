/* SPDX-License-Identifier: MIT
 * kernel_kit.c - maps for tests of kernels.
 */
#include "kernel_kit.h"

#include <stdio.h>

static void *host[256], *device[256];
static int hosts, devices;
static uint32_t state = 12345;

static void *keep_host(size_t bytes) {
  void *p = calloc(1, bytes ? bytes : 1);
  ck_assert_msg(p && hosts < 256, "memory");
  return host[hosts++] = p;
}

static char *keep_device(size_t bytes) {
  void *p = NULL;
  ck_assert_int_eq(cudaMalloc(&p, bytes ? bytes : 1), cudaSuccess);
  ck_assert_int_lt(devices, 256);
  return device[devices++] = p;
}

void kit_free(void) {
  while (hosts) free(host[--hosts]);
  while (devices) ck_assert_int_eq(cudaFree(device[--devices]), cudaSuccess);
}

static uint16_t to_bf16(double v) {
  float f = (float)v;
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static double from_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

double kit_round(double v, int elt) { return elt == NNK_BF16 ? from_bf16(to_bf16(v)) : (double)(float)v; }

kit_value kit_random(int64_t n, int64_t c, int64_t h, int64_t w, int elt) {
  kit_value x = {n, c, h, w, n * c * h * w, keep_host((size_t)(n * c * h * w) * sizeof(double))};
  for (int64_t i = 0; i < x.size; i++) {
    state = state * 1664525u + 1013904223u;
    x.v[i] = kit_round((double)(state >> 8) / 8388608.0 - 1, elt);
  }
  return x;
}

kit_value kit_like(const kit_value *x) {
  kit_value y = *x;
  y.v = keep_host((size_t)x->size * sizeof(double));
  return y;
}

/* Where the map of i, a place in N,C,H,W, keeps that number. */
static int64_t place(const nnk_map *m, int64_t i) {
  int64_t px = m->h * m->w, n = i / px / m->c, c = i / px % m->c, y = i / m->w % m->h, x = i % m->w, at = 0;
  int d = m->layout < 0 ? 0 : m->layout;
  if (m->layout < 0) return i;
  for (int b = 0; b < d; b++) at |= (x >> b & 1) << 2 * b | (y >> b & 1) << (2 * b + 1);
  at += ((y >> d) * (m->w >> d) + (x >> d)) << 2 * d;
  return (n * px + at) * m->c + c;
}

nnk_map kit_up(const kit_value *x, int elt, int layout, int off) {
  size_t each = elt == NNK_BF16 ? 2 : 4, bytes = (size_t)x->size * each;
  char *packed = keep_host(bytes);
  nnk_map m = {keep_device(bytes + (size_t)off * each) + (size_t)off * each, elt, layout, x->n, x->c, x->h, x->w};
  for (int64_t i = 0; i < x->size; i++) {
    float f = (float)x->v[i];
    uint16_t h = to_bf16(x->v[i]);
    memcpy(packed + (size_t)place(&m, i) * each, elt == NNK_BF16 ? (void *)&h : (void *)&f, each);
  }
  ck_assert_int_eq(cudaMemcpy(m.p, packed, bytes, cudaMemcpyHostToDevice), cudaSuccess);
  return m;
}

void *kit_work(size_t bytes) {
  char *p = keep_device(bytes), *garbage = keep_host(bytes);
  memset(garbage, 0xff, bytes);
  ck_assert_int_eq(cudaMemcpy(p, garbage, bytes, cudaMemcpyHostToDevice), cudaSuccess);
  return p;
}

void kit_bytes(void *to, const void *from, size_t bytes) {
  ck_assert_int_eq(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
}

void kit_near(const nnk_map *got, const kit_value *want, double tol, const char *what) {
  size_t each = got->elt == NNK_BF16 ? 2 : 4;
  char *packed = keep_host((size_t)want->size * each);
  double most = 0;
  kit_bytes(packed, got->p, (size_t)want->size * each);
  for (int64_t i = 0; i < want->size; i++) most = fmax(most, fabs(want->v[i]));
  for (int64_t i = 0; i < want->size; i++) {
    float f;
    uint16_t h;
    const char *at = packed + (size_t)place(got, i) * each;
    memcpy(&f, at, each == 4 ? 4 : 0);
    memcpy(&h, at, 2);
    double v = each == 4 ? (double)f : from_bf16(h);
    double allowed = tol * most + (each == 2 && tol > 0 ? fabs(want->v[i]) / 256 : 0);
    if (fabs(v - want->v[i]) <= allowed) continue; /* Check writes to a file for every assertion that holds */
    ck_abort_msg("%s: %g at %lld instead of %g (n %lld c %lld h %lld w %lld, layout %d)", what, v, (long long)i,
                 want->v[i], (long long)got->n, (long long)got->c, (long long)got->h, (long long)got->w, got->layout);
  }
}

static size_t bytes_of(const nnk_map *m) { return (size_t)(m->n * m->c * m->h * m->w) * (m->elt == NNK_BF16 ? 2 : 4); }

const char *kit_copy(const nnk_map *m) {
  char *bytes = keep_host(bytes_of(m));
  kit_bytes(bytes, m->p, bytes_of(m));
  return bytes;
}

void kit_same(const nnk_map *m, const char *bytes, const char *what) {
  ck_assert_msg(memcmp(kit_copy(m), bytes, bytes_of(m)) == 0, "%s: other bits on another number of multiprocessors",
                what);
}

const int kit_devices[KIT_DEVICES] = {KIT_SMS, 1, 132};

int kit_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner) != 0;
  srunner_free(runner);
  return failed;
}
