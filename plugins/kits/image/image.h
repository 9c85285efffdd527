/* SPDX-License-Identifier: MIT
 * image.h - image files to pixels, and pixels to another size; what reader and image_writer share. */
#ifndef SP_PLUGINS_IMAGE_H
#define SP_PLUGINS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Besides the sp_status codes: the file is damaged, as against not being what was asked for. */
#define IM_BROKEN 1

#define IM_MAX_FILE (INT64_C(1) << 30) /* bytes of one file */
enum { IM_MOST_CHANNELS = 1024 };

/* Memory that only grows, so that a worker soon stops allocating. Zero-initialised is empty. */
typedef struct im_buf {
  void *p;
  size_t cap;
} im_buf;
void *im_reserve(im_buf *b, size_t bytes); /* NULL when out of memory; what was in it is lost */
void im_buf_free(im_buf *b);

/* What the numbers of pixels are. */
enum { IM_U8, IM_I8, IM_U16, IM_I16, IM_U32, IM_I32, IM_U64, IM_I64, IM_F16, IM_F32, IM_F64 };

/* One worker's decoder. Zero-initialised is ready. When a call does not return SP_OK, `why` says what is wrong, without
 * the file's name. */
typedef struct im_decoder {
  im_buf file, spare;
  size_t size;    /* of the file held in `file` */
  struct im_raw { /* what `file` holds are pixels, see im_room_raw; w 0: it is a file */
    int w, h, channels, planar;
    int type, swapped; /* IM_U8 ...; swapped: bytes of a number are in the other order than this machine's */
  } raw;
  int channels;         /* set by the caller: how many an array of three dimensions has; 0: the size says it */
  int only_head;        /* set by the caller: `file` is the beginning of a file, for im_about */
  int picture;          /* set by the caller: im_numbers is of a picture: a palette's colours, not its indices */
  int as_stored;        /* set by the caller: images are not turned as their EXIF orientation says */
  int least_w, least_h; /* set by the caller: sides that im_rgb may shrink a JPEG down to, by 2, 4 or 8; 0: never */
  int orientation;      /* of the last image, 1..8 as EXIF counts */
  int is_grey;          /* of the last image that became RGB: all that it has is its brightness */
  int says_nodata;      /* of the last image: it is a TIFF whose GDAL tag says a number for no data */
  double nodata;        /* that number */
  char note[128];       /* of the last image: what is wrong with its file and changes no pixel; "": nothing */
  char lost[160]; /* of the last image: what its file has more than im_rgb gives; "": nothing. Alpha is not said */
  char why[256];
} im_decoder;
void im_decoder_free(im_decoder *d);

/* Takes the whole file into memory; its size is checked first. IM_BROKEN: the file is empty. */
int im_load(im_decoder *d, const char *path);
/* The same of a file that is in memory already; it is copied. */
int im_take(im_decoder *d, const void *data, size_t bytes);

/* Room for a file that the caller puts there; NULL: no memory. */
void *im_room(im_decoder *d, size_t bytes);
/* The same for pixels as they are: h rows of w pixels of so many channels, or where `planar` is set one such plane for
 * each channel. */
void *im_room_raw(im_decoder *d, struct im_raw raw);

/* Decodes what im_load took: JPEG, PNG, and where the build has the libraries WebP and TIFF, told by content. The
 * header's size is checked against max_pixels before anything is allocated. im_rgb: h rows of w RGB triples; grey
 * becomes RGB, so does CMYK, without colour profiles; alpha is dropped, 16 bits become 8 (the high byte; of TIFF
 * rounded). im_labels: one byte a pixel, the palette index or grey value as it is in the file. Both are turned as
 * EXIF says. im_size: the header alone; the size that im_rgb would give. */
