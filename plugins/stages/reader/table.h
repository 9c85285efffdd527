/* SPDX-License-Identifier: MIT
 * table.h - the table of samples that every layout fills, and the sources of bytes that it refers to.
 *
 * A layout is a way in which data lies in a folder. Its lister fills the table: sources, then samples in their order.
 * A lister is one file, a line here, and its place in layout.c. Memory is a few blocks that grow, so that a million
 * samples cost some tens of bytes each. */
#ifndef SP_PLUGINS_READER_TABLE_H
#define SP_PLUGINS_READER_TABLE_H

#include "../../kits/what/what.h"
#include "folder_names.h"
#include "names.h"
#include "reader.h"

/* Bytes in a source: of an image, or of a mask. What `at` and `size` mean is the source's to say; of a folder of files
 * `at` is where the file's name begins in the table's bytes. */
typedef struct rd_ref {
  uint64_t at;
  uint32_t size, source;
} rd_ref;

/* What a sample has of table->cells: its labels as numbers of classes, ascending, or the bits of its numbers. */
typedef struct rd_cells {
  uint64_t at;
  uint32_t n, missing; /* missing: while it is listed: there is no value */
} rd_cells;

typedef struct rd_sample {
  rd_ref image;
  union {
    rd_ref mask;    /* table->gives is RD_MASK */
    int64_t label;  /* RD_LABEL */
    rd_cells cells; /* RD_LABELS, RD_NUMBERS */
  };
  uint64_t key; /* rd_hash_name of what the sample is called: decides on its side of the split */
  float weight; /* what the column of a table says of draws, where `sampling` names one */
  uint32_t reserved;
} rd_sample;

/* Where bytes come from: a folder of files (path "": names are whole paths), an archive, an array. */
typedef struct rd_source {
  uint32_t kind, reserved; /* RD_FILES ...: a row of rd_source_kinds */
  uint64_t path;           /* place in the table's bytes */
  uint64_t file, tag;      /* of what was fetched, such places: where it lies, what its content is; 0: it was not */
  void *data;              /* of what open() has opened */
} rd_source;

/* load() brings the encoded image or mask of `ref` into w->decoder, as im_load and im_take do; several threads call it
 * at once. It returns IM_BROKEN or a status with words in w->why, which begin with the name. name() is how messages
 * call the bytes, as snprintf. open() and close(), where there are such, are called once for each source, before the
 * first load() and after the last. */
typedef struct rd_source_kind {
  int (*open)(sp_ctx *ctx, const rd_table *t, rd_source *s);
  void (*close)(rd_source *s);
  int (*load)(const rd_table *t, const rd_ref *ref, rd_worker *w);
  int (*name)(const rd_table *t, const rd_ref *ref, char *to, size_t size);
} rd_source_kind;

enum { RD_FILES, RD_SHARD, RD_ARRAY };
extern const rd_source_kind *const rd_source_kinds[], rd_shard_source, rd_array_source;

/* What a folder has that is not read. */
typedef struct rd_left {
  size_t folders, files, strays; /* strays: pictures outside of the folders of classes */
  size_t masks, unlisted;        /* masks without an image; pictures that no list names */
  size_t empty, junk;            /* folders of classes without a picture; hidden entries, and what systems leave */
  char file[256], folder[256];   /* the first of them, bytewise */
  char bare[256], hidden[256];   /* of `empty`, of `junk` */
  size_t dotted, alone;        /* members of shards: whose keys have a dot in them; labels and masks without an image */
  char key[256], single[256];  /* of `dotted`, of `alone` */
  size_t unread[WHAT_FORMATS]; /* pictures of formats that are not read */
  char odd[WHAT_FORMATS][128]; /* the first of each */
} rd_left;

/* What a listing has read: while it is as it was, the listing holds. */
typedef struct rd_stamp {
  uint64_t path; /* place in the table's bytes */
  uint64_t dev, ino;
  int64_t mtime, size; /* mtime: ns; size: of a file; all but path 0: it was not there */
} rd_stamp;

