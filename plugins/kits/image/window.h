/* SPDX-License-Identifier: MIT
 * window.h - requests of image_requests, which image_writer reads as well: a file, its name, or a window of it. */
#ifndef SP_PLUGINS_IMAGE_WINDOW_H
#define SP_PLUGINS_IMAGE_WINDOW_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <spcore/feed.h>

enum { IM_FORM_FILE, IM_FORM_PATH, IM_FORM_WINDOW }; /* a request's form: what its part holds */

/* The windows of one image come in a row, those of a scale together: number `index` of `count`. The image is scaled to
 * w x h, and the window has its upper left corner at (x, y) there. What is computed of all windows of a scale becomes
 * one picture, and those of all scales one of base_w x base_h. scripts/spcore/windows.lua packs these numbers in front
 * of the file's name. */
typedef struct im_window {
  int32_t index, count, scale, scales, w, h, base_w, base_h;
  int32_t x, y, window_w, window_h;
  int32_t first, last; /* of its scale */
  int32_t flip;        /* it is mirrored: what is computed of it is mirrored back */
} im_window;

/* The file's name that a request holds, and the window: of no other form `window` is touched. 0: the name is too long,
 * or the request makes no sense. */
static inline int im_window_of(const sp_part *part, uint32_t form, im_window *window, char *path, size_t size) {
  const char *name = part->data;
  size_t bytes = part->bytes;
  if (form == IM_FORM_WINDOW) {
    if (bytes < sizeof *window) return 0;
    memcpy(window, name, sizeof *window);
    name += sizeof *window;
    bytes -= sizeof *window;
    const im_window *at = window;
    if (at->base_w < 1 || at->base_h < 1 || at->window_w < 1 || at->window_h < 1 || at->x < 0 || at->y < 0 ||
        at->x > at->w - at->window_w || at->y > at->h - at->window_h || at->index < 0 || at->index >= at->count ||
        at->scale < 0 || at->scale >= at->scales)
      return 0;
  }
  return bytes < size && snprintf(path, size, "%.*s", (int)bytes, name) < (int)size;
}

#endif
