/* SPDX-License-Identifier: MIT
 * kernel_kit.h - maps for tests of kernels: N,C,H,W in double on the host, any type and pixel order on the device.
 */
#ifndef KERNEL_KIT_H
#define KERNEL_KIT_H

#include "../../plugins/kits/nn/cuda/kernels.h"

#include <check.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct kit_value {
  int64_t n, c, h, w, size;
  double *v;
} kit_value;

double kit_round(double v, int elt);
/* Numbers of -1 .. 1 that `elt` holds exactly. */
kit_value kit_random(int64_t n, int64_t c, int64_t h, int64_t w, int elt);
kit_value kit_like(const kit_value *x); /* zeros */
/* A map on the device with x's numbers; `off` numbers behind an aligned address. */
nnk_map kit_up(const kit_value *x, int elt, int layout, int off);
void *kit_work(size_t bytes); /* garbage */
void kit_bytes(void *host, const void *device, size_t bytes);
/* Fails unless every number is within tol * the largest wanted one; of bfloat16 one rounding comes on top. */
void kit_near(const nnk_map *got, const kit_value *want, double tol, const char *what);
/* The map's bytes, and whether another one has the same. */
const char *kit_copy(const nnk_map *m);
void kit_same(const nnk_map *m, const char *bytes, const char *what);
/* Multiprocessors of the device that kernels are to run on: few, so that blocks have several tiles. */
enum { KIT_SMS = 4 };
enum { KIT_SHARED = 227 << 10 }; /* and what its blocks have of shared memory */
/* Devices on which a kernel has one block or many. Where they only share out tiles the bits are the same. */
enum { KIT_DEVICES = 3 };
extern const int kit_devices[KIT_DEVICES];
void kit_free(void); /* all of the above */
/* Runs the suite, but not under ThreadSanitizer: one thread computes everything, and it takes minutes.
 * For main() to return. */
int kit_run(Suite *suite);
#define kit_ok(call) ck_assert_msg((call) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess, "%s", #call)

#endif
