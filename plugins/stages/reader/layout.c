/* SPDX-License-Identifier: MIT
 * layout.c - which layout a folder has, its splits of its own, train/ and val/, and what is left out. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "table.h"

/* The first that fits is taken. */
static const rd_lister *const listers[] = {&rd_csv_labels, &rd_csv_masks, &rd_voc,   &rd_pairs,
                                           &rd_classes,    &rd_shards,    &rd_arrays};
static const char *const splits[] = {"train", "val"};

/* ---- what is not read ---- */
/* Keeps the name that comes first, as folders list theirs in any order. */
static void keep_first(char to[256], const char *name) {
  if (*name && (!*to || strcmp(name, to) < 0)) snprintf(to, 256, "%.255s", name);
}

void rd_leave(rd_left *left, const char *name, int kind) {
  if (kind == DT_DIR) left->folders++;
  else left->files++;
  keep_first(kind == DT_DIR ? left->folder : left->file, name);
}

static int is_one_of(const char *const *known, const char *name) {
  for (; known && *known; known++)
    if (!strcmp(*known, name)) return 1;
  return 0;
}

/* name: the end of `path`, below the data's folder. */
static void look_at(rd_left *left, const char *path, const char *name, const struct dirent *e, int classes) {
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR && classes) return;
  if (kind == DT_DIR || !rd_is_picture(name)) rd_leave(left, name, kind);
  else left->strays++;
  if (kind != DT_DIR) keep_first(left->file, name);
}

void rd_look_beside(rd_listing *l, int k, const char *const *known) {
  char path[4096];
  const char *base = l->parts[k < 2 ? k : 0].base, *rel = k < 2 ? l->parts[k].rel : "";
  DIR *d = snprintf(path, sizeof path, "%s/%s", base, rel) < (int)sizeof path ? opendir(path) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' || is_one_of(known, e->d_name)) continue;
    if (snprintf(path, sizeof path, "%s/%s%s", base, rel, e->d_name) < (int)sizeof path)
      look_at(&l->t->left[k], path, path + strlen(base) + 1, e, !known);
  }
  if (d) closedir(d);
}

/* "2 folders", or nothing; with a comma in front behind others. */
static void count(char *to, size_t size, size_t n, const char *one, const char *many) {
  size_t at = strlen(to);
  if (n) snprintf(to + at, size - at, "%s%zu %s", at ? ", " : "", n, n == 1 ? one : many);
}

static void join(rd_left *to, const rd_left *from) {
  to->folders += from->folders;
  to->files += from->files;
  to->strays += from->strays;
  to->unlisted += from->unlisted;
  keep_first(to->file, from->file);
  keep_first(to->folder, from->folder);
}

/* The readers of both splits of a folder see the same: it is told once. */
static void SP_PRINTF(2, 3) tell(sp_ctx *ctx, const char *fmt, ...) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static uint64_t told[16];
  static size_t n;
  char line[5120];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  uint64_t hash = rd_hash_bytes(line, strlen(line));
  pthread_mutex_lock(&lock);
  size_t k = 0;
  while (k < sizeof told / sizeof *told && told[k] != hash) k++;
  int news = k == sizeof told / sizeof *told;
  if (news) told[n++ % k] = hash;
  pthread_mutex_unlock(&lock);
  if (news) ctx->host->log(ctx, SP_LOG_INFO, "%s", line);
}

/* What was left out of the parts that `want` has a bit for, in words; none: nothing was. */
static void left_in_words(const rd_table *t, int want, char *words, size_t size) {
  rd_left l = t->left[2];
  for (int k = 0; k < t->n_parts; k++)
    if (want >> k & 1) join(&l, &t->left[k]);
  *words = 0;
  count(words, size, l.folders, "folder", "folders");
  count(words, size, l.strays, "image outside of the classes' folders", "images outside of the classes' folders");
  count(words, size, l.unlisted, "image that no list names", "images that no list names");
  count(words, size, l.files, "file of another ending", "files of other endings");
  size_t n = strlen(words);
  if (n) snprintf(words + n, size - n, ", such as %s", *l.file ? l.file : l.folder);
}

void rd_tell_left(sp_ctx *ctx, rd_self *self) {
  const rd_table *t = self->table;
  char all[sizeof self->left_out];
  int want = t->n_parts == 1 || self->p->split == RD_ALL ? 3 : self->p->split == RD_TRAIN ? 1 : 2;
  left_in_words(t, want, self->left_out, sizeof self->left_out);
  left_in_words(t, 3, all, sizeof all);
  if (*all) tell(ctx, "%s: left out: %s", self->p->path, all);
}

