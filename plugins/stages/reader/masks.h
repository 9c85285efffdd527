/* SPDX-License-Identifier: MIT
 * masks.h - what the pixels of a mask mean. */
#ifndef SP_PLUGINS_READER_MASKS_H
#define SP_PLUGINS_READER_MASKS_H

#include "class_file.h"

/* ---- mask_values.c ---- */
/* What the parameter mask_values says: the class of each value, or of each colour. */
typedef struct rd_value_range {
  int32_t from, to, label;
} rd_value_range;
struct rd_values {
  uint8_t of[256], known[256]; /* of the values that have a byte */
  rd_value_range *ranges;      /* of the others, in no order; on the heap */
  size_t n_ranges;
  int32_t divisor;     /* values from it on are divided by it first; 0: none is */
  int is_listed;       /* there are entries; else values are labels once they are divided */
  rd_palette *colours; /* NULL: values are numbers */
};
/* The label of a value; -1: there is no entry for it. */
int rd_label_of(const rd_values *v, int32_t value);
/* Sets self->values from the parameter, where it is given. f: what classes.txt says; without one f gets the names. */
int rd_read_values(sp_ctx *ctx, rd_self *self, rd_class_file *f);
void rd_free_values(rd_values *v);

/* ---- masks.c ---- */
/* The labels of a mask, whose file is loaded by this, into w->mask. */
int rd_load_mask(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh);
/* Fails on a label that no class has, and that does not say "no label" either; what the values look like is said. */
int rd_check_labels(rd_self *self, rd_worker *w, const rd_ref *ref, int mw, int mh);

/* ---- mask_words.c ---- */
/* What the values of a mask are that are no labels, and what to do, into `to`. */
void rd_explain_bytes(const rd_self *self, const uint8_t *p, size_t n, char *to, size_t size);
void rd_explain_values(const rd_self *self, const int32_t *p, size_t n, char *to, size_t size);
/* "'NAME'" of a class, or its number. */
const char *rd_class_name(const rd_self *self, int label, char to[128]);

/* ---- survey.c ---- */
void rd_tally_mask(rd_tally *t, const uint8_t *labels, size_t n); /* several threads call it at once */
/* An item of the attribute `labels`: of some masks of the split, which are read when the first is asked for, and
 * from RD_LABELS_CHECKED and twice that on, with check, of those for training and for validation that were read.
 * First "MASKS OF", how many are counted, of how many; then for each class, and behind them for "no label", "PIXELS
 * MASKS". "! " and why where a mask is wrong. The item RD_PALETTES says in words that palettes of some masks of the
 * split differ; "": they do not. */
#define RD_LABELS_CHECKED 512
#define RD_PALETTES 511
int rd_label_item(const void *self, uint64_t i, char *to, size_t size);

#endif