int im_rgb(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_labels(im_decoder *d, int64_t max_pixels, im_buf *px, int *w, int *h);
int im_size(im_decoder *d, int *w, int *h);

/* Pixels as the file has them: h rows of w, each of `channels` numbers of the type. */
typedef struct im_pixels {
  int w, h, channels, type;
  int colour;  /* the first three are red, green and blue */
  int alpha;   /* the last one is alpha */
  int picture; /* of a format that knows colours, so that one channel is grey */
  int packed;  /* bits of a number, as of TIFF with 12, which bytes are not made of; 0: the type's */
} im_pixels;
/* Numbers and indices as they are. Files that are neither PNG, TIFF nor .npy, and TIFF with other colours than RGB,
 * become RGB bytes. Turned as EXIF says. */
int im_numbers(im_decoder *d, int64_t max_pixels, im_buf *px, im_pixels *out);
/* The header alone: what im_numbers of a picture would give, and the size, turned. */
int im_about(im_decoder *d, im_pixels *out);
/* "uint16", for words; bytes of one. These functions can't fail. */
const char *im_type_name(int type);
size_t im_type_bytes(int type);
/* Numbers of any type, as floats; and as whole ones from -2^31 on: the place of the first that is none, else n. */
void im_to_floats(const void *from, int type, size_t n, float *to);
size_t im_to_whole(const void *from, int type, size_t n, int32_t *to);
/* What im_load took is a grey or palette PNG of 8 bits or less, or a plane of bytes: im_labels has all of it. */
int im_has_byte_labels(const im_decoder *d);
/* The colours of a PNG's palette, RGB triples: how many, 0: what im_load took has none. This function can't fail. */
int im_palette(const im_decoder *d, uint8_t rgb[768]);
/* Whether im_rgb takes so many. */
int im_check_pixels(im_decoder *d, int64_t w, int64_t h, int64_t max_pixels);
/* RGB triples become brightness, a byte a pixel, as Pillow's convert("L") has it: of grey the byte itself. This
 * function can't fail. */
void im_brightness(const uint8_t *rgb, size_t pixels, uint8_t *grey);
/* What im_load took is a PNG of colours, not of a palette or grey: no labels as they are. */
int im_in_colour(const im_decoder *d);

/* Scratch of im_resize. */
typedef struct im_scaler {
  im_buf acc, row, wide, wx, wy;
} im_scaler;
void im_scaler_free(im_scaler *s);

#define IM_MOST_PIXELS (1 << 30) /* of an image, whatever max_pixels says */

/* How a picture of w x h gets another size: as it is, its middle alone, or all of it within a border. */
enum { IM_SQUASH, IM_CROP, IM_PAD };
#define IM_FITS \
  { "squash", "crop", "pad", NULL } /* choices of a parameter */
enum { IM_BILINEAR, IM_BICUBIC };
#define IM_INTERPOLATIONS \
  { "bilinear", "bicubic", NULL }

/* What a script says of it. shorter: the shorter side becomes so many pixels, and the middle of that is cut out, which
 * takes the place of IM_SQUASH; 0: not. */
typedef struct im_fitting {
  int32_t how, interpolation;
  int64_t shorter;
} im_fitting;
/* Why it is not possible with an output of dw x dh, or NULL. */
const char *im_fitting_wrong(const im_fitting *f, int dw, int dh);

/* The rectangle that is taken of the source, and the one that it becomes; the first four as the last four: the place of
 * its upper left corner, width, height. Scaled, all of the source's has rw x rh pixels, of which those from (ox, oy) on
 * are made. */
typedef struct im_geometry {
  int sx, sy, sw, sh, dx, dy, dw, dh;
  int64_t rw, rh, ox, oy;
} im_geometry;
im_geometry im_fit(const im_fitting *f, int sw, int sh, int dw, int dh);

/* RGB rows of sw x sh to dw x dh, with antialiasing: bilinear, in float, rounded half to even; bicubic as kits/cubic.
 * Places are left alone. SP_E_NOMEM or SP_OK. */
int im_resize(im_scaler *s, const uint8_t *src, const im_geometry *g, int interpolation, uint8_t *dst);

/* The same of pixels of so many bytes or floats, which are not rounded. */
int im_resize_bytes(im_scaler *s, const uint8_t *src, const im_geometry *g, int channels, int interpolation,
                    uint8_t *dst);
int im_resize_floats(im_scaler *s, const float *src, const im_geometry *g, int channels, int interpolation, float *dst);

/* One byte or float a pixel, nearest. These functions can't fail. */
void im_nearest(const uint8_t *src, const im_geometry *g, uint8_t *dst);
void im_nearest_floats(const float *src, const im_geometry *g, float *dst);

/* The two halves of fitting, for pixels of any size: the rectangle of the source that is taken moves to the front of
 * px, whose rows have `line` pixels; what was made, in front of px, moves to its place in dw x dh, and each byte of the
 * border becomes `fill`. These functions can't fail. */
void im_cut(void *px, size_t pixel, int line, const im_geometry *g);
void im_spread(void *px, size_t pixel, int dw, int dh, const im_geometry *g, int fill);

/* As im_resize and im_nearest; src is changed. Borders are 0, of labels 255, of values NaN. */
int im_fit_rgb(im_scaler *s, const im_fitting *f, uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh);
void im_fit_labels(const im_fitting *f, uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh);
void im_fit_values(const im_fitting *f, float *src, int sw, int sh, float *dst, int dw, int dh);

/* ---- scores of classes ---- */
/* Of one image: a plane of w x h for each class, or `classes` numbers for each pixel. */
typedef struct im_scores {
  const float *v;
  int classes, w, h, channels_last;
} im_scores;

/* Along one side: pixel i of the picture lies at scale * (i + 1/2) + shift - 1/2 of the scores, of which those from
 * `from` to before `to` are of the picture. Pixels from `first` to before `last` are in the scores. */
typedef struct im_axis {
  float scale, shift;
  int from, to, first, last;
} im_axis;

/* Scores at another size, bilinearly, a row at a time. Zero-initialised is ready. */
typedef struct im_enlarger {
  im_scores s;
  int dw, dh;
  im_axis across, down;
  im_buf places, shares, blend, row;
} im_enlarger;
void im_enlarger_free(im_enlarger *e);
/* From now on rows of s at dw x dh, as PyTorch's interpolate has them with mode bilinear and align_corners false, but
 * for rounding. g: how a picture of dw x dh was fitted into the scores' size, NULL: squashed; what was cut away has the
 * scores of the edge. SP_E_NOMEM or SP_OK. */
int im_enlarge_begin(im_enlarger *e, const im_scores *s, int dw, int dh, const im_geometry *g);
/* Row y, [classes][dw], until the next one. This function can't fail. */
float *im_enlarge_row(im_enlarger *e, int y);
/* Each column of [classes][w] becomes probabilities, which add up to 1. This function can't fail. */
void im_softmax(float *row, int classes, int w);

/* ---- the other way ---- */
/* One worker's encoder. Zero-initialised is ready. `why` as above. */
typedef struct im_encoder {
  void *tj;
  uint8_t *out; /* the encoded file */
  size_t n, cap;
  char why[256];
} im_encoder;
void im_encoder_free(im_encoder *e);

/* RGB triples to a JPEG (quality 1..100, no chroma subsampling) or a PNG; labels to a palette PNG whose indices they
 * are; numbers of 16 bits to a grey PNG. The result is in e->out. */
int im_to_jpeg(im_encoder *e, const uint8_t *rgb, int w, int h, int quality);
int im_to_png(im_encoder *e, const uint8_t *rgb, int w, int h);
int im_labels_to_png(im_encoder *e, const uint8_t *labels, int w, int h);
int im_grey16_to_png(im_encoder *e, const uint16_t *px, int w, int h);
/* Numbers as they are to a TIFF; px NULL: can this build? */
int im_floats_to_tiff(im_encoder *e, const float *px, int w, int h);

/* Writes e->out to a temporary name beside `path` and renames it, so that nobody sees half a file. */
int im_save(im_encoder *e, const char *path);

/* The colour of a label, as PASCAL VOC has it: 0 is black, neighbours differ strongly. This function can't fail. */
void im_label_colour(uint8_t label, uint8_t rgb[3]);

#endif
