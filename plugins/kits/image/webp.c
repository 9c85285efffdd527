/* SPDX-License-Identifier: MIT
 * webp.c - WebP through libwebp, where the build has it; of an animation the first picture. */
#include "formats.h"

#ifdef HAVE_WEBP
#include <stdio.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

static const char *words(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "libwebp: out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "libwebp: a kind of WebP that it does not know";
    default: return "libwebp: the file is damaged";
  }
}

/* The first picture of an animation, on the whole of its screen. */
static int animated(im_decoder *d, im_buf *px, int w, int h) {
  WebPAnimDecoderOptions options;
  WebPData data = {d->file.p, d->size};
  uint8_t *rgba, *rgb = im_reserve(px, (size_t)w * (size_t)h * 3);
  int time, rc = SP_OK;
  if (!rgb) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", w, h);
  if (!WebPAnimDecoderOptionsInit(&options))
    return im_say(d, SP_E_INTERNAL, "libwebpdemux is older than the one it was built with");
  options.color_mode = MODE_RGBA;
  WebPAnimDecoder *a = WebPAnimDecoderNew(&data, &options);
  if (!a || !WebPAnimDecoderGetNext(a, &rgba, &time)) rc = im_say(d, IM_BROKEN, "libwebp: the animation is damaged");
  for (size_t i = 0, n = (size_t)w * (size_t)h; !rc && i < n; i++, rgb += 3, rgba += 4) memcpy(rgb, rgba, 3);
  if (!rc && WebPAnimDecoderHasMoreFrames(a))
    snprintf(d->lost, sizeof d->lost, "several pictures, of which the first is read");
  WebPAnimDecoderDelete(a);
  return rc;
}

int im_webp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  WebPDecoderConfig c;
  if (!WebPInitDecoderConfig(&c)) return im_say(d, SP_E_INTERNAL, "libwebp is older than the one it was built with");
  VP8StatusCode status = WebPGetFeatures(d->file.p, d->size, &c.input);
  if (status != VP8_STATUS_OK) return im_say(d, IM_BROKEN, "%s", words(status));
  *w = c.input.width;
  *h = c.input.height;
  if (!px) return SP_OK;
  int rc = im_check_pixels(d, *w, *h, max_pixels);
  if (rc) return rc;
  if (c.input.has_animation) return animated(d, px, *w, *h);
  size_t line = (size_t)*w * 3, bytes = line * (size_t)*h;
  uint8_t *p = im_reserve(px, bytes);
  if (!p) return im_say(d, SP_E_NOMEM, "no memory for %d x %d pixels", *w, *h);
  c.output.colorspace = MODE_RGB;
  c.output.u.RGBA = (WebPRGBABuffer){.rgba = p, .stride = (int)line, .size = bytes};
  c.output.is_external_memory = 1;
  status = WebPDecode(d->file.p, d->size, &c);
  WebPFreeDecBuffer(&c.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY) return im_say(d, SP_E_NOMEM, "%s", words(status));
  return status == VP8_STATUS_OK ? SP_OK : im_say(d, IM_BROKEN, "%s", words(status));
}

#else

int im_webp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  (void)max_pixels, (void)px, (void)w, (void)h;
  return im_say(d, SP_E_UNSUPPORTED,
                "it is WebP, and this spcore was built without libwebp; install that (Debian: libwebp-dev), configure "
                "and build again");
}

#endif