struct rd_table {
  const struct rd_lister *lister;
  rd_table *next; /* of the tables in use that others may share */
  char *id;       /* what the parameters name; NULL: the table is not shared */
  int users;
  rd_stamp *stamps;
  size_t n_stamps, stamps_cap;
  int64_t newest; /* mtime of all that was read */
  char *bytes;    /* names, each with a 0 behind it */
  size_t n_bytes, bytes_cap;
  rd_source *sources;
  size_t n_sources, sources_cap, n_open;
  rd_sample *samples;
  size_t n, cap;
  rd_ref *seconds; /* [n], where each sample has two images; else NULL */
  size_t seconds_cap;
  int is_stereo; /* of these: the first are seen from the left, the second from the right, at once */
  uint32_t *cells;
  size_t n_cells, cells_cap;
  uint64_t ends[2];   /* where the samples of each part end: of all, or of those for training and for validation */
  uint64_t roots[2];  /* of pairs: the folder of each part's masks: places in bytes */
  uint64_t home;      /* the folder that the data lies in: path, or the one in it that holds all; a place in bytes */
  uint64_t notes;     /* what was guessed, a line each; a place in bytes */
  int n_parts, gives; /* gives: RD_MASK, RD_LABEL, or neither */
  int64_t classes;    /* of numbers: columns. 0: whoever reads the table has to find out */
  char *class_names;  /* as those of rd_self */
  rd_left left[3];    /* of each part, and of what lies beside them */
};

/* What a lister has to go by. Each part is the folder base/rel: rel is "", or such as "train/" and "valid/". */
typedef struct rd_part {
  const char *base, *rel;
} rd_part;
typedef struct rd_listing {
  sp_ctx *ctx;
  const rd_params *p;
  rd_table *t;
  rd_part parts[2];
  char within[1024];  /* the folder below p->path that the data lies in: "", or such as "dataset/" */
  char rels[2][2048]; /* what parts[k].rel may point to */
  char notes[4096];   /* for t->notes */
} rd_listing;

enum { RD_TARGET_ANY = -1 };
enum {
  RD_IN_SPLITS = 1, /* train/ and val/ in a folder may each have the layout */
  RD_KEPT = 2,  /* list() stamps all folders and lists that it reads, so the table may be shared and kept as a file */
  RD_WITHIN = 4 /* list() reads base/within: the data may lie in a folder that is the only one in `path` */
};
/* A layout. like() says whether a folder looks like it; list() fills the table or fails; settle() sets the reader's
 * classes and their names, or fails where the parameters say otherwise. */
typedef struct rd_lister {
  const char *name;
  int target; /* RD_TARGET_..., or RD_TARGET_ANY */
  int (*like)(const char *dir);
  int (*list)(rd_listing *l);
  int (*settle)(sp_ctx *ctx, rd_self *self);
  unsigned flags; /* RD_IN_SPLITS, RD_KEPT */
} rd_lister;
extern const rd_lister rd_arrays, rd_classes, rd_csv_class, rd_csv_labels, rd_csv_maps, rd_csv_masks, rd_csv_numbers,
    rd_files, rd_map_pairs, rd_map_twos, rd_pairs, rd_shards, rd_twos, rd_voc;

/* ---- table.c ---- */
int rd_gives(int target); /* RD_MASK ... of a target */
void rd_table_free(rd_table *t);
/* Room for n more elements behind `used` of them; NULL: no memory, and the old block stays. */
void *rd_grow(void *block, size_t used, size_t n, size_t *cap, size_t element);
/* Each fails where memory is short: SP_OK or SP_E_NOMEM. */
int rd_add_bytes(rd_table *t, const char *s, size_t n, uint64_t *at); /* and a 0 */
int rd_add_source(rd_table *t, uint32_t kind, const char *path, uint32_t *source);
/* The next sample, zeroed; NULL: no memory. Pointers to samples hold until then. */
rd_sample *rd_add_sample(rd_table *t);
/* The second image of the last sample; NULL: no memory. It holds until the next one. */
rd_ref *rd_add_second(rd_table *t);
/* Moves a sample, with what it has in other blocks, to a place that is free or its own, in front of it. */
void rd_move_sample(rd_table *t, size_t to, size_t from);
/* A file below the path of a source of kind RD_FILES. */
int rd_set_file(rd_table *t, rd_ref *ref, uint32_t source, const char *name, size_t n);
/* Fails with words on memory. */
int rd_no_memory(rd_listing *l);

