/* SPDX-License-Identifier: MIT
 * webp.c - WebP through libwebp, where the build has it. */
#include "formats.h"

#ifdef HAVE_WEBP
#include <webp/decode.h>

static const char *words(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "libwebp: out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "libwebp: a kind of WebP that it does not know";
    default: return "libwebp: the file is damaged";
  }
}

int im_webp(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h) {
  WebPDecoderConfig c;
  if (!WebPInitDecoderConfig(&c)) return im_say(d, SP_E_INTERNAL, "libwebp is older than the one it was built with");
  VP8StatusCode status = WebPGetFeatures(d->file.p, d->size, &c.input);
  if (status != VP8_STATUS_OK) return im_say(d, IM_BROKEN, "%s", words(status));
  if (c.input.has_animation) return im_say(d, IM_BROKEN, "it is an animation, not one picture");
  *w = c.input.width;
  *h = c.input.height;
  if (!px) return SP_OK;
  int rc = im_check_pixels(d, *w, *h, max_pixels);
  if (rc) return rc;
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
