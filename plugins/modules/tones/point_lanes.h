/* SPDX-License-Identifier: MIT
 * point_lanes.h - functions of point.h for sixteen values at once, with the same bits. */
#ifndef TONES_POINT_LANES_H
#define TONES_POINT_LANES_H

#define LANES 16
#include "../../kits/aug/lanes.h"
#include "point.h"

LANES_FN lanes lanes_clamp(lanes v, float max) {
  v = lanes_if(v < 0.0f, lanes_all(0.0f), v);
  return lanes_if(v > max, lanes_all(max), v);
}

/* point_byte */
LANES_FN lane_ints lanes_bytes(lanes v, float max) {
  v = v / max * 255.999f;
  return lanes_ints(lanes_min(lanes_max(v, lanes_all(0.0f)), lanes_all(255.0f)));
}

LANES_FN lanes lanes_parts(lanes v, lanes *e) {
  const int32_t from = 0x3f3504f3; /* sqrt(1/2) */
  lane_ints power = ((lane_ints)v - from) >> 23;
  *e = lanes_floats(power);
  return (lanes)((lane_ints)v - (power << 23));
}

LANES_FN lanes lanes_log(lanes m) {
  lanes s = (m - 1.0f) / (m + 1.0f), q = s * s, p = (2.0f / 9) * q + 2.0f / 7;
  p = p * q + 2.0f / 5;
  p = p * q + 2.0f / 3;
  p = p * q + 2.0f;
  return p * s;
}

LANES_FN lanes lanes_exp2(lanes v) {
  lanes low = lanes_if(v < -126.0f, lanes_all(-126.0f), v);
  low = lanes_if(low > 126.0f, lanes_all(126.0f), low);
  lanes n = lanes_nearest(low), r = (low - n) * 0.693147182f;
  lanes p = (1.0f / 5040) * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  p = p * (lanes)((lanes_ints(n) + 127) << 23);
  return lanes_if(v < -126.0f, lanes_all(0.0f), p);
}

LANES_FN lanes lanes_gamma(lanes v, float by, float gain, float max) {
  v = v / max;
  lane_ints some = v > 1e-30f;
  lanes e, m = lanes_parts(lanes_if(some, v, lanes_all(1.0f)), &e);
  lanes y = lanes_exp2(by * (e + lanes_log(m) * 1.44269502f));
  y = gain * lanes_if(some, y, lanes_all(by == 0.0f ? 1.0f : 0.0f));
  return lanes_if(y > 1.0f, lanes_all(1.0f), y) * max;
}

/* up: levels / max, down: max / levels. */
LANES_FN lanes lanes_posterize(lanes v, float levels, float up, float down) {
  v = lanes_min(v * up, lanes_all(levels - 1.0f));
  v = lanes_max(v, lanes_all(0.0f));
  return lanes_floats(lanes_ints(v)) * down;
}

LANES_FN void lanes_normal(lane_words a, lane_words b, lanes *x, lanes *y) {
  lanes e, m = lanes_parts(lanes_floats((lane_ints)(a >> 8) + 1) * (1.0f / 16777216.0f), &e);
  lanes far = -2.0f * (e * 0.693147182f + lanes_log(m));
  far = lanes_sqrt(lanes_max(far, lanes_all(0.0f)));
  lanes turn = lanes_floats((lane_ints)b >> 8) * (1.0f / 16777216.0f);
  lanes quarter = lanes_nearest(turn * 4.0f);
  lanes t = (turn - quarter * 0.25f) * 6.28318531f, q = t * t;
  lanes s = (1.0f / 362880) * q + -1.0f / 5040;
  s = s * q + 1.0f / 120;
  s = s * q + -1.0f / 6;
  s = s * q + 1.0f;
  s = s * t;
  lanes c = (1.0f / 40320) * q + -1.0f / 720;
  c = c * q + 1.0f / 24;
  c = c * q + -0.5f;
  c = c * q + 1.0f;
  lane_ints k = lanes_ints(quarter), odd = -(k & 1); /* k: -2 .. 2 */
  lane_ints sine = lanes_int_if(odd, (lane_ints)c, (lane_ints)s),
            cosine = lanes_int_if(odd, (lane_ints)s, (lane_ints)c);
  *x = far * (lanes)(cosine ^ ((k + 1) & 2) << 30); /* the sign's bit */
  *y = far * (lanes)(sine ^ (k & 2) << 30);
}

/* What point_noisy makes of a byte, not yet a byte. */
LANES_FN lanes lanes_noisy_byte(lanes v, lanes z, float sigma, float mean) {
  v = v + (mean + sigma * z) * 255.0f;
  v = lanes_min(lanes_max(v, lanes_all(0.0f)), lanes_all(255.0f));
  return lanes_nearest(v);
}

#endif
