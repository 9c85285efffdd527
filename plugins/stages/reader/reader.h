/* SPDX-License-Identifier: MIT
 * reader.h - what the parts of the reader share: its parameters, its kinds of data, its instance. */
#ifndef SP_PLUGINS_READER_H
#define SP_PLUGINS_READER_H

#include <spcore/plugin.h>

#include "../../kits/image/image.h"
#include "../../kits/image/keep.h"
#include "../../kits/image/rows.h"
#include "../../kits/image/work.h"

#define RD_ENDINGS "jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm" /* in words, of what rd_is_picture takes */
#define RD_VAL_FRACTION 0.1
#define RD_REPLACEMENTS 64 /* tries for a broken sample, before giving up */

enum { RD_ALL, RD_TRAIN, RD_VAL };
enum { RD_TARGET_MASK, RD_TARGET_CLASS, RD_TARGET_LABELS, RD_TARGET_NUMBERS, RD_TARGET_MAP };
#define RD_OF_ROWS(target) ((target) == RD_TARGET_LABELS || (target) == RD_TARGET_NUMBERS) /* a table has them */
extern const char *const rd_targets[]; /* as the parameter calls them */
extern const sp_port rd_outputs[];
extern const sp_param rd_param_table[]; /* of rd_params */
enum { RD_FOLDERS_AUTO, RD_FOLDERS_PARTS, RD_FOLDERS_CLASSES };
enum { RD_MASK = 1, RD_LABEL = 2, RD_LABELS = 4, RD_NUMBERS = 8 }; /* what a kind of data has to offer besides images */
/* Of rd_self.warned: a batch without any label; `second` is not read, or is not there. */
enum { RD_UNLABELLED = 16, RD_FIRST_ALONE = 32, RD_NO_SECOND = 64 };

typedef struct rd_file {
  const char *path;
} rd_file;

/* How tables are read: csv.h and words.h. */
enum { RD_HEADER_AUTO, RD_HEADER_YES, RD_HEADER_NO };
enum { RD_CELLS_AUTO, RD_CELLS_NAME, RD_CELLS_LIST, RD_CELLS_VECTOR };
enum { RD_CASE_ASK, RD_CASE_IGNORE, RD_CASE_KEEP };
enum { RD_MISSING_ASK, RD_MISSING_SKIP, RD_MISSING_CLASS };
enum { RD_REPEATS_ASK, RD_REPEATS_ONCE, RD_REPEATS_KEEP };
enum { RD_DECIMAL_AUTO, RD_DECIMAL_POINT, RD_DECIMAL_COMMA };
typedef struct rd_csv_params {
  const char *columns, *root, *val_value, *label_separator;
  int32_t separator, header, cells, label_case, missing, repeats, decimal;
  sp_floats mean, std;
} rd_csv_params;

typedef struct rd_params {
  const char *sampling; /* how often classes, or samples, are drawn */
  const char *path, *val_path, *mask_name, *mask_values, *mask_folder, *second_name;
  sp_structs files; /* rd_file */
  sp_ints size;
  sp_floats val_fraction; /* none: not given */
  double default_val_fraction;
  int64_t workers, samples, limit, folds, fold, classes, max_bad, max_pixels, data_seed;
  im_fitting fit;
  int32_t split, target, folders, orient, grey, check;
  im_keep_params keep;
  const char *map_scale, *map_nodata, *map_range;
  double map_offset;
  rd_csv_params csv;
  const char *cache_dir, *cache_size, *data_checksums;
  int64_t fetch_tries;
  double fetch_pause, fetch_timeout;
  /* set by the reader, in a copy: paths with what is secret of an address, which the others are without */
  const char *given_path, *given_val_path;
  int64_t cache_bytes;
} rd_params;

/* What may be odd about a sample that is read all the same: its file is damaged where no pixel is; its image was turned
 * as EXIF says, its mask was not; it has more bits or channels than are read; numbers of it are no data; its numbers
 * are of another type than those of the first file; values of its map are outside of map_range; its map has no value;
 * its two images are of other types or channels. */
