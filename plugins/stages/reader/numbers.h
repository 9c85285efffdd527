/* SPDX-License-Identifier: MIT
 * numbers.h - images that keep what their files hold, as numbers of any type and channels. */
#ifndef SP_PLUGINS_READER_NUMBERS_H
#define SP_PLUGINS_READER_NUMBERS_H

#include "table.h"

/* Reads the parameters, and where the table's first file has to say how many channels there are, that. */
int rd_open_numbers(sp_ctx *ctx, rd_self *self);
/* As fill_image of samples.c: the size that the image had goes to *iw and *ih, what it is to *print. */
int rd_fill_numbers(rd_self *self, rd_worker *w, const rd_ref *ref, uint64_t *print, void *out, int *iw, int *ih);
/* An item of the attribute `numbers`: "IMAGES OF TYPE CHANNELS" of those that were looked at, some of the split, or
 * with check all that were read; then for each channel "LEAST MOST MEAN DEVIATION". "! " and why where one is wrong. */
int rd_number_item(const void *self, uint64_t i, char *to, size_t size);

#endif
