/* SPDX-License-Identifier: MIT
 * ramp.h - numbers as colours: from dark violet by blue and green to yellow, ever lighter, as Matplotlib's viridis;
 * what is no number is a grey pattern, and no grey is in the ramp. */
#ifndef SP_PLUGINS_RAMP_H
#define SP_PLUGINS_RAMP_H

#include <stddef.h>
#include <stdint.h>

enum { RAMP_CHECK = 4 }; /* pixels of a side of the pattern's squares */

/* t from 0 to 1, what is outside as the nearer end; NaN is the pattern at pixel x, y. */
static inline void ramp_colour(float t, size_t x, size_t y, uint8_t rgb[3]) {
  static const uint8_t stops[9][3] = {{68, 1, 84},    {71, 45, 123},  {59, 82, 139},  {44, 114, 142}, {33, 145, 140},
                                      {40, 174, 128}, {94, 201, 98},  {173, 220, 48}, {253, 231, 37}};
  if (t != t) {
    rgb[0] = rgb[1] = rgb[2] = (x / RAMP_CHECK + y / RAMP_CHECK) % 2 ? 150 : 190;
    return;
  }
  float at = t <= 0 ? 0 : t >= 1 ? 8 : t * 8;
  int i = at >= 8 ? 7 : (int)at;
  for (int k = 0; k < 3; k++)
    rgb[k] = (uint8_t)((float)stops[i][k] + ((float)stops[i + 1][k] - (float)stops[i][k]) * (at - (float)i) + 0.5f);
}

#endif
