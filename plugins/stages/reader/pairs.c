/* SPDX-License-Identifier: MIT
 * pairs.c - the layout `pairs`: images/STEM.ENDING and masks/STEM.png, sorted by stem, whatever the two are called and
 * however they are divided into parts. And a list of images alone. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "class_file.h"
#include "maps.h"
#include "mask_names.h"
#include "pairs.h"
#include "table.h"
#include "two_names.h"

#define MOST_DEPTH 16 /* of folders within each other */

/* ---- which folders ---- */
/* The folders of images and of masks, of each part, below `dir`; "": there is none. RD_NO_PART: of no part. */
typedef struct plan {
  char of[RD_PARTS][3][512]; /* [part][RD_IMAGES, RD_MASKS] */
  char bare[RD_PARTS][512];  /* parts that hold pictures themselves: train/ beside trainannot/ */
  char twice[2][512];        /* two folders that would both be one; "": none */
  int of_maps;               /* RD_MASKS are folders that are called as maps are */
} plan;

static rd_folder_name read_name(const plan *p, const char *name) {
  return p->of_maps ? rd_read_map_folder_name(name) : rd_read_folder_name(name);
}

static int is_usual(const char *rel, int kind) {
  const char *slash = strrchr(rel, '/');
  return !strcmp(slash ? slash + 1 : rel, kind == RD_MASKS ? "masks" : "images");
}

static void put(plan *p, int part, int kind, const char *rel) {
  char *to = p->of[part][kind];
  if (*to && is_usual(to, kind)) return;
  if (*to && !is_usual(rel, kind) && !*p->twice[0]) {
    snprintf(p->twice[0], sizeof p->twice[0], "%s", to);
    snprintf(p->twice[1], sizeof p->twice[1], "%s", rel);
  }
  snprintf(to, sizeof p->of[0][0], "%s", rel);
}

static int join(char to[512], const char *a, const char *b) { return snprintf(to, 512, "%s/%s", a, b) < 512; }

/* images/train, and train/images. Whether the folder is divided so. */
static int look_into(plan *p, const char *dir, const char *name, rd_folder_name of) {
  char path[4096], rel[512];
  rd_names names = {0};
  int divided = 0;
  if (snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path) rd_subfolders(path, &names);
  for (size_t i = 0; i < names.n; i++) {
    rd_folder_name n = read_name(p, names.v[i]);
    int part = of.part ? of.part : n.part, kind = of.kind ? of.kind : n.kind;
    if (!join(rel, name, names.v[i]) || !part || !kind || (n.part && n.part != part) || (n.kind && n.kind != kind))
      continue;
    put(p, part, kind, rel);
    divided = 1;
  }
  rd_names_free(&names);
  if (!divided && of.part && rd_has_picture(path, 0)) snprintf(p->bare[of.part], sizeof p->bare[0], "%s", name);
  return divided;
}

static void look_as(const char *dir, plan *p, int of_maps) {
  rd_names names = {0};
  memset(p, 0, sizeof *p);
  p->of_maps = of_maps;
  rd_subfolders(dir, &names);
  for (size_t i = 0; i < names.n; i++) {
    rd_folder_name n = read_name(p, names.v[i]);
    if (strlen(names.v[i]) > 255 || (!n.part && !n.kind)) continue;
    if (n.part && n.kind) put(p, n.part, n.kind, names.v[i]);
    else if (!look_into(p, dir, names.v[i], n) && n.kind) put(p, RD_NO_PART, n.kind, names.v[i]);
  }
  for (int k = RD_TRAIN_PART; k < RD_PARTS; k++)
    if (*p->of[k][RD_MASKS] && !*p->of[k][RD_IMAGES]) memcpy(p->of[k][RD_IMAGES], p->bare[k], sizeof p->bare[k]);
  rd_names_free(&names);
}

static int has_both(const plan *p, int part) { return *p->of[part][RD_IMAGES] && *p->of[part][RD_MASKS]; }
static int has_one(const plan *p, int part) { return *p->of[part][RD_IMAGES] || *p->of[part][RD_MASKS]; }
static int has_any(const plan *p) {
  return has_both(p, RD_NO_PART) || has_both(p, RD_TRAIN_PART) || has_both(p, RD_VAL_PART) || has_both(p, RD_TEST_PART);
}

/* Maps lie in a folder that is called as they are, or in one for masks. */
static void look(const char *dir, plan *p, int target) {
  look_as(dir, p, target == RD_TARGET_MAP);
  if (target == RD_TARGET_MAP && !has_any(p)) look_as(dir, p, 0);
}

