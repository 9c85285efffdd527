/* SPDX-License-Identifier: MIT
 * exp_neg.h - the exponential function of what is not above 0, and a logarithm, for loops that are vectors.
 * Needs -ffp-contract=off. */
#ifndef SP_PLUGINS_EXP_NEG_H
#define SP_PLUGINS_EXP_NEG_H

#include <stdint.h>
#include <string.h>

/* exp(d) for d <= 0, within 1 ulp; 0 below -87; NaN stays. 2^k * exp(r), |r| <= ln(2)/2, with a polynomial fitted for
 * the least relative error. Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits. */
static inline __attribute__((always_inline)) float exp_neg(float d) {
  const float round = 12582912.0f;
  float z = d < -87.0f ? -87.0f : d;
  float t = z * 1.44269504f + round;
  float k = t - round;
  float r = (z - k * 0.693359375f) - k * -2.12194440e-4f;
  float q = 0.0001979030348593369f;
  q = q * r + 0.0013944704551249743f;
  q = q * r + 0.008333497680723667f;
  q = q * r + 0.04166629537940025f;
  q = q * r + 0.1666666567325592f;
  q = q * r + 0.5f;
  float y = 1.0f + (r + r * r * q);
  uint32_t yi, ti;
  memcpy(&yi, &y, 4);
  memcpy(&ti, &t, 4);
  yi += ti << 23;
  memcpy(&y, &yi, 4);
  return d < -87.0f ? 0.0f : y;
}

/* log(1 + e) for 0 <= e <= 1, within 2 ulp: twice the series of atanh(e / (2 + e)), whose rest is below 1e-9. */
static inline __attribute__((always_inline)) float log1p_unit(float e) {
  float s = e / (2.0f + e), z = s * s, q = 1 / 15.0f;
  q = q * z + 1 / 13.0f;
  q = q * z + 1 / 11.0f;
  q = q * z + 1 / 9.0f;
  q = q * z + 1 / 7.0f;
  q = q * z + 1 / 5.0f;
  q = q * z + 1 / 3.0f;
  return 2 * (s + s * z * q);
}

#endif
