/* SPDX-License-Identifier: MIT
 * voc.c - the layout `voc`, PASCAL VOC's: JPEGImages/STEM.jpg, SegmentationClass/STEM.png, and lists of stems in
 * ImageSets/Segmentation, whose order is that of the samples. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kits/text/text.h"
#include "class_file.h"
#include "table.h"

#define IMAGES "JPEGImages"
#define MASKS "SegmentationClass"
#define LISTS "ImageSets/Segmentation"
#define MAX_LIST ((size_t)1 << 30) /* bytes */

static const char usual_classes[] =
    "background\naeroplane\nbicycle\nbird\nboat\nbottle\nbus\ncar\ncat\nchair\ncow\ndiningtable\ndog\nhorse\n"
    "motorbike\nperson\npottedplant\nsheep\nsofa\ntrain\ntvmonitor";

/* The folder of masks: SegmentationClass, or such as SegmentationClassAug. */
static const char *folder_of(const rd_listing *l) { return *l->p->mask_folder ? l->p->mask_folder : MASKS; }

/* What is being listed: the names of files there, sorted by stem, which of the images a list has named, and the table's
 * sources of them. */
typedef struct job {
  rd_listing *l;
  rd_names images, masks;
  uint8_t *named; /* [images.n]: 1 + the part */
  uint32_t image_source, mask_source;
} job;

/* ---- the folders ---- */
static int list_files(job *j, const char *sub, int (*is_wanted)(const char *name), rd_names *out, uint32_t *source) {
  char path[4096];
  sp_ctx *ctx = j->l->ctx;
  if (snprintf(path, sizeof path, "%s/%s", j->l->p->path, sub) >= (int)sizeof path)
    return rd_too_long(ctx, j->l->p->path, sub);
  int rc = rd_stamp_path(j->l, path);
  DIR *d = opendir(path);
  if (!d) return ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  for (struct dirent *e; !rc && (e = readdir(d));)
    if (e->d_name[0] != '.' && is_wanted(e->d_name)) rc = rd_names_add(out, e->d_name);
  closedir(d);
  rd_names_sort(out, rd_by_stem);
  if (!rc) rc = rd_add_source(j->l->t, RD_FILES, path, source);
  return rc ? rd_no_memory(j->l) : SP_OK;
}

/* ---- the lists ---- */
typedef struct line {
  const char *path;
  int number;
  char *stem;
} line;

static int complain(job *j, const line *at, const char *words, const char *cure) {
  return j->l->ctx->host->fail(j->l->ctx, SP_E_DATA, "%s line %d: %.255s %s; %s", at->path, at->number, at->stem, words,
                               cure);
}

static int add_sample(job *j, const line *at, int part) {
  char words[256];
  rd_table *t = j->l->t;
  char **image = rd_find_stem(&j->images, at->stem), **mask = rd_find_stem(&j->masks, at->stem);
  if (!image) return complain(j, at, "has no file in " IMAGES, "put STEM." RD_ENDINGS " there, or take the line out");
  if (!mask) {
    snprintf(words, sizeof words, "has no file in %.200s", folder_of(j->l));
    return complain(j, at, words, "put STEM.png there, or take the line out");
  }
  uint8_t *named = &j->named[image - j->images.v];
  if (*named)
    return complain(j, at, *named == 1 + part ? "is there twice" : "is in train.txt as well", "take one of them out");
  *named = (uint8_t)(1 + part);
  rd_sample *s = rd_add_sample(t);
  if (!s || rd_set_file(t, &s->image, j->image_source, *image, strlen(*image)) ||
      rd_set_file(t, &s->mask, j->mask_source, *mask, strlen(*mask)))
    return rd_no_memory(j->l);
  s->key = rd_hash_name(*image);
  return SP_OK;
}

/* Lists of images for each class have -1, 0 or 1 behind the stem. */
static int ends_in_flag(const char *text) {
  const char *blank = strrchr(text, ' '), *tab = strrchr(text, '\t');
  if (!blank || (tab && tab > blank)) blank = tab;
  return blank && (!strcmp(blank + 1, "-1") || !strcmp(blank + 1, "0") || !strcmp(blank + 1, "1"));
}

