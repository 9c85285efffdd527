/* SPDX-License-Identifier: MIT
 * pile.h - scores of an image's windows, added up in their order and divided by how many there are of each pixel. */
#ifndef IMAGE_WRITER_PILE_H
#define IMAGE_WRITER_PILE_H

#include "image_writer.h"

/* Takes window `at` of the batch, place i, whose scores are b->logits; with the last one of its image *scores is their
 * mean, of base_w x base_h, valid until the next call, otherwise its `v` is NULL. The windows of an image come in a
 * row; where one is missing the rest is rejected, and so
 * are all where there is no room. What fails is told to the host. */
int iw_pile_add(const iw_batch *b, int64_t i, const im_window *at, const char *path, im_scores *scores);
void iw_pile_free(iw_pile *p);

#endif