enum { RD_DAMAGED, RD_TURNED, RD_REDUCED, RD_NO_DATA, RD_OTHER_TYPE, RD_OUTSIDE, RD_NO_VALUE, RD_UNLIKE, RD_REMARKS };
#define RD_REMARK 768 /* bytes of its words */

/* One thread's memory, the words of its failure, and what is odd about its sample. */
typedef struct rd_worker {
  im_decoder decoder;
  im_scaler scaler;
  im_buf image, mask, rgb, grey; /* rgb: the numbers of a mask; grey: of a sample whose output is grey */
  unsigned remarks;              /* bits: 1 << RD_DAMAGED ... */
  char remark[RD_REMARKS][RD_REMARK];
  char why[IM_WORDS];
} rd_worker;

/* Of all samples so far; each counts once. */
typedef struct rd_remarks {
  pthread_mutex_t lock;                      /* of what follows but `of` */
  uint64_t n[RD_REMARKS], index[RD_REMARKS]; /* index: of the sample of `first` */
  int told[RD_REMARKS];
  char first[RD_REMARKS][RD_REMARK];
  uint8_t *of; /* [total], atomic: bits of the samples that are counted */
} rd_remarks;

typedef struct rd_self rd_self;
typedef struct rd_table rd_table;
typedef struct rd_palette rd_palette;
typedef struct rd_values rd_values;

/* Of the numbers of a channel, as files have them. */
typedef struct rd_range {
  double least, most, sum, squares, n;
} rd_range;

/* How the numbers of a map become values: number * scale + offset. */
typedef struct rd_map {
  double scale, offset, nodata;
  int asks, tag, has_nodata; /* asks: nobody has said what 0 is; tag: a TIFF says it */
  float lo, hi;              /* values that count */
  char *about;               /* what rd_map_item found, on the heap */
} rd_map;

/* Of each label, in the masks that were read. */
typedef struct rd_tally {
  uint64_t n, pixels[256], masks[256]; /* n: masks; masks: those that have it */
} rd_tally;

/* Where one sample goes: image as h rows of w RGB triples, or of what `keep` says, mask as h rows of w labels, floats
 * with target map. They are NULL where nobody reads them, mask also where the kind has none; label is always there, and
 * stays as it is where the kind has none. second: as image, NULL also where the table has no seconds. values: of
 * RD_LABELS and RD_NUMBERS, a number for each class or column. */
typedef struct rd_out {
  void *image, *second;
  void *mask;
  int32_t *label;
  float *values;
  int32_t
      *size; /* [2] height and width of the file as decoded; stays as it is where there is no file. NULL: not wanted */
} rd_out;

/* A kind of data. open() says how many samples and classes there are, what is offered (self->gives), and the names of
 * the classes where they have some. fill() makes sample `index` of the whole set; what it writes is a pure function of
 * `index` and the files. It returns IM_BROKEN or a status with words in w->why. Several threads call it at once.
 * reserve(), where it is there, gets all of the memory that fill() will need, or returns NULL. The name is part of what
 * draws the replacements of broken samples. */
typedef struct rd_kind {
  const char *name;
  int (*open)(sp_ctx *ctx, rd_self *self);
  void (*close)(rd_self *self);
  int (*fill)(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out);
  void *(*reserve)(const rd_self *self, rd_worker *w);
  uint64_t (*hash)(const rd_self *self, uint64_t index); /* what decides on which side of the split a sample is */
} rd_kind;

/* rd_masks, rd_labels: a table of samples (table.h), by what target asks for. */
extern const rd_kind rd_shapes, rd_shape, rd_random, rd_masks, rd_labels;