/* ---- splits ---- */
/* Is the split there, and laid out so? */
static int split_like(const char *base, int k, const rd_lister *lister) {
  char path[4096];
  return snprintf(path, sizeof path, "%s/%s", base, splits[k]) < (int)sizeof path && lister->like(path);
}

int rd_check_own(rd_listing *l, const char *has) {
  const rd_params *p = l->p;
  if (p->val_fraction.n)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "val_fraction = %g, but %s %s what is for validation; leave val_fraction out",
                              p->val_fraction.v[0], p->path, has);
  if (*p->val_path)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "val_path = \"%s\", but %s %s what is for validation; leave val_path out", p->val_path,
                              p->path, has);
  return SP_OK;
}

int rd_other_part(rd_listing *l, const char *what) {
  const rd_params *p = l->p;
  if (p->val_fraction.n)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "val_fraction = %g and val_path = \"%s\" both say what is for validation; leave one out",
                              p->val_fraction.v[0], p->val_path);
  if (p->target == RD_TARGET_MASK && !l->t->lister->like(p->val_path))
    return l->ctx->host->fail(l->ctx, SP_E_DATA, "%s holds %s, val_path = \"%s\" does not; give both the same layout",
                              p->path, what, p->val_path);
  l->t->n_parts = 2;
  l->parts[1] = (rd_part){p->val_path, ""};
  return SP_OK;
}

int rd_find_parts(rd_listing *l, const char *what) {
  sp_ctx *ctx = l->ctx;
  const char *base = l->p->path;
  int train = split_like(base, 0, l->t->lister), val = split_like(base, 1, l->t->lister);
  if (!rd_is_folder(base, splits[0]) || !rd_is_folder(base, splits[1]) || (!train && !val))
    return *l->p->val_path ? rd_other_part(l, what) : SP_OK;
  if (!train || !val)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s/%s holds %s, %s/%s does not; give both the same layout, or other names if they are no "
                           "splits",
                           base, splits[!train], what, base, splits[!val]);
  int rc = rd_check_own(l, "has train/ and val/, which say");
  l->t->n_parts = 2;
  l->parts[0] = (rd_part){base, "train/"};
  l->parts[1] = (rd_part){base, "val/"};
  return rc;
}

/* Classes that are in a part and not in the other; *first: the number of the first. */
static int64_t odd_ones(const uint8_t *in, int k, int64_t classes, int64_t *first) {
  int64_t n = 0;
  for (int64_t c = classes; c-- > 0;) {
    if (in[c] != 1 << k) continue;
    *first = c;
    n++;
  }
  return n;
}

/* The name of a class, or its number where they have none. */
static void name_class(const char *names, int64_t c, char *to, size_t size) {
  if (!names) snprintf(to, size, "%" PRId64, c);
  for (; names && c > 0; c--) names = strchr(names, '\n') + 1;
  if (names) snprintf(to, size, "%.*s", (int)strcspn(names, "\n"), names);
}

void rd_tell_odd_classes(sp_ctx *ctx, const rd_self *self) {
  const rd_table *t = self->table;
  const char *const *words = *self->p->val_path         ? (const char *const[]){self->p->path, self->p->val_path}
                             : t->lister == &rd_classes ? (const char *const[]){"train/", "val/"}
                                                        : splits;
  uint8_t *in = t->n_parts == 2 && t->gives == RD_LABEL ? calloc((size_t)self->classes, 1) : NULL;
  for (size_t i = 0; in && i < t->n; i++) in[t->samples[i].label] |= (uint8_t)(1 << (i >= t->ends[0]));
  for (int k = 0; in && k < 2; k++) {
    int64_t first, n = odd_ones(in, k, self->classes, &first);
    char name[256];
    if (!n) continue;
    name_class(self->class_names, first, name, sizeof name);
    tell(ctx, "%s: %" PRId64 " of the classes %s in %s and not in %s, such as %s", self->p->path, n,
         n == 1 ? "is" : "are", words[k], words[!k], name);
  }
  free(in);
}

/* ---- finding the layout ---- */
int rd_no_layout(sp_ctx *ctx, const char *path) {
  return ctx->host->fail(
      ctx, SP_E_NOTFOUND,
      "%s holds neither images/ and masks/ (target = \"mask\": images/*." RD_ENDINGS ", masks/*.png of "
      "the same names) nor subfolders with *." RD_ENDINGS " (target = \"class\": one for "
      "each class), nor one .csv file whose first line names file and label or mask, nor tar files or images.npy",
      path);
}

int rd_too_long(sp_ctx *ctx, const char *base, const char *rel) {
  return ctx->host->fail(ctx, SP_E_INVALID, "a path in %.200s is too long: %.200s...", base, rel);
}