/* Both, or one by its usual name: the other one is then what is missing. */
static int pairs_like(const char *dir) {
  plan p;
  look(dir, &p, RD_TARGET_MASK);
  return has_any(&p) || rd_is_folder(dir, "images") || rd_is_folder(dir, "masks");
}

static int maps_like(const char *dir) {
  plan p;
  look(dir, &p, RD_TARGET_MAP);
  return has_any(&p) || rd_is_folder(dir, "images") || rd_is_folder(dir, "depth");
}

/* ---- what is in them ---- */
/* A folder that is listed, perhaps with all below. rel: where in paths the name below the data's folder begins. */
typedef struct sweep {
  rd_listing *l;
  const char *path;
  size_t rel;
  int is_deep;
  rd_names *out;
  rd_left *left;
} sweep;

static int list_folder(const sweep *s, const char *within, int depth);

/* One entry of the folder path/within, whose name is `name` from `path` on. */
static int list_entry(const sweep *s, const char *name, const struct dirent *e, int depth) {
  char path[4096 + NAME_MAX + 2];
  sp_ctx *ctx = s->l->ctx;
  if (snprintf(path, sizeof path, "%s/%s", s->path, name) >= (int)sizeof path)
    return rd_too_long(ctx, s->path, name);
  if (rd_is_junk(e->d_name)) {
    rd_leave_junk(s->left, path + s->rel);
    return SP_OK;
  }
  int kind = rd_entry_kind(path, e);
  if (kind == DT_DIR && s->is_deep && depth < MOST_DEPTH) return list_folder(s, name, depth + 1);
  if (kind == DT_DIR || !(rd_is_picture(e->d_name) || rd_is_array(e->d_name))) {
    rd_leave(s->left, path + s->rel, kind);
    return SP_OK;
  }
  if (kind < 0)
    return ctx->host->fail(ctx, SP_E_IO, "%s: %s; a link that leads nowhere is removed or made again", path,
                           strerror(errno));
  return rd_names_add(s->out, name) ? rd_no_memory(s->l) : SP_OK;
}

static int list_folder(const sweep *s, const char *within, int depth) {
  char path[4096], name[4096];
  sp_ctx *ctx = s->l->ctx;
  if (snprintf(path, sizeof path, "%s%s%s", s->path, *within ? "/" : "", within) >= (int)sizeof path)
    return rd_too_long(ctx, s->path, within);
  int rc = rd_stamp_path(s->l, path);
  DIR *d = opendir(path);
  if (!d)
    return ctx->host->fail(ctx, errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO,
                           "folder %s: %s; a data folder holds images/*." RD_ENDINGS
                           " and masks/*.png of the same names (built-in sets are \"shapes\" and \"random\")",
                           path, strerror(errno));
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (snprintf(name, sizeof name, "%s%s%s", within, *within ? "/" : "", e->d_name) >= (int)sizeof name)
      rc = rd_too_long(ctx, path, e->d_name);
    else rc = list_entry(s, name, e, depth);
  }
  if (!rc && errno) rc = ctx->host->fail(ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  closedir(d);
  return rc;
}

/* What is wrong with a folder without a picture. */
static int no_pictures(sp_ctx *ctx, const char *path, int is_masks, const rd_left *left) {
  size_t n = strlen(left->file);
  const char *boxes = is_masks && n > 4 && !strcmp(left->file + n - 4, ".txt")
                          ? "; .txt files are those of boxes and outlines, which are not read"
                      : is_masks && n > 5 && !strcmp(left->file + n - 5, ".json")
                          ? "; .json files are those of boxes and outlines, which are not read"
                          : "";
  char words[4096] = "";
  rd_unread_words(left, words, sizeof words);
  return ctx->host->fail(ctx, SP_E_NOTFOUND, "folder %s holds no *.%s%s%s%s", path, is_masks ? "png" : RD_ENDINGS,
                         boxes, *words ? ", but " : "", words);
}

static int list_all(const sweep *s, int is_masks) {
  int rc = list_folder(s, "", 0);
  return rc || s->out->n ? rc : no_pictures(s->l->ctx, s->path, is_masks, s->left);
}

int rd_list_pictures(rd_listing *l, const char *path, size_t rel, int is_masks, rd_names *out, rd_left *left) {
  return list_all(&(sweep){l, path, rel, 0, out, left}, is_masks);
}

