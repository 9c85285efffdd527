/* SPDX-License-Identifier: MIT
 * layout.c - which layout a folder has, and what is left out. */
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

#include "../../kits/fetch/fetch.h"
#include "shard_names.h"
#include "table.h"
#include "words.h"

/* The first that fits is taken. */
static const rd_lister *const listers[] = {&rd_csv_class, &rd_csv_masks, &rd_csv_maps, &rd_csv_labels, &rd_csv_numbers,
                                           &rd_voc,       &rd_twos,      &rd_map_twos, &rd_pairs,      &rd_map_pairs,
                                           &rd_classes,   &rd_shards,    &rd_arrays};
static const char *const splits[] = {"the part for training", "the part for validation"};

/* ---- what is not read ---- */
/* Keeps the name that comes first, as folders list theirs in any order. */
static void keep_least(char *to, size_t size, const char *name) {
  if (*name && (!*to || strcmp(name, to) < 0)) snprintf(to, size, "%s", name);
}
static void keep_first(char to[256], const char *name) { keep_least(to, 256, name); }

void rd_leave(rd_left *left, const char *name, int kind) {
  int format = kind == DT_DIR ? -1 : what_ending(name);
  if (format >= 0) {
    left->unread[format]++;
    keep_least(left->odd[format], sizeof left->odd[0], name);
    return;
  }
  if (kind == DT_DIR) left->folders++;
  else left->files++;
  keep_first(kind == DT_DIR ? left->folder : left->file, name);
}

static int is_one_of(const char *const *known, const char *name) {
  for (; known && *known; known++)
    if (!strcmp(*known, name)) return 1;
  return 0;
}

void rd_leave_junk(rd_left *left, const char *name) {
  left->junk++;
  keep_first(left->hidden, name);
}

void rd_leave_dotted(rd_left *left, const char *name) {
  left->dotted++;
  keep_first(left->key, name);
}

void rd_leave_alone(rd_left *left, const char *name) {
  left->alone++;
  keep_first(left->single, name);
}

void rd_leave_empty(rd_left *left, const char *name) {
  left->empty++;
  keep_first(left->bare, name);
}

size_t rd_leave_unread(rd_left *left, const char *base, const char *rel, int depth, size_t *most) {
  char path[4096];
  size_t n = 0, at = strlen(base) + 1;
  DIR *d = snprintf(path, sizeof path, "%s/%s", base, rel) < (int)sizeof path ? opendir(path) : NULL;
  for (struct dirent *e; d && *most && (e = readdir(d));) {
    if (*e->d_name == '.') continue;
    --*most;
    if (snprintf(path, sizeof path, "%s/%s%s%s", base, rel, *rel ? "/" : "", e->d_name) >= (int)sizeof path) continue;
    int kind = rd_entry_kind(path, e);
    if (kind == DT_DIR && depth > 0) n += rd_leave_unread(left, base, path + at, depth - 1, most);
    else if (kind != DT_DIR && what_ending(e->d_name) >= 0) rd_leave(left, path + at, kind), n++;
  }
  if (d) closedir(d);
  return n;
}

/* name: the end of `path`, below the data's folder. */
static void look_at(rd_left *left, const char *path, const char *name, const struct dirent *e, int classes) {
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR && classes) return;
  if (kind == DT_DIR || !rd_is_picture(name)) rd_leave(left, name, kind);
  else left->strays++;
  if (kind != DT_DIR) keep_first(left->file, name);
}

/* A folder that is read as a part. */
static int is_part(const rd_listing *l, const char *name) {
  size_t at = strlen(l->within), n = strlen(name);
  for (int k = 0; k < l->t->n_parts; k++) {
    const char *rel = l->parts[k].rel;
    if (strlen(rel) > at && !strncmp(rel + at, name, n) && rel[at + n] == '/') return 1;
  }
  return 0;
}

static int is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

