/* SPDX-License-Identifier: MIT
 * exact.h - arithmetic with the same bits on every device: each operation is rounded once, and none is left to a
 * compiler or to a library of mathematics. */
#ifndef SP_PLUGINS_AUG_EXACT_H
#define SP_PLUGINS_AUG_EXACT_H

#include <math.h>

#include <spcore/rng.h>

#ifdef __CUDA_ARCH__ /* nvcc fuses products and sums */
#define AUG_MUL __fmul_rn
#define AUG_ADD __fadd_rn
#define AUG_DIV __fdiv_rn
#define AUG_DMUL __dmul_rn
#define AUG_DADD __dadd_rn
#else
#define AUG_MUL(a, b) ((a) * (b))
#define AUG_ADD(a, b) ((a) + (b))
#define AUG_DIV(a, b) ((a) / (b))
#define AUG_DMUL(a, b) ((a) * (b))
#define AUG_DADD(a, b) ((a) + (b))
#endif

/* e^x for |x| < 700, within 1e-15 of it. */
SP_RNG_FN double aug_exp(double x) {
  double k = rint(x * 1.4426950408889634), r = fma(-k, 6.93147180369123816490e-01, x), y = 1.0;
  int i;
  r = fma(-k, 1.90821492927058770002e-10, r); /* ln 2 in two parts, so that the difference keeps its bits */
  for (i = 14; i > 0; i--) y = fma(y, r / (double)i, 1.0);
  return ldexp(y, (int)k);
}

/* The sine of |way| < 1e5 and so many quarter turns, by the polynomials of fdlibm. */
SP_RNG_FN double aug_sine(double way, int quarters) {
  double n = rint(way * 0.63661977236758134308), r = fma(-n, 0x1.921fb54442d18p0, way), z, v;
  int q = (int)n + quarters;
  r = fma(-n, 0x1.1a62633145c00p-54, r);
  r = fma(-n, 0x1.b839a252049c0p-104, r);
  z = r * r;
  if (q & 1) {
    v = fma(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
    v = fma(z, v, -2.75573143513906633035e-07);
    v = fma(z, v, 2.48015872894767294178e-05);
    v = fma(z, v, -1.38888888888741095749e-03);
    v = fma(z, v, 4.16666666666666019037e-02);
    v = fma(z, v, -0.5);
    v = fma(z, v, 1.0);
  } else {
    v = fma(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
    v = fma(z, v, 2.75573137070700676789e-06);
    v = fma(z, v, -1.98412698298579493134e-04);
    v = fma(z, v, 8.33333333332248946124e-03);
    v = fma(z, v, -1.66666666666666324348e-01);
    v = fma(v, z * r, r);
  }
  return q & 2 ? -v : v;
}

/* Degrees in radians; whole turns, which change nothing, are left out. */
SP_RNG_FN double aug_radians(double degrees) { return fmod(degrees, 360.0) * (3.14159265358979323846 / 180.0); }

#endif
