/* SPDX-License-Identifier: MIT
 * best.h - the class with the largest score, of pixels whose scores lie in one plane a class. */
#ifndef SP_PLUGINS_BEST_H
#define SP_PLUGINS_BEST_H

#include <stdint.h>
#include <string.h>

#define BEST_LANES 256 /* pixels that are compared side by side */

/* Of n pixels, whose scores of the next class lie `plane` numbers behind; the first of equals. */
static inline void best_of_planes(const float *scores, int64_t classes, int64_t plane, int64_t n, uint8_t *labels) {
  float most[BEST_LANES];
  for (int64_t from = 0; from < n; from += BEST_LANES) {
    int64_t m = n - from < BEST_LANES ? n - from : BEST_LANES;
    const float *x = scores + from;
    uint8_t *label = labels + from;
    memcpy(most, x, (size_t)m * sizeof *x);
    memset(label, 0, (size_t)m);
    for (int64_t c = 1; c < classes; c++) {
      x += plane;
      for (int64_t i = 0; i < m; i++) {
        label[i] = x[i] > most[i] ? (uint8_t)c : label[i];
        most[i] = x[i] > most[i] ? x[i] : most[i];
      }
    }
  }
}

#endif
