/* SPDX-License-Identifier: MIT
 * maps.h - maps: a number for each pixel, such as a depth. */
#ifndef SP_PLUGINS_READER_MAPS_H
#define SP_PLUGINS_READER_MAPS_H

#include "table.h"

/* Reads the parameters. */
int rd_open_maps(sp_ctx *ctx, rd_self *self);
/* Of a layout with maps: there are no classes. */
int rd_settle_maps(sp_ctx *ctx, rd_self *self);
/* The values of a map, whose file is loaded by this, as floats into w->image; NaN: none. */
int rd_load_map(rd_self *self, rd_worker *w, const rd_ref *ref, int *mw, int *mh);
/* Values less mean, by std, where these are given. */
void rd_scale_map(const rd_self *self, float *v, size_t n);
/* The item of the attribute `map`: "MAPS OF PIXELS WITHOUT LEAST MEDIAN MOST MEAN DEVIATION" of some maps of the split,
 * PIXELS of which WITHOUT have no value; "! " and why where a map is wrong. */
int rd_map_item(const void *self, uint64_t i, char *to, size_t size);

#endif