struct rd_self {
  const rd_params *p; /* is `own` */
  rd_params own;
  char bare[2][4096]; /* of its paths, where they are addresses */
  const rd_kind *kind;
  rd_table *table;        /* of rd_masks and rd_labels */
  rd_palette *palette;    /* of masks in colour; NULL: there are none. On the heap */
  rd_values *values;      /* what mask_values says; NULL: nothing. On the heap */
  rd_tally *tally;        /* [2], with check: of training and of validation; on the heap */
  uint8_t *side;          /* [total]: 1: validates; NULL: ends say so, or nobody asked. On the heap */
  uint64_t *prints;       /* [total], with check: rd_hash_pixels of each image that was read; 0: none. On the heap */
  struct rd_twins *twins; /* what is there more than once, when somebody has asked; on the heap */
  rd_worker *looker;      /* for samples that are looked at one by one; on the heap */
  struct rd_survey {
    rd_tally seen;
    char why[IM_WORDS];  /* "": all is well */
    int32_t colour[255]; /* of each label in the palette of the first mask that has it; -1: none yet */
    uint32_t has[255];   /* that mask: an index into the whole set */
    char palettes[2000]; /* a label that has two colours; "": there is none */
  } * survey;            /* on the heap; NULL: nobody has asked */
  uint64_t total, key;   /* samples of the whole set */
  uint64_t ends[2];      /* of a set with splits of its own: where those for training end, and those for validation */
  int own_splits;
  int64_t classes;
  char *class_names; /* one a line, without a last line break; NULL: they have none. On the heap */
  int gives;         /* RD_MASK, RD_LABEL */
  int h, w;
  rd_map map;            /* of target map */
  im_keep keep;          /* how images keep what files hold; grey bytes: of one channel */
  int keeps, first_type; /* keeps: im_keep_is_on; first_type: of the first file's numbers */
  rd_range *ranges;      /* [keep.channels], where it keeps, once somebody has asked, or with check; on the heap */
  uint64_t n_ranged;     /* images that they are of */

  uint32_t *list; /* the split: indices into the whole set, ascending */
  uint64_t length;
  uint64_t n_split[2]; /* samples for training, for validation */
  uint8_t *broken;     /* [total], atomic: known to be damaged */
  int n_broken;        /* atomic */
  rd_worker *workers;
  float *draws; /* [length] how often each is drawn; NULL: all alike. On the heap */
  char *counts; /* samples of the split for each class, or NULL; on the heap */
  char left_out[4096], splits[64];
  sp_attr attrs[20];
  rd_remarks remarks;
  int warned; /* of an output that the data does not have */
  im_work work;
};

int rd_fail(rd_worker *w, int status, const char *fmt, ...) SP_PRINTF(3, 4);

/* ---- remarks.c ---- */
void rd_remark(rd_worker *w, int kind, const char *fmt, ...) SP_PRINTF(3, 4);
int rd_open_remarks(rd_self *self); /* SP_OK or SP_E_NOMEM */
void rd_close_remarks(rd_self *self);
/* Counts those of the worker's sample. */
void rd_note_remarks(rd_self *self, const rd_worker *w, uint64_t index);
/* After a batch: the first of each kind, in the log. */
void rd_tell_remarks(sp_ctx *ctx, rd_self *self);
/* The item of an attribute: "KIND\tCOUNT\tWORDS of the first". */
int rd_remark_item(const void *self, uint64_t kind, char *to, size_t size);

/* draws.c: self->draws, as `sampling` says; behind rd_split. */
int rd_make_draws(sp_ctx *ctx, rd_self *self);
/* The column of a .csv file that `sampling` names, or the file; NULL: it is not of such. */
const char *rd_sampling_column(const rd_params *p);
const char *rd_sampling_file(const rd_params *p);
/* How many samples may be drawn. */
uint64_t rd_drawable(const rd_self *self);

/* split.c: 1: the sample of the whole set validates. With check. */
int rd_part_of(const rd_self *self, uint64_t index);
/* self->list and self->length from total, samples, split and val_fraction. */
int rd_split(sp_ctx *ctx, rd_self *self);

#endif