int rd_list_below(rd_listing *l, const char *path, size_t rel, int is_masks, rd_names *out, rd_left *left) {
  return list_all(&(sweep){l, path, rel, 1, out, left}, is_masks);
}

/* ---- into the table ---- */
int rd_check_stems(sp_ctx *ctx, const char *where, const rd_names *images) {
  for (size_t i = 1; i < images->n; i++)
    if (rd_same_stem(images->v[i - 1], images->v[i]))
      return ctx->host->fail(ctx, SP_E_DATA, "%s: %s and %s have the same stem; one mask can belong to one only", where,
                             images->v[i - 1], images->v[i]);
  return SP_OK;
}

int rd_check_ending(rd_listing *l, const char *const where[2], const char *image, const char *mask) {
  if (rd_has_labels(mask) || *l->p->mask_values || l->p->target == RD_TARGET_MAP) return SP_OK;
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s/%s has no PNG mask; %s/%s is there: labels are read of PNG, TIFF and .npy files, since others (JPEG) change "
      "them; save it as PNG, or say which values mean what, as `mask_values = \"0-127=ground,128-255=object\"`",
      where[0], image, where[1], mask);
}

int rd_add_pair(rd_table *t, uint32_t images, uint32_t masks, const char *image, const char *mask) {
  rd_sample *s = rd_add_sample(t);
  if (!s) return SP_E_NOMEM;
  s->key = rd_hash_name(image);
  int rc = rd_set_file(t, &s->image, images, image, strlen(image));
  return rc ? rc : rd_set_file(t, &s->mask, masks, mask, strlen(mask));
}

enum { LOOK_FOR_TWOS = 64 }; /* images: where none of the first has another one, none is looked for */

/* The words by which two names differ, with the sign in front of them, or behind: "_pre" and "_post". */
static void differing(const char *a, const char *b, char to[2][64]) {
  size_t from = 0, tail = 0, n[2] = {rd_stem_length(a), rd_stem_length(b)};
  while (from < n[0] && from < n[1] && a[from] == b[from]) from++;
  while (from && isalnum((unsigned char)a[from - 1])) from--;
  while (tail < n[0] - from && tail < n[1] - from && a[n[0] - 1 - tail] == b[n[1] - 1 - tail]) tail++;
  while (tail && isalnum((unsigned char)a[n[0] - tail])) tail--;
  if (from) from--;
  else if (tail) tail--;
  snprintf(to[0], 64, "%.*s", (int)(n[0] - tail - from), a + from);
  snprintf(to[1], 64, "%.*s", (int)(n[1] - tail - from), b + from);
}

/* x_pre.png and x_post.png in one folder may be two images of one sample: each is one here, and needs a mask. */
static int doubt_twos(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks) {
  char stem[256], **other, parts[2][64];
  size_t n = 0, first = 0, second = 0;
  for (size_t i = 0; i < images->n && (n || i < LOOK_FOR_TWOS); i++) {
    if (!rd_stem_as(images->v[i], RD_STEM_OTHER, stem) || !(other = rd_find_stem(images, stem))) continue;
    if (!n++) first = i, second = (size_t)(other - images->v);
  }
  if (!n || 2 * n != images->n) return SP_OK;
  differing(images->v[first], images->v[second], parts);
  const char *a = images->v[first], *b = images->v[second];
  if (masks->n < images->n)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s: all images come in twos, such as %s and %s, and %s has %zu files for %zu images; "
                              "`second_name = \"%s=%s\"` reads them as the two images of a sample",
                              where[0], a, b, where[1], masks->n, images->n, parts[0], parts[1]);
  rd_note(l,
          "%s: all images come in twos, such as %s and %s; each is read as a sample with a mask of its own; "
          "`second_name = \"%s=%s\"` reads them as the two images of a sample",
          where[0], a, b, parts[0], parts[1]);
  return SP_OK;
}

/* The images of one part, with a mask for each. */
static int add_pairs(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks) {
  uint32_t source[2];
  if (*l->p->second_name) return rd_add_twos(l, where, images, masks);
  const char **of = calloc(images->n + 1, sizeof *of);
  int rc = of ? doubt_twos(l, where, images, masks) : rd_no_memory(l);
  if (!rc) rc = rd_match_masks(l, where, images, masks, of);
  for (int k = 0; !rc && k < 2; k++) rc = rd_add_source(l->t, RD_FILES, where[k], &source[k]) ? rd_no_memory(l) : SP_OK;
  for (size_t i = 0; !rc && i < images->n; i++) {
    rc = rd_check_ending(l, where, images->v[i], of[i]);
    if (!rc && rd_add_pair(l->t, source[0], source[1], images->v[i], of[i])) rc = rd_no_memory(l);
  }
  free(of);
  return rc;
}

