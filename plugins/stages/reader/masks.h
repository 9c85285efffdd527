/* SPDX-License-Identifier: MIT
 * masks.h - what the pixels of a mask mean. */
#ifndef SP_PLUGINS_READER_MASKS_H
#define SP_PLUGINS_READER_MASKS_H

#include "class_file.h"

/* ---- mask_values.c ---- */
/* What the parameter mask_values says: the class of each grey value or index, or of each colour. */
struct rd_values {
  uint8_t of[256], known[256];
  rd_palette *colours; /* NULL: values are numbers */
};
/* Sets self->values from the parameter, where it is given. f: what classes.txt says; without one f gets the names. */
int rd_read_values(sp_ctx *ctx, rd_self *self, rd_class_file *f);
void rd_free_values(rd_values *v);

/* ---- masks.c ---- */
/* The labels of a mask, whose file is loaded by this, into w->mask. */
int rd_load_mask(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh);
/* Fails on a label that no class has, and that does not say "no label" either; what the values look like is said. */
int rd_check_labels(rd_self *self, rd_worker *w, const rd_ref *ref, int mw, int mh);

/* ---- survey.c ---- */
void rd_tally_mask(rd_tally *t, const uint8_t *labels, size_t n); /* several threads call it at once */
/* An item of the attribute `labels`: of some masks of the split, which are read when the first is asked for, and from
 * RD_LABELS_CHECKED and twice that on, with check, of those for training and for validation that were read. First "MASKS OF", how many are counted, of how many; then for
 * each class, and behind them for "no label", "PIXELS MASKS". "! " and why where a mask is wrong. */
#define RD_LABELS_CHECKED 512
int rd_label_item(const void *self, uint64_t i, char *to, size_t size);

#endif