int rd_open_sources(sp_ctx *ctx, rd_table *t);
int rd_load(const rd_table *t, const rd_ref *ref, rd_worker *w);
int rd_name(const rd_table *t, const rd_ref *ref, char *to, size_t size); /* as snprintf */

/* ---- kept.c ---- */
/* Before it is read: notes what the folder or file is now. */
int rd_stamp_path(rd_listing *l, const char *path);
int rd_still_so(const rd_table *t); /* all stamps hold */
/* A table that a reader uses, or a file holds, of the same; NULL: there is none that is still so. */
rd_table *rd_find_kept(const rd_params *p, const char *id);
/* Others may have it, and, where it is large, later processes. began: when the listing did, in ns since 1970.
 * Takes id. */
void rd_keep(rd_table *t, char *id, int64_t began);
void rd_release(rd_table *t);

/* ---- index.c ---- */
rd_table *rd_read_index(const rd_params *p, const char *id);
void rd_write_index(const rd_table *t, const char *id);

/* ---- samples.c ---- */
/* How many samples of the reader's split each class has, with blanks between, on the heap; NULL: no memory. */
char *rd_count_classes(const rd_self *self);
/* Of the reader's split: item 0 of labels: "LEAST MEAN MOST NONE", labels a sample and samples without one; items of
 * numbers, one a column: "LEAST MOST MEAN DEVIATION". */
int rd_figure_item(const void *self, uint64_t i, char *to, size_t size);

/* ---- layout.c ---- */
const rd_lister *rd_lister_named(const char *name, int target); /* NULL: there is none */
/* The table of what the parameters name. */
int rd_list(sp_ctx *ctx, const rd_params *p, rd_table **out);
/* Counts what lies in the folder of part k, or beside the parts (k = 2), and is none of `known`; known NULL: folders
 * are classes, and are read. */
void rd_look_beside(rd_listing *l, int k, const char *const *known);
/* Counts one entry of a folder: its path below the data's, and what rd_entry_kind says. */
void rd_leave(rd_left *left, const char *name, int kind);
void rd_leave_junk(rd_left *left, const char *name);
void rd_leave_dotted(rd_left *left, const char *name);
void rd_leave_alone(rd_left *left, const char *name);
void rd_leave_empty(rd_left *left, const char *name);
/* The files in the folder base/rel, and below it, whose formats are not read; of the first *most entries. 0:
 * there are none */
size_t rd_leave_unread(rd_left *left, const char *base, const char *rel, int depth, size_t *most);
/* "3 HEIC images, such as a/0.heic (heif-convert ...)", or nothing */
void rd_unread_words(const rd_left *left, char *words, size_t size);
/* One line, where anything was left out of what the reader reads; also in self->left_out. */
void rd_tell_left(sp_ctx *ctx, rd_self *self);
/* One line for classes that are in one part only. */
void rd_tell_odd_classes(sp_ctx *ctx, const rd_self *self);
/* Fails: nothing in `path` is laid out as one of the listers wants it. */
int rd_no_layout(sp_ctx *ctx, const char *path);
int rd_too_long(sp_ctx *ctx, const char *base, const char *rel);

/* ---- parts.c ---- */
/* A line on what was guessed, and how to say otherwise. */
void rd_note(rd_listing *l, const char *fmt, ...) SP_PRINTF(2, 3);
/* Some picture lies in the folder, or in one of those below it, at most `depth` folders down. */
int rd_has_picture(const char *path, int depth);
/* A folder whose name is one of masks: it has pictures, or outlines as .json, and not only lists. */
int rd_may_be_masks(const char *dir, const char *name);
/* Some subfolder has a picture, at any depth. */
int rd_has_folders(const char *path);
/* A subfolder is a part by its name, and has the layout. */
int rd_looks_divided(const char *dir, const rd_lister *lister);
/* The layout that at() finds in the only subfolder, or the only one with pictures, or in the only one of that; NULL:
 * there is none. */
