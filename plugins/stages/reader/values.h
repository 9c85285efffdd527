/* SPDX-License-Identifier: MIT
 * values.h - several labels, or numbers, of a sample, where no table has them: in arrays and in tar files. */
#ifndef SP_PLUGINS_READER_VALUES_H
#define SP_PLUGINS_READER_VALUES_H

#include "array.h"
#include "table.h"
#include "words.h"

#define RD_MOST_NUMBERS 4096 /* of a sample: mean and std go with each */

/* ---- values.c ---- */
/* Puts a class or a number behind the table's cells. */
int rd_add_class(rd_listing *l, uint32_t c);
int rd_add_number(rd_listing *l, float v);
/* The number that a text is, as 1, -0.5 or 1e-3. 0: it is none, or not finite. */
int rd_read_number(const char *text, float *v);
/* The names of n labels or columns of numbers: classes.txt in `folder`, which has to have as many. Numbers without one
 * are called `name`, or "NAME 1" and so on. of: where the n are from, for words. */
int rd_name_values(rd_listing *l, const char *folder, const char *of, const char *name, int64_t n);
/* Notes columns of numbers that are the same in all samples. */
int rd_note_constant(rd_listing *l);

/* ---- array_labels.c ---- */
/* The samples of an array of `n` images in source[0], the second ones in source[1] or UINT32_MAX, with what labels.npy
 * at `path` says of them by the target. */
int rd_list_array_labels(rd_listing *l, rd_words *words, const char *path, int64_t n, const uint32_t source[2]);

/* ---- shard_labels.c ---- */
typedef struct rd_shard_labels rd_shard_labels;
/* NULL: it has failed. home: where classes.txt lies. */
rd_shard_labels *rd_open_shard_labels(rd_listing *l, const char *home);
void rd_close_shard_labels(rd_shard_labels *s);
/* What a member says, KEY.json or KEY.cls, into the sample. where: its name, for words. */
/* The class of a member without a label, where all samples lie in folders of one depth and of one folder: the last one
 * is its class. 1: that is not so. */
int rd_take_shard_folder(rd_shard_labels *s, const char *where, const char *member, rd_sample *to);
int rd_take_shard_label(rd_shard_labels *s, const char *where, const char *text, size_t n, int is_json, rd_sample *to);
/* After all of them: labels become numbers of classes. stem: as of rd_number_words. */
int rd_number_shard_labels(rd_shard_labels *s,
                           void (*stem)(const rd_table *t, const rd_sample *s, char *to, size_t size));

#endif
