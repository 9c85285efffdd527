/* SPDX-License-Identifier: MIT
 * rows.h - rows of parameter tables that stages for images share; `at` is the member's offset, `words` its doc. Needs
 * <spcore/plugin.h> and image.h before. */
#ifndef SP_PLUGINS_IMAGE_ROWS_H
#define SP_PLUGINS_IMAGE_ROWS_H

#define IM_MAX_SIDE 16384 /* pixels of a side of what images are resized to */

#define IM_SIZE_ROW(at, words)                                                                                    \
  {                                                                                                               \
    .name = "size", .type = SP_PARAM_INTS, .offset = at, .def_str = "256", .imin = 1, .imax = IM_MAX_SIDE,        \
    .min_n = 1, .max_n = 2, .unit = "px", .doc = words                                                            \
  }
#define IM_RESIZE_ROW(at, words)                                                                                  \
  {                                                                                                               \
    .name = "resize", .type = SP_PARAM_CHOICE, .offset = at, .idef = IM_SQUASH,                                   \
    .choices = (const char *const[])IM_FITS, .doc = words                                                         \
  }
#define IM_SHORTER_ROW(at, words)                                                                                 \
  {                                                                                                               \
    .name = "shorter", .type = SP_PARAM_INT, .offset = at, .idef = 0, .imin = 0, .imax = IM_MAX_SIDE,             \
    .unit = "px", .doc = words                                                                                    \
  }
#define IM_INTERPOLATION_ROW(at, words)                                                                           \
  {                                                                                                               \
    .name = "interpolation", .type = SP_PARAM_CHOICE, .offset = at, .idef = IM_BILINEAR,                          \
    .choices = (const char *const[])IM_INTERPOLATIONS, .doc = words                                               \
  }
#define IM_ORIENT_ROW(at, words) {.name = "orient", .type = SP_PARAM_BOOL, .offset = at, .idef = 1, .doc = words}
#define IM_GREY_ROW(at, words) {.name = "grey", .type = SP_PARAM_BOOL, .offset = at, .idef = 0, .doc = words}
#define IM_WORKERS_ROW(at, words) \
  {.name = "workers", .type = SP_PARAM_INT, .offset = at, .idef = 2, .imin = 1, .imax = 64, .doc = words}
#define IM_MAX_PIXELS_ROW(at, words)                                                                              \
  {                                                                                                               \
    .name = "max_pixels", .type = SP_PARAM_INT, .offset = at, .idef = 64 << 20, .imin = 1, .imax = IM_MOST_PIXELS, \
    .unit = "px", .doc = words                                                                                    \
  }

#endif
