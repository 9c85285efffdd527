/* SPDX-License-Identifier: MIT
 * pictures.c - see pictures.h. */
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/abi.h>

int ir_pictures_init(ir_pictures *p, int workers) {
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->decoded, NULL);
  p->n = workers + 1;
  p->v = calloc((size_t)p->n, sizeof *p->v);
  return p->v ? SP_OK : SP_E_NOMEM;
}

void ir_pictures_free(ir_pictures *p) {
  if (!p->n) return; /* not begun */
  for (int i = 0; p->v && i < p->n; i++) {
    free(p->v[i].path);
    im_buf_free(&p->v[i].px);
  }
  free(p->v);
  pthread_cond_destroy(&p->decoded);
  pthread_mutex_destroy(&p->lock);
}

static ir_picture *find(ir_pictures *p, const char *path) {
  for (int i = 0; i < p->n; i++)
    if (p->v[i].path && !strcmp(p->v[i].path, path)) return &p->v[i];
  return NULL;
}

/* The one that was used longest ago. There is one without users: each thread has at most one. */
static ir_picture *oldest(ir_pictures *p) {
  ir_picture *found = NULL;
  for (int i = 0; i < p->n; i++)
    if (!p->v[i].users && (!found || p->v[i].used < found->used)) found = &p->v[i];
  return found;
}

/* The file as numbers, which the picture keeps; what is scratch goes at once. */
static int read_numbers(ir_picture *one, im_decoder *d, const im_keep *keep, int64_t max_pixels) {
  im_buf raw = {0};
  int rc = im_keep_read(d, keep, max_pixels, &raw, &one->px, &one->is);
  im_buf_free(&raw);
  one->w = one->is.w;
  one->h = one->is.h;
  return rc;
}

static void decode(ir_picture *one, im_decoder *d, const im_keep *keep, int64_t max_pixels) {
  int least_w = d->least_w, least_h = d->least_h;
  d->least_w = d->least_h = 0; /* windows are of the whole picture */
  one->rc = im_load(d, one->path);
  if (!one->rc)
    one->rc = keep ? read_numbers(one, d, keep, max_pixels) : im_rgb(d, max_pixels, &one->px, &one->w, &one->h);
  d->least_w = least_w;
  d->least_h = least_h;
  snprintf(one->why, sizeof one->why, "%s", one->rc ? d->why : "");
  snprintf(one->lost, sizeof one->lost, "%s", one->rc ? "" : d->lost);
  snprintf(one->note, sizeof one->note, "%s", one->rc ? "" : d->note);
}

ir_picture *ir_pictures_get(ir_pictures *p, const char *path, im_decoder *d, const im_keep *keep, int64_t max_pixels) {
  pthread_mutex_lock(&p->lock);
  ir_picture *one = find(p, path);
  int mine = !one;
  if (mine && (one = oldest(p))) {
    free(one->path);
    one->path = strdup(path);
    one->ready = 0;
    if (!one->path) one = NULL;
  }
  if (one) {
    one->users++;
    one->used = ++p->now;
  }
  while (one && !mine && !one->ready) pthread_cond_wait(&p->decoded, &p->lock);
  pthread_mutex_unlock(&p->lock);
  if (!one || !mine) return one;
  decode(one, d, keep, max_pixels);
  pthread_mutex_lock(&p->lock);
  one->ready = 1;
  pthread_cond_broadcast(&p->decoded);
  pthread_mutex_unlock(&p->lock);
  return one;
}

void ir_pictures_put(ir_pictures *p, ir_picture *picture) {
  pthread_mutex_lock(&p->lock);
  picture->users--;
  pthread_mutex_unlock(&p->lock);
}