/* rel: of the folders of images and of masks, from `base` on. */
static int list_part(rd_listing *l, int k, const char *base, char rel[2][1024]) {
  rd_names names[2] = {{0}};
  char paths[2][4096];
  int is_deep, rc = rd_look_nested(l, base, rel, &is_deep);
  for (int j = 0; !rc && j < 2; j++) {
    if (snprintf(paths[j], sizeof paths[j], "%s/%s", base, rel[j]) >= (int)sizeof paths[j])
      rc = l->ctx->host->fail(l->ctx, SP_E_INVALID, "path is longer than %zu bytes: %.200s...", sizeof paths[j], base);
    else rc = (is_deep ? rd_list_below : rd_list_pictures)(l, paths[j], strlen(base) + 1, j, &names[j], &l->t->left[k]);
    rd_names_sort(&names[j], rd_by_stem);
  }
  const char *const where[2] = {paths[0], paths[1]};
  if (!rc) rc = rd_check_stems(l->ctx, paths[0], &names[0]);
  if (!rc) rc = add_pairs(l, where, &names[0], &names[1]);
  if (!rc && names[1].n > names[0].n) l->t->left[k].masks = names[1].n - names[0].n;
  if (!rc && rd_add_bytes(l->t, paths[1], strlen(paths[1]), &l->t->roots[k])) rc = rd_no_memory(l);
  l->t->ends[k] = l->t->n;
  for (int j = 0; j < 2; j++) rd_names_free(&names[j]);
  return rc;
}

/* ---- the parts ---- */
/* The folders of a part; of one that is missing, what it would be called. */
static int name_folders(rd_listing *l, const plan *p, int part, const char *within, char rel[2][1024]) {
  const char *const usual[] = {"images", l->p->target == RD_TARGET_MAP ? "depth" : "masks"};
  for (int j = 0; j < 2; j++) {
    const char *is = p->of[part][1 + j], *other = p->of[part][2 - j], *slash = strrchr(other, '/');
    int n = *is     ? snprintf(rel[j], 1024, "%s%s", within, is)
            : slash ? snprintf(rel[j], 1024, "%s%.*s/%s", within, (int)(slash - other), other, usual[j])
                    : snprintf(rel[j], 1024, "%s%s", within, usual[j]);
    if (n >= 1024) return rd_too_long(l->ctx, l->p->path, is);
  }
  return SP_OK;
}

static int list_as(rd_listing *l, int k, const char *base, const plan *p, int part, const char *within) {
  char rel[2][1024];
  int rc = name_folders(l, p, part, within, rel);
  l->parts[k] = (rd_part){base, ""};
  return rc ? rc : list_part(l, k, base, rel);
}

/* The folders of a divided set that are stamped, and that its parts lie in. */
static const char *top_of(const char *rel, char to[512]) {
  snprintf(to, 512, "%.*s", (int)strcspn(rel, "/"), rel);
  return to;
}

static int stamp_tops(rd_listing *l, const char *dir, const plan *p) {
  char path[4096], top[512];
  int rc = SP_OK;
  for (int part = 0; part < RD_PARTS; part++)
    for (int j = RD_IMAGES; !rc && j <= RD_MASKS; j++) {
      if (!strchr(p->of[part][j], '/')) continue;
      if (snprintf(path, sizeof path, "%s/%s", dir, top_of(p->of[part][j], top)) < (int)sizeof path)
        rc = rd_stamp_path(l, path);
    }
  return rc;
}

/* What lies beside the folders that are read. */
static void look_beside(rd_listing *l, const plan *p, const rd_chosen *c) {
  char tops[4][512];
  const char *known[] = {"classes.txt", tops[0], tops[1], tops[2], tops[3], NULL};
  for (int i = 0; i < 4; i++) top_of(p->of[c->part[i / 2]][RD_IMAGES + i % 2], tops[i]);
  rd_look_beside(l, 2, known);
}

