/* SPDX-License-Identifier: MIT
 * index.c - a table as a file in the cache folder, for the next process.
 *
 * It is the table's blocks one behind another. A file of another version or machine, or a damaged one, is as good as
 * none; one that cannot be written costs the time of listing again. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

#define MAGIC UINT64_C(0x32787864692d7073) /* the bytes tell the order of bytes, too */

typedef struct head {
  uint64_t magic, sum; /* of all that follows */
  uint32_t sample_size, source_size, stamp_size, left_size;
  uint64_t id_size, names_size, n_bytes, n_sources, n_samples, n_stamps,
      n_cells; /* sizes with their 0; 0: there is none */
  uint64_t ends[2], roots[2], home, notes;
  int64_t classes;
  int32_t n_parts, gives, target, reserved;
  char lister[16];
  rd_left left[3];
} head;

/* ---- which file ---- */
/* 0 where there is no folder for it: no home. */
static int path_of(const char *id, char path[PATH_MAX]) {
  const char *own = getenv("SPCORE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  uint64_t h = rd_hash_bytes(id, strlen(id));
  int n = own && *own     ? snprintf(path, PATH_MAX, "%s/index-%016" PRIx64, own, h)
          : xdg && *xdg   ? snprintf(path, PATH_MAX, "%s/spcore/index-%016" PRIx64, xdg, h)
          : home && *home ? snprintf(path, PATH_MAX, "%s/.cache/spcore/index-%016" PRIx64, home, h)
                          : -1;
  return n > 0 && n < PATH_MAX;
}

static int make_folders(char *path) {
  for (char *p = path + 1; (p = strchr(p, '/')); p++) {
    *p = 0;
    int made = !mkdir(path, 0777) || errno == EEXIST;
    *p = '/';
    if (!made) return 0;
  }
  return 1;
}

/* ---- the blocks ---- */
typedef struct block {
  void *p;
  size_t n;
} block;
enum { ID, NAMES, BYTES, SOURCES, SAMPLES, STAMPS, CELLS, BLOCKS };

/* Eight bytes at a time: it is to find damage, and to be fast. */
static uint64_t sum_of(uint64_t sum, const void *p, size_t n) {
  const uint8_t *b = p;
  for (uint64_t v; n; b += n < 8 ? n : 8, n -= n < 8 ? n : 8) {
    v = 0;
    memcpy(&v, b, n < 8 ? n : 8);
    sum = (sum ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    sum ^= sum >> 32;
  }
  return sum;
}

static uint64_t sum_all(const head *h, const block blocks[BLOCKS]) {
  size_t from = offsetof(head, sample_size);
  uint64_t sum = sum_of(MAGIC, (const char *)h + from, sizeof *h - from);
  for (int i = 0; i < BLOCKS; i++) sum = sum_of(sum, blocks[i].p, blocks[i].n);
  return sum;
}

static void lay_out(const head *h, block blocks[BLOCKS]) {
  const uint64_t sizes[] = {h->id_size,
                            h->names_size,
                            h->n_bytes,
                            h->n_sources * sizeof(rd_source),
                            h->n_samples * sizeof(rd_sample),
                            h->n_stamps * sizeof(rd_stamp),
                            h->n_cells * sizeof(uint32_t)};
  for (int i = 0; i < BLOCKS; i++) blocks[i].n = sizes[i];
}

/* ---- writing ---- */
static head head_of(const rd_table *t, const char *id) {
  head h;
  memset(&h, 0, sizeof h); /* gaps too: they are summed */
  h.magic = MAGIC;
  h.sample_size = sizeof(rd_sample);
  h.source_size = sizeof(rd_source);
  h.stamp_size = sizeof(rd_stamp);
  h.left_size = sizeof(rd_left);
  h.id_size = strlen(id) + 1;
  h.names_size = t->class_names ? strlen(t->class_names) + 1 : 0;
  h.n_bytes = t->n_bytes;
  h.n_sources = t->n_sources;
  h.n_samples = t->n;
  h.n_stamps = t->n_stamps;
  h.n_cells = t->n_cells;
  memcpy(h.ends, t->ends, sizeof h.ends);
  memcpy(h.roots, t->roots, sizeof h.roots);
  h.home = t->home;
  h.notes = t->notes;
  h.classes = t->classes;
  h.n_parts = t->n_parts;
  h.gives = t->gives;
  h.target = t->lister->target;
  snprintf(h.lister, sizeof h.lister, "%s", t->lister->name);
  memcpy(h.left, t->left, sizeof h.left);
  return h;
}

static int write_blocks(FILE *f, const rd_table *t, const char *id) {
  head h = head_of(t, id);
  block b[BLOCKS];
  lay_out(&h, b);
  void *const at[] = {(char *)id, t->class_names, t->bytes, t->sources, t->samples, t->stamps, t->cells};
  for (int i = 0; i < BLOCKS; i++) b[i].p = at[i];
  h.sum = sum_all(&h, b);
  int written = fwrite(&h, sizeof h, 1, f) == 1;
  for (int i = 0; written && i < BLOCKS; i++) written = !b[i].n || fwrite(b[i].p, b[i].n, 1, f) == 1;
  return written;
}

void rd_write_index(const rd_table *t, const char *id) {
  char path[PATH_MAX], temp[PATH_MAX + 8];
  if (!path_of(id, path) || !make_folders(path)) return;
  snprintf(temp, sizeof temp, "%s.XXXXXX", path);
  int fd = mkstemp(temp);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  int written = f && write_blocks(f, t, id);
  if (f && fclose(f)) written = 0;
  else if (!f && fd >= 0) close(fd);
  if (fd >= 0 && (!written || rename(temp, path))) unlink(temp);
}

/* ---- reading ---- */
/* The sizes are believed where they add up to the file's, so that no memory is asked for that it would not fill. */
static int is_ours(const head *h, uint64_t file_size) {
  if (h->magic != MAGIC || h->sample_size != sizeof(rd_sample) || h->source_size != sizeof(rd_source) ||
      h->stamp_size != sizeof(rd_stamp) || h->left_size != sizeof(rd_left))
    return 0;
  if (h->id_size > file_size || h->names_size > file_size || h->n_bytes > file_size || h->n_sources > file_size ||
      h->n_samples > file_size || h->n_stamps > file_size || h->n_cells > file_size || file_size >> 40)
    return 0;
  block b[BLOCKS];
  uint64_t all = sizeof *h;
  lay_out(h, b);
  for (int i = 0; i < BLOCKS; i++) all += b[i].n;
  return all == file_size && (h->n_parts == 1 || h->n_parts == 2) && h->id_size && h->n_bytes && h->n_samples;
}

static int read_blocks(FILE *f, const head *h, block blocks[BLOCKS]) {
  lay_out(h, blocks);
  for (int i = 0; i < BLOCKS; i++) {
    if (!blocks[i].n) continue;
    if (!(blocks[i].p = malloc(blocks[i].n)) || fread(blocks[i].p, blocks[i].n, 1, f) != 1) return 0;
  }
  return sum_all(h, blocks) == h->sum;
}

/* Of a shard a place lies before the name. */
static int good_ref(const rd_ref *r, const rd_source *sources, const head *h) {
  return r->source < h->n_sources && r->at < h->n_bytes &&
         (sources[r->source].kind != RD_SHARD || h->n_bytes - r->at > sizeof(uint64_t));
}

static int good_cells(const rd_cells *c, const head *h, const uint32_t *cells) {
  if (c->at > h->n_cells || c->n > h->n_cells - c->at) return 0;
  if (h->gives == RD_NUMBERS) return c->n == (uint64_t)h->classes;
  for (uint32_t i = 0; i < c->n; i++)
    if (cells[c->at + i] >= (uint64_t)h->classes) return 0;
  return 1;
}

/* A sum is no proof: nothing in the table may lead outside of it. */
static int holds_together(const head *h, const block b[BLOCKS]) {
  const rd_source *sources = b[SOURCES].p;
  const rd_sample *samples = b[SAMPLES].p;
  const rd_stamp *stamps = b[STAMPS].p;
  const char *bytes = b[BYTES].p, *names = b[NAMES].p;
  int good = !bytes[h->n_bytes - 1] && (!names || !names[h->names_size - 1]) &&
             h->ends[h->n_parts == 2] == h->n_samples && h->ends[0] <= h->n_samples && h->roots[0] < h->n_bytes &&
             h->roots[1] < h->n_bytes && h->home < h->n_bytes && h->notes < h->n_bytes;
  for (uint64_t i = 0; good && i < h->n_sources; i++)
    good = (sources[i].kind == RD_FILES || sources[i].kind == RD_SHARD) && sources[i].path < h->n_bytes &&
           sources[i].file < h->n_bytes && sources[i].tag < h->n_bytes;
  for (uint64_t i = 0; good && i < h->n_stamps; i++) good = stamps[i].path < h->n_bytes;
  for (uint64_t i = 0; good && i < h->n_samples; i++) {
    const rd_sample *s = &samples[i];
    good = good_ref(&s->image, sources, h) && (h->gives == RD_MASK    ? good_ref(&s->mask, sources, h)
                                               : h->gives == RD_LABEL ? s->label >= 0 && s->label < h->classes
                                                                      : good_cells(&s->cells, h, b[CELLS].p));
  }
  return good;
}

/* The table takes the blocks, but for the id. */
static rd_table *table_of(const head *h, block b[BLOCKS], const rd_lister *lister) {
  rd_table *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  *t = (rd_table){.lister = lister,
                  .users = 1,
                  .bytes = b[BYTES].p,
                  .n_bytes = h->n_bytes,
                  .sources = b[SOURCES].p,
                  .n_sources = h->n_sources,
                  .samples = b[SAMPLES].p,
                  .n = h->n_samples,
                  .stamps = b[STAMPS].p,
                  .n_stamps = h->n_stamps,
                  .cells = b[CELLS].p,
                  .n_cells = h->n_cells,
                  .home = h->home,
                  .notes = h->notes,
                  .n_parts = h->n_parts,
                  .gives = h->gives,
                  .classes = h->classes,
                  .class_names = b[NAMES].p};
  for (size_t i = 0; i < t->n_sources; i++) t->sources[i].data = NULL;
  memcpy(t->ends, h->ends, sizeof t->ends);
  memcpy(t->roots, h->roots, sizeof t->roots);
  memcpy(t->left, h->left, sizeof t->left);
  for (int i = NAMES; i < BLOCKS; i++) b[i].p = NULL;
  return t;
}

static rd_table *read_table(FILE *f, const rd_params *p, const char *id) {
  struct stat st;
  head h;
  block b[BLOCKS] = {{NULL, 0}};
  if (fstat(fileno(f), &st) || fread(&h, sizeof h, 1, f) != 1 || !is_ours(&h, (uint64_t)st.st_size)) return NULL;
  h.lister[sizeof h.lister - 1] = 0;
  const rd_lister *lister = rd_lister_named(h.lister, h.target);
  int whole = lister && (h.target == p->target || h.target == RD_TARGET_ANY) && read_blocks(f, &h, b) &&
              h.id_size == strlen(id) + 1 && !memcmp(b[ID].p, id, h.id_size) && holds_together(&h, b);
  rd_table *t = whole ? table_of(&h, b, lister) : NULL;
  for (int i = 0; i < BLOCKS; i++) free(b[i].p);
  return t;
}

rd_table *rd_read_index(const rd_params *p, const char *id) {
  char path[PATH_MAX];
  FILE *f = path_of(id, path) ? fopen(path, "re") : NULL;
  rd_table *t = f ? read_table(f, p, id) : NULL;
  if (f) fclose(f);
  if (!t || rd_still_so(t)) return t;
  rd_table_free(t);
  return NULL;
}