void rd_look_beside(rd_listing *l, int k, const char *const *known) {
  char path[4096];
  const char *base = l->parts[k < 2 ? k : 0].base, *rel = k < 2 ? l->parts[k].rel : l->within;
  DIR *d = snprintf(path, sizeof path, "%s/%s", base, rel) < (int)sizeof path ? opendir(path) : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (is_dots(e->d_name) || is_one_of(known, e->d_name) || (k == 2 && is_part(l, e->d_name))) continue;
    if (snprintf(path, sizeof path, "%s/%s%s", base, rel, e->d_name) >= (int)sizeof path) continue;
    if (rd_is_junk(e->d_name)) rd_leave_junk(&l->t->left[k], path + strlen(base) + 1);
    else look_at(&l->t->left[k], path, path + strlen(base) + 1, e, !known);
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
  to->empty += from->empty;
  to->junk += from->junk;
  to->dotted += from->dotted;
  to->alone += from->alone;
  keep_first(to->key, from->key);
  keep_first(to->single, from->single);
  keep_first(to->bare, from->bare);
  keep_first(to->hidden, from->hidden);
  keep_first(to->file, from->file);
  keep_first(to->folder, from->folder);
  for (int i = 0; i < WHAT_FORMATS; i++) {
    to->unread[i] += from->unread[i];
    keep_least(to->odd[i], sizeof to->odd[i], from->odd[i]);
  }
}