/* A line of two paths, of an image and its mask: /JPEGImages/1.jpg /SegmentationClass/1.png. Its stem is left. */
static int take_paths(job *j, line *at, char **text) {
  char *blank = strpbrk(*text, " \t"), *slash = strrchr(*text, '/'), *mask = blank, *name;
  if (!blank || !slash || slash < blank || !memchr(*text, '/', (size_t)(blank - *text))) return SP_OK;
  while (*mask == ' ' || *mask == '\t') *mask++ = 0;
  *slash = 0;
  name = strrchr(mask, '/') ? strrchr(mask, '/') + 1 : mask;
  char *own = strrchr(*text, '/') + 1;
  if (strcmp(name, folder_of(j->l)) != 0) {
    at->stem = name;
    char cure[400];
    snprintf(cure, sizeof cure, "`mask_folder = \"%.255s\"` takes it", name);
    return complain(j, at, "is another folder of masks than the one that is read", cure);
  }
  if (rd_stem_length(own) != rd_stem_length(slash + 1) || strncmp(own, slash + 1, rd_stem_length(own)) != 0) {
    own[rd_stem_length(own)] = 0;
    at->stem = own;
    return complain(j, at, "has a mask of another stem", "give both one stem, or write a .csv file of both");
  }
  own[rd_stem_length(own)] = 0;
  *text = own;
  return SP_OK;
}

/* One line: a stem, which may have blanks. */
static int take_line(job *j, line *at, char *text, int part) {
  char *end = text + strlen(text);
  text_trim(&text, &end);
  *end = 0;
  if (!*text) return SP_OK;
  int rc = rd_find_stem(&j->images, text) ? SP_OK : take_paths(j, at, &text);
  if (rc) return rc;
  end = text + strlen(text);
  at->stem = text;
  if (end - text > NAME_MAX) return complain(j, at, "is too long a name", "each line is the stem of a file");
  if (ends_in_flag(text) && !rd_find_stem(&j->images, text))
    return complain(j, at, "is more than a name",
                    "lists of " LISTS " are read, which have a stem a line, not those "
                    "of one class");
  return add_sample(j, at, part);
}

/* The samples of one list, which is there. */
static int take_list(job *j, const char *name, int part) {
  char path[4096], why[TEXT_WHY];
  text_file file = {NULL, 0};
  sp_ctx *ctx = j->l->ctx;
  line at = {path, 0, NULL};
  size_t from = j->l->t->n;
  snprintf(path, sizeof path, "%s/" LISTS "/%s", j->l->p->path, name);
  int rc = rd_stamp_path(j->l, path);
  if (!rc && (rc = text_read(path, MAX_LIST, 0, &file, why))) rc = ctx->host->fail(ctx, rc, "%s: %s", path, why);
  char *rest = file.p, *text;
  for (at.number = 1; !rc && (text = strsep(&rest, "\n")); at.number++) rc = take_line(j, &at, text, part);
  text_free(&file);
  if (!rc && j->l->t->n == from) rc = ctx->host->fail(ctx, SP_E_DATA, "%s names no images; one stem a line", path);
  j->l->t->ends[part] = j->l->t->n;
  return rc;
}

static int has_list(const char *base, const char *name) {
  char path[4096];
  FILE *f = snprintf(path, sizeof path, "%s/" LISTS "/%s", base, name) < (int)sizeof path ? fopen(path, "re") : NULL;
  if (f) fclose(f);
  return f != NULL;
}

static int take_lists(job *j) {
  rd_listing *l = j->l;
  const char *base = l->p->path;
  char lists[4096];
  if (snprintf(lists, sizeof lists, "%s/" LISTS, base) >= (int)sizeof lists) return rd_too_long(l->ctx, base, LISTS);
  int stamped = rd_stamp_path(l, lists);
  if (stamped) return stamped;
  int train = has_list(base, "train.txt"), val = has_list(base, "val.txt");
  if (!train && !val && has_list(base, "trainval.txt")) return take_list(j, "trainval.txt", 0);
  if (!train || !val)
    return l->ctx->host->fail(l->ctx, SP_E_NOTFOUND,
                              "%s/" LISTS "/%s.txt is missing; the splits are train.txt and val.txt, a stem a line, or "
                              "trainval.txt alone is divided by val_fraction",
                              base, train ? "val" : "train");
  int rc = rd_check_own(l, "has " LISTS "/train.txt and val.txt, which say");
  l->t->n_parts = 2;
  l->parts[1] = l->parts[0];
  if (!rc) rc = take_list(j, "train.txt", 0);
  return rc ? rc : take_list(j, "val.txt", 1);
}

