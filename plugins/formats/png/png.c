/* SPDX-License-Identifier: MIT
 * png.c - the plugin: an SVG is written as a PNG, by librsvg. What is to be written is one entry "svg", its bytes. */
#include <errno.h>
#include <librsvg/rsvg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/format.h>
#include <spcore/plugin.h>

#define SCALE 2    /* pixels a unit: small words stay readable on dense screens */
#define MOST 32767 /* what cairo draws on */

static int open_none(sp_ctx *ctx, const char *path, void **file) {
  *file = NULL;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s: pictures are written, not read", path);
}

static int no_entries(void *file, const sp_entry **entries, size_t *n, const sp_meta **meta, size_t *n_meta) {
  (void)file;
  *entries = NULL, *meta = NULL, *n = *n_meta = 0;
  return SP_OK;
}

static int read_none(sp_ctx *ctx, void *file, size_t i, void *dst, size_t bytes) {
  (void)file, (void)i, (void)dst, (void)bytes;
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "pictures are written, not read");
}

static void close_none(void *file) { (void)file; }

static int draw(sp_ctx *ctx, const char *path, RsvgHandle *svg, cairo_surface_t **out) {
  double w = 0, h = 0;
  GError *why = NULL;
  if (!rsvg_handle_get_intrinsic_size_in_pixels(svg, &w, &h) ||
      !(w >= 1 && h >= 1 && w * SCALE < MOST && h * SCALE < MOST))
    return ctx->host->fail(ctx, SP_E_RANGE, "%s: a picture of %.0f x %.0f cannot be drawn", path, w, h);
  *out = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)(w * SCALE), (int)(h * SCALE));
  cairo_t *cr = cairo_create(*out);
  const RsvgRectangle all = {0, 0, w * SCALE, h * SCALE};
  int ok = rsvg_handle_render_document(svg, cr, &all, &why) && cairo_status(cr) == CAIRO_STATUS_SUCCESS;
  cairo_destroy(cr);
  if (ok) return SP_OK;
  int rc = ctx->host->fail(ctx, SP_E_DATA, "%s: %s", path, why ? why->message : "no memory to draw on");
  g_clear_error(&why);
  return rc;
}

/* Under another name first, so that an older picture stays until this one is whole. */
static int save(sp_ctx *ctx, const char *path, cairo_surface_t *surface) {
  size_t n = strlen(path) + 8;
  char *temporary = malloc(n);
  if (!temporary) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for '%s'", path);
  snprintf(temporary, n, "%s.new", path);
  cairo_status_t st = cairo_surface_write_to_png(surface, temporary);
  int rc = SP_OK;
  if (st) rc = ctx->host->fail(ctx, SP_E_IO, "%s: %s", path, cairo_status_to_string(st));
  else if (rename(temporary, path)) rc = ctx->host->fail(ctx, SP_E_IO, "%s: %s", path, strerror(errno));
  if (rc) remove(temporary);
  free(temporary);
  return rc;
}

static int png_write(sp_ctx *ctx, const char *path, const sp_entry *entries, size_t n, const sp_meta *meta,
                     size_t n_meta) {
  GError *why = NULL;
  cairo_surface_t *surface = NULL;
  (void)meta, (void)n_meta;
  if (n != 1 || strcmp(entries->name, "svg") || entries->spec.dtype != SP_U8 || entries->spec.ndim != 1)
    return ctx->host->fail(ctx, SP_E_INVALID, "%s: a .png holds a picture; weights go into .safetensors", path);
  RsvgHandle *svg = rsvg_handle_new_from_data(entries->data, (gsize)entries->spec.shape[0], &why);
  if (!svg) {
    ctx->host->fail(ctx, SP_E_DATA, "%s: %s", path, why->message);
    g_clear_error(&why);
    return SP_E_DATA;
  }
  int rc = draw(ctx, path, svg, &surface);
  if (!rc) rc = save(ctx, path, surface);
  if (surface) cairo_surface_destroy(surface);
  g_object_unref(svg);
  return rc;
}

static const sp_format_type png_format = {.size = sizeof(sp_format_type),
                                          .name = "png",
                                          .extension = ".png",
                                          .doc = "Pictures, drawn of an SVG",
                                          .open = open_none,
                                          .entries = no_entries,
                                          .read = read_none,
                                          .close = close_none,
                                          .write = png_write};
static const sp_format_type *const formats[] = {&png_format, NULL};

SP_PLUGIN_WITH("png", "Pictures as PNG files", NULL, NULL, formats);
