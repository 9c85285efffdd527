/* SPDX-License-Identifier: MIT
 * kept.c - tables that hold for more than one reader: those in use are shared, large ones go to a file (index.c).
 *
 * A table holds as long as the folders and lists that it was made of are what they were. A folder that changed in the
 * two seconds before it was read could change again without its time showing it, so such a table is not kept. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "table.h"

#define LARGE 10000                 /* samples: from here on a file pays */
#define SETTLED INT64_C(2000000000) /* ns */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of each table's `users` */
static rd_table *tables;

/* ---- stamps ---- */
static rd_stamp stamp_of(const char *path) {
  struct stat st;
  if (stat(path, &st)) return (rd_stamp){0};
  int64_t mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
  return (rd_stamp){0, st.st_dev, st.st_ino, mtime, S_ISDIR(st.st_mode) ? 0 : st.st_size};
}

int rd_stamp_path(rd_listing *l, const char *path) {
  rd_table *t = l->t;
  rd_stamp s = stamp_of(path), *to = rd_grow(t->stamps, t->n_stamps, 1, &t->stamps_cap, sizeof *to);
  if (!to) return rd_no_memory(l);
  t->stamps = to;
  if (rd_add_bytes(t, path, strlen(path), &s.path)) return rd_no_memory(l);
  if (s.mtime > t->newest) t->newest = s.mtime;
  t->stamps[t->n_stamps++] = s;
  return SP_OK;
}

int rd_still_so(const rd_table *t) {
  for (size_t i = 0; i < t->n_stamps; i++) {
    rd_stamp was = t->stamps[i], is = stamp_of(t->bytes + was.path);
    if (is.dev != was.dev || is.ino != was.ino || is.mtime != was.mtime || is.size != was.size) return 0;
  }
  return 1;
}

/* ---- sharing ---- */
static void share(rd_table *t, char *id) {
  pthread_mutex_lock(&lock);
  t->id = id;
  t->next = tables;
  tables = t;
  pthread_mutex_unlock(&lock);
}

static rd_table *find_shared(const char *id) {
  pthread_mutex_lock(&lock);
  rd_table *t = tables;
  while (t && (strcmp(t->id, id) != 0 || !rd_still_so(t))) t = t->next;
  if (t) t->users++;
  pthread_mutex_unlock(&lock);
  return t;
}

void rd_release(rd_table *t) {
  if (!t) return;
  pthread_mutex_lock(&lock);
  int left = --t->users;
  for (rd_table **p = &tables; !left && *p; p = &(*p)->next) {
    if (*p != t) continue;
    *p = t->next;
    break;
  }
  pthread_mutex_unlock(&lock);
  if (!left) rd_table_free(t);
}

rd_table *rd_find_kept(const rd_params *p, const char *id) {
  rd_table *t = find_shared(id);
  char *copy = t ? NULL : strdup(id);
  if (t || !copy) return t;
  if ((t = rd_read_index(p, id))) share(t, copy);
  else free(copy);
  return t;
}

void rd_keep(rd_table *t, char *id, int64_t began) {
  if (!(t->lister->flags & RD_KEPT) || t->newest > began - SETTLED) {
    free(id);
    return;
  }
  if (t->n >= LARGE && !t->seconds) rd_write_index(t, id);
  share(t, id);
}