/* ---- the layout ---- */
/* With masks and without lists the two folders are pairs. */
static int voc_like(const char *dir) {
  if (!rd_is_folder(dir, IMAGES)) return 0;
  if (rd_is_folder(dir, MASKS)) return rd_is_folder(dir, LISTS);
  return rd_is_folder(dir, "ImageSets") || rd_is_folder(dir, "Annotations");
}

/* A folder of masks beside the usual one, such as SegmentationClassAug; NULL: there is none. */
static const char *other_masks(const rd_listing *l, char name[256]) {
  rd_names names = {0};
  *name = 0;
  rd_subfolders(l->p->path, &names);
  for (size_t i = 0; i < names.n && !*name; i++)
    if (!strncmp(names.v[i], MASKS, sizeof MASKS - 1) && strcmp(names.v[i], MASKS) != 0)
      snprintf(name, 256, "%s", names.v[i]);
  rd_names_free(&names);
  return *name ? name : NULL;
}

/* Of what PASCAL VOC has, masks are read, not boxes and not several classes an image. */
static int check_kind(rd_listing *l) {
  char name[256];
  const char *base = l->p->path;
  if (l->p->target == RD_TARGET_CLASS)
    return l->ctx->host->fail(l->ctx, SP_E_UNSUPPORTED,
                              "%s is laid out as PASCAL VOC, whose lists in ImageSets/Main name several classes an "
                              "image: not for target = \"class\"; target = \"mask\" reads " MASKS,
                              base);
  if (*l->p->val_path)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "val_path = \"%s\", but %s is laid out as PASCAL VOC, whose lists say what is for "
                              "validation; leave val_path out",
                              l->p->val_path, base);
  if (rd_is_folder(base, folder_of(l)) && rd_is_folder(base, LISTS)) return SP_OK;
  const char *other = other_masks(l, name);
  if (other && rd_is_folder(base, LISTS))
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s is laid out as PASCAL VOC without %s, but with %s: `mask_folder = \"%s\"` takes it",
                              base, folder_of(l), other, other);
  return l->ctx->host->fail(l->ctx, SP_E_UNSUPPORTED,
                            "%s is laid out as PASCAL VOC without %s: boxes and classes of images (Annotations, "
                            "ImageSets/Main) are not read; target = \"mask\" wants " MASKS "/*.png and " LISTS "/*.txt",
                            base, rd_is_folder(base, MASKS) ? LISTS : MASKS);
}

static void count_unlisted(job *j) {
  rd_left *left = &j->l->t->left[2];
  for (size_t i = 0; i < j->images.n; i++) {
    if (j->named[i]) continue;
    if (!left->unlisted++) snprintf(left->file, sizeof left->file, IMAGES "/%.200s", j->images.v[i]);
  }
}

/* More masks lie there than are read. */
static void note_others(rd_listing *l) {
  char name[256];
  if (!*l->p->mask_folder && other_masks(l, name))
    rd_note(l, MASKS "/ is read, and not %s/: `mask_folder = \"%s\"` takes that one", name, name);
}

static int voc_list(rd_listing *l) {
  job j = {.l = l};
  int rc = check_kind(l);
  l->t->gives = RD_MASK;
  if (!rc) rc = list_files(&j, IMAGES, rd_is_picture, &j.images, &j.image_source);
  if (!rc) rc = list_files(&j, folder_of(l), rd_is_mask, &j.masks, &j.mask_source);
  if (!rc && !(j.named = calloc(j.images.n + 1, 1))) rc = rd_no_memory(l);
  if (!rc) rc = take_lists(&j);
  if (!rc) count_unlisted(&j);
  if (!rc) note_others(l);
  free(j.named);
  rd_names_free(&j.images);
  rd_names_free(&j.masks);
  return rc;
}

static int voc_settle(sp_ctx *ctx, rd_self *self) {
  const char *base = self->p->path;
  int rc = rd_settle_masks(ctx, self, base, usual_classes);
  if (!rc && !strcmp(self->class_names, usual_classes))
    ctx->host->log(ctx, SP_LOG_INFO, "%s: the classes are PASCAL VOC's 21", base);
  return rc;
}

const rd_lister rd_voc = {"voc", RD_TARGET_ANY, voc_like, voc_list, voc_settle, RD_KEPT};