static int check_plan(sp_ctx *ctx, const char *dir, const plan *p) {
  if (*p->twice[0])
    return ctx->host->fail(
        ctx, SP_E_DATA,
        "%s holds %s/ and %s/, and both may be meant; call the one to be read images or masks, or move the other away",
        dir, p->twice[0], p->twice[1]);
  for (int k = RD_TRAIN_PART; k < RD_PARTS; k++)
    if (has_both(p, k) && has_both(p, RD_NO_PART))
      return ctx->host->fail(
          ctx, SP_E_DATA,
          "%s holds %s/, which is of no part, and %s/, which is of one by its name; move one away, or "
          "name a folder that holds one of them",
          dir, p->of[RD_NO_PART][RD_IMAGES], p->of[k][RD_IMAGES]);
  return SP_OK;
}

/* Those of the parts that are there in whole; of one that trains or validates half is an error. */
static int list_parts(rd_listing *l, const char *dir, const plan *p) {
  const char *names[RD_PARTS] = {NULL};
  char tops[RD_PARTS][512];
  rd_chosen c;
  int halves = 0;
  for (int k = RD_TRAIN_PART; k < RD_PARTS; k++) {
    if (has_both(p, k)) names[k] = top_of(p->of[k][RD_IMAGES], tops[k]);
    halves |= (k != RD_TEST_PART && has_one(p, k) && !has_both(p, k)) << k;
    if (has_both(p, k))
      names[k] = strchr(p->of[k][RD_IMAGES], '/') && rd_read_folder_name(names[k]).part == RD_NO_PART
                     ? p->of[k][RD_IMAGES]
                     : names[k];
  }
  for (int k = RD_TRAIN_PART; k < RD_TEST_PART; k++)
    if (halves >> k & 1 && (names[RD_TRAIN_PART] || names[RD_VAL_PART] || k == RD_TRAIN_PART))
      return list_as(l, 0, l->p->path, p, k, l->within); /* fails on what is missing */
  if (names[RD_TRAIN_PART] && !names[RD_VAL_PART] && (rd_is_folder(dir, "val") || rd_is_folder(dir, "valid")))
    return l->ctx->host->fail(
        l->ctx, SP_E_DATA,
        "%s/%s holds images/ and masks/, %s/val does not; give both the same layout, or other names "
        "if they are no splits",
        dir, names[RD_TRAIN_PART], dir);
  int rc = rd_choose_parts(l, names, &c);
  if (rc) return rc;
  if (c.part[1]) l->t->n_parts = 2;
  rc = list_as(l, 0, l->p->path, p, c.part[0], l->within);
  if (!rc && c.part[1]) rc = list_as(l, 1, l->p->path, p, c.part[1], l->within);
  if (!rc) look_beside(l, p, &c);
  return rc;
}

/* The folder of val_path, of no part. */
static int list_other(rd_listing *l) {
  plan other;
  int rc = rd_other_part(l, "images/ and masks/");
  look(l->p->val_path, &other, l->p->target);
  if (!rc) rc = check_plan(l->ctx, l->p->val_path, &other);
  return rc ? rc : list_as(l, 1, l->p->val_path, &other, RD_NO_PART, "");
}

/* Neither images/ nor masks/: is it a set for the other target? */
static int not_pairs(sp_ctx *ctx, const char *base, int target) {
  if (target == RD_TARGET_MAP)
    return ctx->host->fail(ctx, SP_E_NOTFOUND,
                           "%s holds no images/ and depth/ (or maps/, disparity/, heights/) of the same names, which "
                           "target = \"map\" reads",
                           base);
  if (!rd_has_folders(base)) return rd_no_layout(ctx, base);
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds a folder for each class, which is for target = \"class\" (train_cls.lua); target = "
                         "\"mask\" wants images/ and masks/",
                         base);
}

/* No masks, and folders where the images would lie: images/train/cat, perhaps beside lists in labels/. */
static int are_classes(const char *dir, const plan *p) {
  char path[4096];
  int yes = 0;
  for (int k = 0; k < RD_PARTS; k++) {
    if (*p->of[k][RD_MASKS] && rd_may_be_masks(dir, p->of[k][RD_MASKS])) return 0;
    if (!*p->of[k][RD_IMAGES]) continue;
    if (snprintf(path, sizeof path, "%s/%s", dir, p->of[k][RD_IMAGES]) >= (int)sizeof path) return 0;
    yes |= !rd_has_picture(path, 0) && rd_has_folders(path);
  }
  return yes;
}

/* No masks, beside a table that says something else of the images. */
static int are_in_table(const char *dir, const plan *p) {
  for (int k = 0; k < RD_PARTS; k++)
    if (*p->of[k][RD_MASKS]) return 0;
  return rd_csv_class.like(dir) || rd_csv_labels.like(dir) || rd_csv_numbers.like(dir);
}

