/* SPDX-License-Identifier: MIT
 * normal.h - normally distributed numbers of mean 0 and deviation 1, two of two words of the generator, by Box and
 * Muller, in float: the same bits on every device, in loops that compilers vectorise. The largest is 5.77.
 */
#ifndef SP_PLUGINS_AUG_NORMAL_H
#define SP_PLUGINS_AUG_NORMAL_H

#include <string.h>

#include "exact.h"

#ifdef __CUDA_ARCH__
#define AUG_SQRT __fsqrt_rn
#else
#define AUG_SQRT sqrtf
#endif

/* The natural logarithm of n / 2^24 for 1 <= n <= 2^24, to a few units in the last place. */
SP_RNG_FN float aug_log_part(uint32_t n) {
  float m = (float)(int32_t)n, t, z, v;
  int32_t bits, e, high;
  memcpy(&bits, &m, 4);
  e = (bits >> 23) - 127 - 24;
  bits = (bits & 0x7fffff) | 0x3f800000; /* 1 .. 2 */
  high = bits > 0x3fb504f3;              /* above the root of 2: half of it */
  bits -= high << 23;
  e += high;
  memcpy(&m, &bits, 4);
  t = AUG_DIV(AUG_ADD(m, -1.0f), AUG_ADD(m, 1.0f));
  z = AUG_MUL(t, t);
  v = AUG_ADD(AUG_MUL(z, 1.0f / 9.0f), 1.0f / 7.0f);
  v = AUG_ADD(AUG_MUL(z, v), 1.0f / 5.0f);
  v = AUG_ADD(AUG_MUL(z, v), 1.0f / 3.0f);
  v = AUG_MUL(AUG_ADD(t, t), AUG_ADD(AUG_MUL(z, v), 1.0f));
  return AUG_ADD(AUG_MUL((float)e, 0.69314718f), v);
}

SP_RNG_FN void aug_normal(uint32_t a, uint32_t b, float *one, float *other) {
  float r = AUG_SQRT(AUG_MUL(-2.0f, aug_log_part((a >> 8) + 1u)));
  int32_t turn = (int32_t)(b >> 8), q = (turn + (1 << 21)) >> 22; /* quarter turns: the nearest */
  float f = AUG_MUL((float)(turn - (q << 22)), 1.0f / 4194304.0f), z = AUG_MUL(f, f), s, c;
  s = AUG_ADD(AUG_MUL(z, -0.0046817541353f), 0.0796926262462f);
  s = AUG_ADD(AUG_MUL(z, s), -0.6459640975063f);
  s = AUG_MUL(f, AUG_ADD(AUG_MUL(z, s), 1.5707963267949f));
  c = AUG_ADD(AUG_MUL(z, 0.0009192602749f), -0.0208634807634f);
  c = AUG_ADD(AUG_MUL(z, c), 0.2536695079011f);
  c = AUG_ADD(AUG_MUL(z, c), -1.2337005501362f);
  c = AUG_ADD(AUG_MUL(z, c), 1.0f);
  {
    float x = q & 1 ? -s : c, y = q & 1 ? c : s; /* a quarter turn further */
    *one = AUG_MUL(r, q & 2 ? -x : x);
    *other = AUG_MUL(r, q & 2 ? -y : y);
  }
}

#endif