static int check_path(sp_ctx *ctx, const char *name, const char *path) {
  struct stat st;
  if (rd_names_shards(path)) return SP_OK;
  const char *why = stat(path, &st)                          ? strerror(errno)
                    : S_ISDIR(st.st_mode) || rd_is_csv(path) ? NULL
                                                             : "neither a folder nor a .csv file";
  if (!why) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s: %s; %s is a folder of data, a .csv file or tar files%s", path, why,
                         name, *name == 'p' ? ", or \"shapes\" or \"random\"" : "");
}

/* Both to be read, and not the same one twice: what is learned would then be what is measured. */
static int check_paths(sp_ctx *ctx, const rd_params *p) {
  struct stat a, b;
  int rc = check_path(ctx, "path", p->path);
  if (rc || !*p->val_path) return rc;
  if ((rc = check_path(ctx, "val_path", p->val_path))) return rc;
  if (stat(p->path, &a) || stat(p->val_path, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino) return SP_OK;
  return ctx->host->fail(ctx, SP_E_INVALID, "val_path = \"%s\" is path itself; it names other samples", p->val_path);
}

static const rd_lister *lister_of(const rd_params *p) {
  if (p->files.n) return &rd_files;
  for (size_t i = 0; i < sizeof listers / sizeof *listers; i++) {
    const rd_lister *l = listers[i];
    if (l->target != RD_TARGET_ANY && l->target != p->target) continue;
    int parts = l->flags & RD_IN_SPLITS;
    if (l->like(p->path) || (parts && (split_like(p->path, 0, l) || split_like(p->path, 1, l)))) return l;
  }
  return p->target == RD_TARGET_CLASS ? &rd_classes : &rd_pairs; /* says what is missing */
}

/* Keeps the names of the parts' folders for messages. */
static int keep_roots(rd_listing *l) {
  char root[4096];
  for (int k = 0; k < l->t->n_parts; k++) {
    int n = snprintf(root, sizeof root, "%s%s%s", l->parts[k].base, *l->parts[k].rel ? "/" : "", l->parts[k].rel);
    if (n >= (int)sizeof root) return rd_too_long(l->ctx, l->parts[k].base, l->parts[k].rel);
    if (rd_add_bytes(l->t, root, (size_t)n - !!*l->parts[k].rel, &l->t->roots[k])) return rd_no_memory(l);
  }
  return SP_OK;
}

const rd_lister *rd_lister_named(const char *name, int target) {
  for (size_t i = 0; i < sizeof listers / sizeof *listers; i++)
    if (listers[i]->target == target && !strcmp(listers[i]->name, name)) return listers[i];
  return NULL;
}

/* What the parameters name, in words that are equal for equal data; NULL: no memory. */
static char *id_of(const rd_params *p) {
  char *path = realpath(p->path, NULL), *val = *p->val_path ? realpath(p->val_path, NULL) : NULL, *id = NULL;
  size_t n = path ? strlen(path) + (val ? strlen(val) : 0) + strlen(p->path) + strlen(p->val_path) + 16 : 0;
  if (path && (id = malloc(n)))
    snprintf(id, n, "%d\n%s\n%s\n%s\n%s", (int)p->target, p->path, path, p->val_path, val ? val : "");
  free(path);
  free(val);
  return id;
}

/* Listed anew, whatever is kept of it. */
static int list(sp_ctx *ctx, const rd_params *p, rd_table *t) {
  rd_listing l = {ctx, p, t, {{p->path, ""}}};
  t->lister = lister_of(p);
  t->n_parts = 1;
  t->users = 1;
  int rc = p->files.n ? SP_OK : rd_stamp_path(&l, p->path);
  if (!rc && *p->val_path) rc = rd_stamp_path(&l, p->val_path);
  if (!rc && !p->files.n) rc = rd_stamp_csv(&l);
  if (!rc) rc = t->lister->list(&l);
  if (!rc) rc = keep_roots(&l);
  if (!rc && t->n > INT32_MAX)
    rc = ctx->host->fail(ctx, SP_E_RANGE, "%zu images in %s; at most %d are possible", t->n, p->path, INT32_MAX);
  return rc;
}

int rd_list(sp_ctx *ctx, const rd_params *p, rd_table **out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int rc = p->files.n ? SP_OK : check_paths(ctx, p);
  if (rc) return rc;
  char *id = p->files.n ? NULL : id_of(p);
  if (id && (*out = rd_find_kept(p, id))) {
    free(id);
    return SP_OK;
  }
  rd_table *t = *out = calloc(1, sizeof *t);
  rc = t ? list(ctx, p, t) : ctx->host->fail(ctx, SP_E_NOMEM, "no memory for folder %s", p->path);
  if (!rc && id) rd_keep(t, id, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
  else free(id);
  return rc;
}