static int not_in_table(sp_ctx *ctx, const char *dir) {
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds images and a .csv file that says what they are, which is for target = \"class\" "
                         "(train_cls.lua); target = \"mask\" wants masks/ beside images/",
                         dir);
}

/* The lists of VOC say which samples are in which part, of masks. */
static void note_lists(rd_listing *l, const char *dir) {
  char path[4096];
  if (l->p->target != RD_TARGET_MAP || snprintf(path, sizeof path, "%s/ImageSets", dir) >= (int)sizeof path) return;
  if (!access(path, F_OK))
    rd_note(l,
            "ImageSets/ is not read for maps: a table with the columns file, map and split says which part is which");
}

static int pairs_list(rd_listing *l) {
  char dir[4096];
  plan p;
  if (snprintf(dir, sizeof dir, "%s%s%s", l->p->path, *l->within ? "/" : "", l->within) >= (int)sizeof dir)
    return rd_too_long(l->ctx, l->p->path, l->within);
  if (*l->within) dir[strlen(dir) - 1] = 0;
  l->t->gives = RD_MASK;
  look(dir, &p, l->p->target);
  note_lists(l, dir);
  int rc = check_plan(l->ctx, dir, &p), divided = 0;
  for (int k = RD_TRAIN_PART; k < RD_PARTS; k++) divided |= has_one(&p, k);
  if (!rc && are_classes(dir, &p)) return not_pairs(l->ctx, dir, l->p->target);
  if (!rc && are_in_table(dir, &p)) return not_in_table(l->ctx, dir);
  if (!rc) rc = stamp_tops(l, dir, &p);
  if (rc) return rc;
  if (divided && !has_both(&p, RD_NO_PART)) rc = list_parts(l, dir, &p);
  else if (has_one(&p, RD_NO_PART)) rc = list_as(l, 0, l->p->path, &p, RD_NO_PART, l->within);
  else return not_pairs(l->ctx, dir, l->p->target);
  return !rc && *l->p->val_path ? list_other(l) : rc;
}

int rd_settle_pairs(sp_ctx *ctx, rd_self *self) {
  const rd_table *t = self->table;
  for (int k = 0; k < t->n_parts; k++)
    if (t->left[k].masks)
      ctx->host->log(ctx, SP_LOG_WARN, "%zu of the files in %s have no image and are not used", t->left[k].masks,
                     t->bytes + t->roots[k]);
  if (self->p->target == RD_TARGET_MAP) return rd_settle_maps(ctx, self);
  const char *home = t->bytes + t->home;
  char list[4096];
  int there = snprintf(list, sizeof list, "%s/classes.txt", home) < (int)sizeof list && !access(list, F_OK);
  return rd_settle_masks(ctx, self, there ? home : self->p->path, NULL);
}

const rd_lister rd_pairs = {"pairs",    RD_TARGET_MASK,  pairs_like,
                            pairs_list, rd_settle_pairs, RD_IN_SPLITS | RD_KEPT | RD_WITHIN};
const rd_lister rd_map_pairs = {"pairs",    RD_TARGET_MAP,   maps_like,
                                pairs_list, rd_settle_pairs, RD_IN_SPLITS | RD_KEPT | RD_WITHIN};

/* ---- images alone ---- */
static int add_file(rd_listing *l, uint32_t source, const char *path) {
  FILE *f = fopen(path, "re");
  if (!f) return l->ctx->host->fail(l->ctx, SP_E_IO, "image %s: %s", path, strerror(errno));
  fclose(f);
  rd_sample *s = rd_add_sample(l->t);
  if (!s || rd_set_file(l->t, &s->image, source, path, strlen(path))) return rd_no_memory(l);
  s->key = rd_hash_name(path);
  return SP_OK;
}

static int files_list(rd_listing *l) {
  const rd_file *files = l->p->files.v;
  uint32_t source;
  int rc = rd_add_source(l->t, RD_FILES, "", &source) ? rd_no_memory(l) : SP_OK;
  for (uint32_t i = 0; !rc && i < l->p->files.n; i++) rc = add_file(l, source, files[i].path);
  l->t->ends[0] = l->t->n;
  return rc;
}

static int files_settle(sp_ctx *ctx, rd_self *self) {
  (void)ctx;
  self->classes = self->p->classes;
  return SP_OK;
}

const rd_lister rd_files = {"files", RD_TARGET_MASK, NULL, files_list, files_settle, 0};
