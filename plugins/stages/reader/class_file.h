/* SPDX-License-Identifier: MIT
 * class_file.h - classes.txt: a class a line, perhaps with the colour that it has in masks. */
#ifndef SP_PLUGINS_READER_CLASS_FILE_H
#define SP_PLUGINS_READER_CLASS_FILE_H

#include "table.h"

#define RD_MAX_COLOURS 1024 /* of classes and of void */
#define RD_VOID 255         /* the label of no class */

typedef struct rd_class_file {
  char *names; /* one a line, without a last line break; NULL: there is no such file. On the heap */
  int64_t n;
  rd_palette *palette; /* NULL: the lines have no colours. On the heap */
} rd_class_file;

/* dir: where classes.txt lies. On failure nothing is kept. */
int rd_read_classes(sp_ctx *ctx, const char *dir, rd_class_file *out);
/* Names and number of the classes of masks, and their colours: of classes.txt in `dir`, else `usual`, a list of names,
 * else the parameter. */
int rd_settle_masks(sp_ctx *ctx, rd_self *self, const char *dir, const char *usual);

/* Gives a colour a label, in a table that is made where *p is NULL. 1; 0: it has one already; -1: no more fit. */
int rd_add_colour(rd_palette **p, uint32_t colour, int label);
/* RGB triples become labels, which may lie where the triples begin.
 * The place of the first pixel whose colour no class has, else n. */
size_t rd_map_colours(const rd_palette *p, const uint8_t *rgb, size_t n, uint8_t *labels);

#endif
