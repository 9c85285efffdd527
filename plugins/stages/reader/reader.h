/* SPDX-License-Identifier: MIT
 * reader.h - what the parts of the reader share: its parameters, its kinds of data, its instance. */
#ifndef SP_PLUGINS_READER_H
#define SP_PLUGINS_READER_H

#include <spcore/plugin.h>

#include "../../kits/image/image.h"
#include "../../kits/image/work.h"

#define RD_MAX_SIZE 16384                       /* pixels of a side of the output */
#define RD_ENDINGS "jpg|jpeg|png|webp|tif|tiff" /* rd_is_picture */
#define RD_VAL_FRACTION 0.1
#define RD_REPLACEMENTS 64 /* tries for a broken sample, before giving up */

enum { RD_ALL, RD_TRAIN, RD_VAL };
enum { RD_TARGET_MASK, RD_TARGET_CLASS };
enum { RD_MASK = 1, RD_LABEL = 2 }; /* what a kind of data has to offer besides images */

typedef struct rd_file {
  const char *path;
} rd_file;

typedef struct rd_params {
  const char *path;
  sp_structs files; /* rd_file */
  sp_ints size;
  sp_floats val_fraction; /* none: not given */
  int64_t workers, samples, classes, max_bad, max_pixels, data_seed;
  int32_t split, target, orient, resize; /* resize: IM_SQUASH ... */
} rd_params;

/* One thread's memory and the words of its failure. */
typedef struct rd_worker {
  im_decoder decoder;
  im_scaler scaler;
  im_buf image, mask;
  char why[IM_WORDS];
} rd_worker;

typedef struct rd_self rd_self;

/* What a folder has that is not read, but for hidden entries. */
typedef struct rd_left {
  size_t folders, files, strays; /* strays: pictures outside of the folders of classes */
  char file[256], folder[256];   /* the first of them, bytewise */
} rd_left;

/* Where one sample goes: image as h rows of w RGB triples, mask as h rows of w labels. mask is NULL where nobody reads
 * it or the kind has none; label is always there, and stays as it is where the kind has none. */
typedef struct rd_out {
  uint8_t *image, *mask;
  int32_t *label;
} rd_out;

/* A kind of data. open() says how many samples and classes there are, what is offered (self->gives), and the names of
 * the classes where they have some. fill() makes sample `index` of the whole set; what it writes is a pure function of
 * `index` and the files. It returns IM_BROKEN or a status with words in w->why. Several threads call it at once.
 * reserve(), where it is there, gets all of the memory that fill() will need, or returns NULL. */
typedef struct rd_kind {
  const char *name;
  int (*open)(sp_ctx *ctx, rd_self *self);
  void (*close)(rd_self *self);
  int (*fill)(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out);
  void *(*reserve)(const rd_self *self, rd_worker *w);
  uint64_t (*hash)(const rd_self *self, uint64_t index); /* what decides on which side of the split a sample is */
} rd_kind;

extern const rd_kind rd_shapes, rd_shape, rd_random, rd_folder, rd_tree;

struct rd_self {
  const rd_params *p;
  const rd_kind *kind;
  void *data;          /* the kind's */
  uint64_t total, key; /* samples of the whole set */
  int64_t classes;
  char *class_names; /* one a line, without a last line break; NULL: they have none. On the heap */
  int gives;         /* RD_MASK, RD_LABEL */
  int h, w;
  const char *parts[2]; /* the folders in `path` that are read: "" for path itself, or "train/", "val/" */
  int n_parts, own_splits;
  rd_left left;

  uint32_t *list; /* the split: indices into the whole set, ascending */
  uint64_t length;
  uint8_t *broken; /* [total], atomic: known to be damaged */
  int n_broken;    /* atomic */
  rd_worker *workers;
  sp_attr attrs[2];
  int warned; /* of an output that the data does not have */
  im_work work;
};

int rd_fail(rd_worker *w, int status, const char *fmt, ...) SP_PRINTF(3, 4);

/* files.c: what the kinds that read files share. */
typedef struct rd_names {
  char **v;
  size_t n, cap;
} rd_names;
void rd_names_free(rd_names *l);
int rd_names_add(rd_names *l, const char *s); /* keeps a copy */
void rd_names_cut(rd_names *l, size_t n);     /* leaves the first n */
size_t rd_stem_length(const char *name);
int rd_is_picture(const char *name); /* by its ending: RD_ENDINGS in any case */
int rd_is_folder(const char *base, const char *sub);
uint64_t rd_hash_name(const char *name); /* of all but the ending */
/* Puts the file's name in front of what the decoder says. */
int rd_blame(rd_worker *w, int rc, const char *path);
/* Decodes and resizes; the size that it had goes to *width and *height. */
int rd_load_image(rd_self *self, rd_worker *w, const char *path, uint8_t *out, int *width, int *height);
/* Fails unless `path` is a folder. */
int rd_check_path(sp_ctx *ctx, const char *path);
/* Fails: nothing in `path` is laid out as one of the kinds wants it. */
int rd_no_layout(sp_ctx *ctx, const char *path);

/* layout.c: sets self->parts, from what `path` holds and the parameter split. like: is a folder laid out as the kind
 * wants it? what: the same in words. */
int rd_find_parts(sp_ctx *ctx, rd_self *self, int (*like)(const char *dir), const char *what);
/* folder.c: has it images/ or masks/? */
int rd_pairs_like(const char *dir);
/* Counts what lies in `path`/rel and is none of `known`; known NULL: folders are classes, and are read. */
void rd_look_beside(rd_self *self, const char *rel, const char *const *known);
/* Counts one entry of a folder: its path below the data's, and what rd_entry_kind says. */
void rd_leave(rd_left *l, const char *name, int kind);
/* One line, where anything was left out. */
void rd_tell_left(sp_ctx *ctx, const rd_self *self);
/* Has it subfolders with pictures in them? */
int rd_tree_like(const char *dir);
/* DT_DIR, DT_REG or, for all else, DT_UNKNOWN; links are followed. -1: errno says why not. */
struct dirent;
int rd_entry_kind(const char *path, const struct dirent *e);
/* The subfolders of `base` that are not hidden, sorted. -1: errno says why not. */
int rd_subfolders(const char *base, rd_names *out);
/* The classes of all splits, sorted; one that is not in each is told. */
int rd_join_classes(sp_ctx *ctx, const rd_self *self, rd_names *classes);

/* split.c: self->list and self->length from total, split and val_fraction. */
int rd_split(sp_ctx *ctx, rd_self *self);
/* Sorts by hash: an order that has nothing to do with that of the files. */
typedef struct rd_ranked {
  uint64_t hash;
  size_t index;
} rd_ranked;
void rd_rank(rd_ranked *r, size_t n);

#endif