void rd_unread_words(const rd_left *left, char *words, size_t size) {
  for (int i = 0; i < WHAT_FORMATS; i++) {
    const what_format *f = what_of(i);
    if (!left->unread[i]) continue;
    count(words, size, left->unread[i], f->one, f->many);
    size_t n = strlen(words);
    snprintf(words + n, size - n, "%s%s%s, to be converted: %s", left->unread[i] == 1 ? " (" : ", such as ",
             left->odd[i], left->unread[i] == 1 ? ")" : "", f->cure);
  }
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

/* What was left out, in words; none: nothing was. */
static void left_in_words(const rd_table *t, char *words, size_t size) {
  rd_left l = t->left[2];
  for (int k = 0; k < t->n_parts; k++) join(&l, &t->left[k]);
  *words = 0;
  count(words, size, l.folders, "folder", "folders");
  count(words, size, l.strays, "image outside of the classes' folders", "images outside of the classes' folders");
  count(words, size, l.unlisted, "image that no list names", "images that no list names");
  count(words, size, l.files, "file of another ending", "files of other endings");
  size_t n = strlen(words);
  if (n) snprintf(words + n, size - n, ", such as %s", *l.file ? l.file : l.folder);
  count(words, size, l.empty, "folder without a picture that is read", "folders without a picture that is read");
  n = strlen(words);
  if (l.empty) snprintf(words + n, size - n, l.empty == 1 ? " (%s)" : ", such as %s", l.bare);
  rd_unread_words(&l, words, size);
  count(words, size, l.junk, "hidden or system file", "hidden or system files");
  n = strlen(words);
  if (l.junk) snprintf(words + n, size - n, l.junk == 1 ? " (%s)" : ", such as %s", l.hidden);
  count(words, size, l.alone, "label or mask without an image", "labels or masks without an image");
  n = strlen(words);
  if (l.alone) snprintf(words + n, size - n, l.alone == 1 ? " (%s)" : ", such as %s", l.single);
  count(words, size, l.dotted, "member with a dot in its key", "members with a dot in their key");
  n = strlen(words);
  if (l.dotted) snprintf(words + n, size - n, " (%s; a key ends at the first dot of a name)", l.key);
}

/* What was guessed, a line each. */
static void tell_notes(sp_ctx *ctx, const rd_self *self) {
  const rd_table *t = self->table;
  for (const char *p = t->bytes + t->notes, *end; *p; p = *end ? end + 1 : end) {
    end = p + strcspn(p, "\n");
    tell(ctx, "%s: %.*s", self->p->path, (int)(end - p), p);
  }
}

void rd_tell_left(sp_ctx *ctx, rd_self *self) {
  tell_notes(ctx, self);
  left_in_words(self->table, self->left_out, sizeof self->left_out);
  if (*self->left_out) tell(ctx, "%s: left out: %s", self->p->path, self->left_out);
}

/* ---- classes of one part ---- */
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
  const char *const *words = *self->p->val_path ? (const char *const[]){self->p->path, self->p->val_path} : splits;
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
  rd_left *left = calloc(1, sizeof *left);
  char words[4096] = "";
  size_t most = 100000; /* entries: the folder may be any */
  if (left && rd_leave_unread(left, path, "", 3, &most)) rd_unread_words(left, words, sizeof words);
  free(left);
  int both = rd_check_one_folder(ctx, path);
  if (both) return both;
  if (*words)
    return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s holds no image of a format that is read, but %s", path, words);
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

/* What a file is that is named as the data, and what makes data of it. */
static int about_file(const char *path, char *words, size_t size) {
  char what[WHAT_WORDS];
  int known = what_is_file(path, what), form = what_ending(path);
  const char *dot = strrchr(path, '.');
  if (dot && !strcasecmp(dot, ".json"))
    snprintf(words, size, "it is JSON, as of COCO or LabelMe: spcore_import.py %s -o NEW makes tar files of it", path);
  else if (known && strstr(what, "zip archive"))
    snprintf(words, size, "it is a zip archive; unpack it, or spcore_import.py %s -o NEW makes tar files of it", path);
  else if (known && strstr(what, "spcore_import.py"))
    snprintf(words, size, "%.*s; spcore_import.py %s -o NEW makes tar files of it", (int)strcspn(what, ";"), what,
             path);
  else if (known) snprintf(words, size, "%s", what);
  else if (form >= 0)
    snprintf(words, size, "it is one of the %s, to be converted: %s", what_of(form)->many, what_of(form)->cure);
  return known || form >= 0;
}

static int check_path(sp_ctx *ctx, const char *name, const char *path) {
  char what[PATH_MAX + 2 * WHAT_WORDS];
  struct stat st = {0};
  if (rd_names_shards(path) || rd_lists_shards(path)) return SP_OK;
  if (fetch_is_address(path))
    return ctx->host->fail(
        ctx, SP_E_INVALID,
        "%s: of addresses tar files are read, such as https://host/data/train-{000000..000015}.tar, or a text "
        "file that lists them; spcore_import.py makes tar files",
        path);
  const char *why = stat(path, &st)                          ? strerror(errno)
                    : S_ISDIR(st.st_mode) || rd_is_csv(path) ? NULL
                                                             : "neither a folder nor a .csv, .tsv or .txt file";
  if (!why) return SP_OK;
  if (S_ISREG(st.st_mode) && about_file(path, what, sizeof what))
    return ctx->host->fail(ctx, SP_E_NOTFOUND, "%s: %s; %s is a folder of data, a .csv file or tar files", path, what,
                           name);
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

/* The layout of that folder; NULL: it has none. */
static const rd_lister *lister_at(const rd_params *p, const char *dir) {
  if (*p->csv.columns && rd_has_csv(dir)) return rd_lister_named("csv", p->target);
  for (size_t i = 0; i < sizeof listers / sizeof *listers; i++) {
    const rd_lister *l = listers[i];
    if (l->target != RD_TARGET_ANY && l->target != p->target) continue;
    if (p->target == RD_TARGET_MAP && l == &rd_voc) continue; /* its masks have classes */
    if (l == &rd_csv_class && p->folders != RD_FOLDERS_AUTO && !rd_is_csv(dir)) continue; /* they are asked for */
    if (l->like(dir) || (l->flags & RD_IN_SPLITS && rd_looks_divided(dir, l))) return l;
  }
  return NULL;
}

/* Sets the layout, and where it lies. */
static int find_lister(rd_listing *l) {
  const rd_params *p = l->p;
  const rd_lister *found = p->files.n ? &rd_files : lister_at(p, p->path);
  if (!found && !*p->val_path && (found = rd_look_within(p, lister_at, l->within, sizeof l->within))) {
    size_t n = strlen(l->within) - 1;
    if (!(found->flags & RD_WITHIN))
      return l->ctx->host->fail(l->ctx, SP_E_NOTFOUND,
                                "%s holds nothing but %.*s/; that is laid out as %s: give its path, %s/%.*s", p->path,
                                (int)n, l->within, found->name, p->path, (int)n, l->within);
    rd_note_within(l);
  }
  int unfit =
      RD_OF_ROWS(p->target) && found && found->target != p->target && found != &rd_arrays && found != &rd_shards;
  int rc = p->files.n || (found && found != &rd_classes && found != &rd_pairs) ? SP_OK : rd_check_known(l);
  if (!rc && (!found || unfit)) rc = rd_check_one_csv(l->ctx, p->path);
  if (rc) return rc;
  if (RD_OF_ROWS(p->target) && (!found || unfit))
    return l->ctx->host->fail(l->ctx, SP_E_NOTFOUND,
                              "%s: target = \"%s\" reads a .csv file, with a row for each image, or a folder with one "
                              "such file, images.npy beside labels.npy, or tar files%s%s",
                              p->path, rd_targets[p->target], found ? "; this is laid out as " : "",
                              found ? found->name : "");
  if (found == &rd_classes && p->folders != RD_FOLDERS_CLASSES) {
    char dir[4096];
    snprintf(dir, sizeof dir, "%.2000s%s%.*s", p->path, *l->within ? "/" : "", (int)strlen(l->within) - !!*l->within,
             l->within);
    if ((rc = rd_doubt_classes(l, dir)) || (rc = rd_doubt_tables(l, dir))) return rc;
  }
  if (*p->second_name && found && found != &rd_pairs && found != &rd_map_pairs)
    return l->ctx->host->fail(
        l->ctx, SP_E_INVALID,
        "second_name = \"%s\" goes with images/ beside masks/ or depth/, and %s is laid out as %s; two "
        "images a sample are also read of a .csv file with the columns file, second and label or mask",
        p->second_name, p->path, found->name);
  l->t->lister = found                          ? found
                 : p->target == RD_TARGET_CLASS ? &rd_classes
                 : p->target == RD_TARGET_MAP   ? &rd_map_pairs
                                                : &rd_pairs; /* says what is missing */
  return SP_OK;
}

static int keep_home(rd_listing *l) {
  char home[4096];
  size_t n = strlen(l->within);
  if (snprintf(home, sizeof home, "%s%s%s", l->p->path, n ? "/" : "", l->within) >= (int)sizeof home)
    return rd_too_long(l->ctx, l->p->path, l->within);
  if (rd_add_bytes(l->t, home, strlen(home) - !!n, &l->t->home) ||
      rd_add_bytes(l->t, l->notes, strlen(l->notes), &l->t->notes))
    return rd_no_memory(l);
  return SP_OK;
}

const rd_lister *rd_lister_named(const char *name, int target) {
  for (size_t i = 0; i < sizeof listers / sizeof *listers; i++)
    if (listers[i]->target == target && !strcmp(listers[i]->name, name)) return listers[i];
  return NULL;
}

static char *real_path(const char *path) { return fetch_is_address(path) ? strdup(path) : realpath(path, NULL); }

/* What the parameters name, in words that are equal for equal data; NULL: no memory. */
static char *id_of(const rd_params *p) {
  const rd_csv_params *c = &p->csv;
  char *path = real_path(p->path), *val = *p->val_path ? real_path(p->val_path) : NULL, *id = NULL;
  const char *const texts[] = {p->path,        path,       p->val_path, val,          p->mask_name,
                               p->mask_values, p->mask_folder, p->second_name, c->columns, c->root,     c->val_value,
                               c->label_separator, rd_sampling_column(p)};
  int own = p->val_fraction.n || p->folds; /* decides on what test/ is for */
  size_t n = 256, at;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) n += texts[i] ? strlen(texts[i]) + 1 : 1;
  if (path && (id = malloc(n))) {
    at = (size_t)sprintf(id, "%d %d %d %d %d %d %d %d %d %d", (int)p->target, (int)p->folders, own, (int)c->separator,
                         (int)c->header, (int)c->cells, (int)c->label_case, (int)c->missing, (int)c->repeats,
                         (int)c->decimal);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
      at += (size_t)sprintf(id + at, "\n%s", texts[i] ? texts[i] : "");
  }
  free(path);
  free(val);
  return id;
}

/* Listed anew, whatever is kept of it. */
static int list(sp_ctx *ctx, const rd_params *p, rd_table *t) {
  rd_listing l = {ctx, p, t, {{p->path, ""}}, "", {"", ""}, ""};
  t->n_parts = 1;
  t->users = 1;
  int rc = find_lister(&l);
  if (!rc && !p->files.n) rc = rd_stamp_path(&l, p->path);
  if (!rc && *p->val_path) rc = rd_stamp_path(&l, p->val_path);
  if (!rc && !p->files.n) rc = rd_stamp_csv(&l);
  if (!rc) rc = t->lister->list(&l);
  if (!rc) rc = rd_note_copies(&l);
  char a[256], b[256];
  if (!rc && p->csv.label_case != RD_CASE_KEEP && t->gives == RD_LABEL && rd_find_alike(t->class_names, a, b))
    rd_note(&l, "the classes %s and %s differ by case, blanks or accents alone; if they are one, give them one name", a,
            b);
  if (!rc) rc = keep_home(&l);
  if (!rc && t->n > INT32_MAX)
    rc = ctx->host->fail(ctx, SP_E_RANGE, "%zu images in %s; at most %d are possible", t->n, p->path, INT32_MAX);
  return rc;
}

int rd_list(sp_ctx *ctx, const rd_params *p, rd_table **out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int rc = p->files.n ? SP_OK : check_paths(ctx, p);
  if (!rc && !p->files.n) rc = rd_fetch(ctx, p);
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