const rd_lister *rd_look_within(const rd_params *p, const rd_lister *(*at)(const rd_params *p, const char *dir),
                                char *within, size_t size);
void rd_note_within(rd_listing *l); /* where it lies */
/* The data says itself what is for validation: fails where a parameter does so too. has: "has ..., which say". */
int rd_check_own(rd_listing *l, const char *has);
/* Makes val_path the second part. what: the layout in words. */
int rd_other_part(rd_listing *l, const char *what);
/* Which of the parts that are there is for training and which validates; RD_NO_PART: none. */
typedef struct rd_chosen {
  int part[2];
} rd_chosen;
int rd_choose_parts(rd_listing *l, const char *const names[RD_PARTS], rd_chosen *out);
/* Sets l->parts from what `path` holds. what: the layout in words. */
int rd_find_parts(rd_listing *l, const char *what);

/* ---- samples.c ---- */
/* Puts the name of the bytes in front of what the decoder says. */
int rd_blame(const rd_table *t, rd_worker *w, int rc, const rd_ref *ref);
/* What the worker's decoder has noted of that file: damage that changes no pixel; bits or channels that are lost. */
void rd_remark_damage(const rd_self *self, rd_worker *w, const rd_ref *ref);
void rd_remark_loss(const rd_self *self, rd_worker *w, const rd_ref *ref);

/* ---- twos.c ---- */
/* Fails where folders of classes are two images a sample by their names, with labels. */
int rd_doubt_classes(rd_listing *l, const char *dir);

/* ---- class_doubts.c ---- */
/* Fails where the folders in `dir`, and in those of its parts, are hardly classes; not where folders = "classes". */
int rd_check_classes(sp_ctx *ctx, const rd_params *p, const char *dir);
/* Two folders or more have pictures, and are neither parts nor images or masks by their names. */
int rd_may_be_classes(const char *dir);
/* Fails where images and masks lie in one folder, with the commands that part them. */
int rd_check_one_folder(sp_ctx *ctx, const char *dir);

/* ---- known_sets.c ---- */
/* Public sets whose labels or parts are in lists of their own, by the files that they have. Fails, or notes it. */
int rd_check_known(rd_listing *l);

/* ---- shard_names.c ---- */
int rd_names_shards(const char *path); /* a tar file, or a pattern of such, here or at an address, by its ending */
int rd_lists_shards(const char *path); /* a text file with one of these in each line */

/* ---- repeats.c ---- */
/* Calls seen(arg, earlier, later) for each sample whose file an earlier one has, too; it returns a status. */
int rd_find_repeats(rd_listing *l, int (*seen)(void *arg, size_t earlier, size_t later), void *arg);
/* Notes files that are listed twice, or in both parts; `repeats` says whether they stay. */
int rd_note_repeats(rd_listing *l);

/* ---- copies.c ---- */
/* Notes files that are in both parts with one name and content. */
int rd_note_copies(rd_listing *l);

/* ---- csv.c ---- */
int rd_is_csv(const char *path);  /* a file, by its ending */
int rd_has_csv(const char *path); /* ... or a folder with one such file */
int rd_check_one_csv(sp_ctx *ctx, const char *dir); /* fails for a folder with several */
/* Fails where a .csv file in `dir`, which would be read as folders of classes, names images that are there. */
int rd_doubt_tables(rd_listing *l, const char *dir);
int rd_stamp_csv(rd_listing *l);  /* the one in `path`: what its first line says decides on the layout */

/* ---- folders.c ---- */
/* DT_DIR, DT_REG or, for all else, DT_UNKNOWN; links are followed. -1: errno says why not. */
struct dirent;
int rd_entry_kind(const char *path, const struct dirent *e);
int rd_is_folder(const char *base, const char *sub);
/* The subfolders of `base` that are no junk, sorted. -1: errno says why not. */
int rd_subfolders(const char *base, rd_names *out);

#endif
