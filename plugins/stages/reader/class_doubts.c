/* SPDX-License-Identifier: MIT
 * class_doubts.c - folders that are hardly those of classes by their names and by what lies in them: images/ beside
 * masks/, parts beside classes. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "table.h"

#define LOOK_DEPTH 64 /* for a picture */
enum { MOST_WORDS = 8 };

/* What the subfolders of a folder are by their names and by what lies in them. Pointers into names; NULL: none is. */
typedef struct survey {
  rd_names names;
  const char *kind[3];           /* RD_IMAGES, RD_MASKS, of no part */
  const char *divided[RD_PARTS]; /* parts that hold folders with pictures */
  const char *flat[RD_PARTS];    /* parts that hold pictures themselves */
  const char *doubtful[RD_PARTS]; /* parts that hold folders, but are called as masks are: seg_train */
  const char *maps;              /* called as maps of numbers are */
  const char *other;             /* the first with pictures and another name */
} survey;

static void look_at(survey *s, const char *dir, const char *name) {
  char path[4096];
  rd_folder_name n = rd_read_folder_name(name);
  if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return;
  if (n.part && n.kind != RD_MASKS) {
    if (rd_has_folders(path)) s->divided[n.part] = name;
    else if (rd_has_picture(path, 0)) s->flat[n.part] = name;
  }
  if (n.part && n.kind == RD_MASKS && rd_has_folders(path)) s->doubtful[n.part] = name;
  if (n.kind != RD_MASKS || rd_may_be_masks(dir, name)) s->kind[n.kind] = name;
  if (rd_read_map_folder_name(name).kind == RD_MASKS) s->maps = name;
  if (n.part) return;
  if (!s->other && rd_has_picture(path, LOOK_DEPTH)) s->other = name;
}

/* images/ and masks/, whatever they are called. */
static int mixed_up(sp_ctx *ctx, const char *dir, const char *images, const char *masks) {
  return ctx->host->fail(ctx, SP_E_INVALID,
                         "%s holds %s/ and %s/, which are images and masks by their names, for target = \"mask\" "
                         "(train_seg.lua); target = \"class\" wants one subfolder for each class: if these two are "
                         "classes, give `folders = \"classes\"`",
                         dir, images, masks);
}

static int mixed_maps(sp_ctx *ctx, const char *dir, const char *images, const char *maps) {
  return ctx->host->fail(
      ctx, SP_E_INVALID,
      "%s holds %s/ and %s/, which are images and maps of numbers by their names, for target = \"map\" "
      "(train_map.lua); target = \"class\" wants one subfolder for each class: if these two are "
      "classes, give `folders = \"classes\"`",
      dir, images, maps);
}

/* The letters that a name begins with, in front of a sign or a digit; 0: it has none. */
static size_t leading_word(const char *name) {
  size_t n = 0;
  while (isalpha((unsigned char)name[n])) n++;
  return name[n] && name[n] != '/' ? n : 0;
}

/* Pictures, sorted, of which each begins with one of a few words: cat.0.jpg beside dog.0.jpg. */
static int check_words_in_front(sp_ctx *ctx, const char *dir, const rd_names *names) {
  char list[MOST_WORDS * 40] = "", word[32];
  size_t words = 0, same = 0, used = 0;
  for (size_t i = 0; i < names->n; i++) {
    size_t n = leading_word(names->v[i]);
    int is_new = !i || n != leading_word(names->v[i - 1]) || strncmp(names->v[i], names->v[i - 1], n) != 0;
    if (!n || n >= sizeof word || (is_new && i && same < 2) || (is_new && ++words > MOST_WORDS)) return SP_OK;
    same = is_new ? 1 : same + 1;
    if (!is_new) continue;
    snprintf(word, sizeof word, "%.*s", (int)n, names->v[i]);
    if (rd_read_folder_name(word).kind) return SP_OK;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "", word);
  }
  if (words < 2 || same < 2) return SP_OK;
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s holds pictures in one folder, whose names begin with %s: if these are the classes, each "
                         "wants a folder: cd '%s'; for c in %s; do mkdir $c; mv $c[!a-zA-Z]* $c; done",
                         dir, list, dir, list);
}

/* Pictures of one folder of which some are called as masks: 1_sat.jpg beside 1_mask.png. */
int rd_check_one_folder(sp_ctx *ctx, const char *dir) {
  rd_names names = {0};
  char image[256] = "", mask[256] = "", tail[64] = "";
  struct dirent *e;
  DIR *d = opendir(dir);
  while (d && (e = readdir(d)))
    if (!rd_is_junk(e->d_name) && rd_is_image(e->d_name) && rd_names_add(&names, e->d_name)) break;
  if (d) closedir(d);
  rd_names_sort(&names, rd_by_name);
  for (size_t i = 0; i < names.n; i++) {
    char stem[256];
    snprintf(stem, sizeof stem, "%.*s", (int)rd_stem_length(names.v[i]), names.v[i]);
    const char *sign = strrchr(stem, '_') ? strrchr(stem, '_') : strrchr(stem, '-');
    int is_mask = sign && rd_read_folder_name(sign).kind == RD_MASKS;
    if (is_mask && !*mask) snprintf(tail, sizeof tail, "%.63s", sign);
    char *to = is_mask ? mask : image;
    if (!*to) snprintf(to, 256, "%s", names.v[i]);
  }
  int rc = !*mask && *image ? check_words_in_front(ctx, dir, &names) : SP_OK;
  rd_names_free(&names);
  if (rc || !*image || !*mask) return rc;
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s holds images and masks in one folder, such as %s and %s, and a folder for each is wanted: "
                         "mkdir '%s/masks' '%s/images'; mv '%s'/*%s.* '%s/masks'; mv '%s'/*.* '%s/images'",
                         dir, image, mask, dir, dir, dir, tail, dir, dir, dir);
}

static const char *first(const char *const *names) {
  for (int k = RD_TRAIN_PART; k < RD_PARTS; k++)
    if (names[k]) return names[k];
  return NULL;
}

/* dir/name, or where folders within it hold nothing else the innermost of those, whose folders are classes. */
static void innermost(const char *dir, const char *name, char *out, size_t size) {
  char sub[4096];
  rd_names names = {0};
  int n = snprintf(out, size, "%s/%s", dir, name);
  while (n < (int)size && !rd_subfolders(out, &names) && names.n == 1 &&
         snprintf(sub, sizeof sub, "%.3000s/%.900s", out, names.v[0]) < (int)sizeof sub && rd_has_folders(sub)) {
    n = snprintf(out, size, "%s", sub);
    rd_names_free(&names);
    names = (rd_names){0};
  }
  rd_names_free(&names);
}

/* seg_train/ and seg_test/: parts, and called as masks are. */
static int doubtful(sp_ctx *ctx, const char *dir, const survey *s, int val) {
  char trains[4096], validates[4096];
  innermost(dir, s->doubtful[RD_TRAIN_PART], trains, sizeof trains);
  innermost(dir, s->doubtful[val], validates, sizeof validates);
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s holds %s/ and %s/, parts by their names, with folders of images for target = \"class\" "
                         "(train_cls.lua): name the one that trains, %.500s, and what validates with "
                         "`val_path = \"%.500s\"`; if these are classes, give `folders = \"classes\"`",
                         dir, s->doubtful[RD_TRAIN_PART], s->doubtful[val], trains, validates);
}

/* Names of which each has a word of a part or of a kind among others: cars_train/ and cars_test/. */
static int hinted(sp_ctx *ctx, const char *dir, const rd_names *names) {
  const char *part[RD_PARTS] = {NULL}, *kind[3] = {NULL};
  for (size_t i = 0; i < names->n; i++) {
    rd_folder_name n = rd_read_hints(names->v[i]);
    if (!rd_may_be_masks(dir, names->v[i])) continue;
    if (!n.part && !n.kind) return SP_OK;
    if (n.part && !part[n.part]) part[n.part] = names->v[i];
    if (n.kind && !kind[n.kind]) kind[n.kind] = names->v[i];
  }
  const char *a = part[RD_TRAIN_PART], *b = part[RD_VAL_PART] ? part[RD_VAL_PART] : part[RD_TEST_PART];
  if (kind[RD_IMAGES] && kind[RD_MASKS])
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s holds %s/ and %s/, which have words of images and of masks in their names: if they are "
                           "these, mv '%s/%s' '%s/images'; mv '%s/%s' '%s/masks'; if they are classes, for target = "
                           "\"class\" (train_cls.lua), `folders = \"classes\"`",
                           dir, kind[RD_IMAGES], kind[RD_MASKS], dir, kind[RD_IMAGES], dir, dir, kind[RD_MASKS], dir);
  char train[4096], val[4096];
  if (!a || !b || rd_read_folder_name(a).part) return SP_OK;
  innermost(dir, a, train, sizeof train);
  innermost(dir, b, val, sizeof val);
  if (!rd_has_folders(train))
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s holds %s/ and %s/, parts by words of their names, and no folder for each class in them: "
                           "put the pictures into %s/CLASS/ and %s/CLASS/, or name a .csv file with their labels; if "
                           "these are classes, for target = \"class\" (train_cls.lua), `folders = \"classes\"`",
                           dir, a, b, a, b);
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s holds %s/ and %s/, parts by words of their names, with folders of images for target = "
                         "\"class\" (train_cls.lua): name the one that trains, %.500s, with --val %.500s; if these are "
                         "classes, give `folders = \"classes\"`",
                         dir, a, b, train, val);
}

int rd_may_be_classes(const char *dir) {
  rd_names names = {0};
  char path[4096];
  int n = 0;
  rd_subfolders(dir, &names);
  for (size_t i = 0; i < names.n && n < 2; i++) {
    rd_folder_name of = rd_read_folder_name(names.v[i]);
    n += !of.part && !of.kind && snprintf(path, sizeof path, "%s/%s", dir, names.v[i]) < (int)sizeof path &&
         rd_has_picture(path, LOOK_DEPTH);
  }
  rd_names_free(&names);
  return n > 1;
}

/* images/ or masks/, by the very words, beside a folder of another name: both would be classes. */
static int check_words(sp_ctx *ctx, const char *dir, const rd_names *names) {
  static const char *const words[] = {"images", "imgs", "jpegimages", "masks", "labels", "annotations"};
  const char *odd = NULL, *other = NULL;
  for (size_t i = 0; i < names->n; i++) {
    size_t k = 0;
    while (k < sizeof words / sizeof *words && strcasecmp(names->v[i], words[k]) != 0) k++;
    if (k < sizeof words / sizeof *words && rd_may_be_masks(dir, names->v[i])) odd = names->v[i];
  }
  for (size_t i = 0; odd && !other && i < names->n; i++)
    if (names->v[i] != odd && rd_may_be_masks(dir, names->v[i])) other = names->v[i];
  if (!other) return SP_OK;
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s holds %s/, which is no class by its name, beside %s/: give `folders = \"classes\"` if "
                         "both are classes, for target = \"class\" (train_cls.lua), or name the folder that holds one "
                         "for each class",
                         dir, odd, other);
}

/* Two readings of a folder are possible. */
static int check_readings(sp_ctx *ctx, const rd_params *p, const char *dir, const survey *s) {
  const char *divided = first(s->divided), *flat = first(s->flat);
  if (s->kind[RD_IMAGES] && s->kind[RD_MASKS]) return mixed_up(ctx, dir, s->kind[RD_IMAGES], s->kind[RD_MASKS]);
  if (s->kind[RD_IMAGES] && s->maps) return mixed_maps(ctx, dir, s->kind[RD_IMAGES], s->maps);
  if (flat && s->kind[RD_MASKS]) return mixed_up(ctx, dir, flat, s->kind[RD_MASKS]); /* train/ beside trainannot/ */
  if (p->folders == RD_FOLDERS_PARTS) return SP_OK;
  int val = s->doubtful[RD_VAL_PART] ? RD_VAL_PART : RD_TEST_PART;
  if (!divided && s->doubtful[RD_TRAIN_PART] && s->doubtful[val]) return doubtful(ctx, dir, s, val);
  const char *part = divided ? divided : flat;
  if (part && s->other)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s holds %s/, a part by its name, and %s/, a class by its name: is %s a class, too, "
                           "`folders = \"classes\"`, or a part, so that %s/ is left out, `folders = \"parts\"`?",
                           dir, part, s->other, part, divided ? s->other : part);
  char where[4096];
  if (flat && !divided && snprintf(where, sizeof where, "%s/%s", dir, flat) < (int)sizeof where) {
    int both = rd_check_one_folder(ctx, where);
    if (both) return both;
  }
  if (flat && !divided)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s/%s holds pictures, but no folder for each class: a part by its name wants one, as "
                           "%s/cat/1.jpg; if %s is a class, give `folders = \"classes\"`; labels may also "
                           "stand in a .csv file",
                           dir, flat, flat, flat);
  if (part) return SP_OK;
  int rc = hinted(ctx, dir, &s->names);
  return rc ? rc : check_words(ctx, dir, &s->names);
}

/* `dir` and, where it holds parts, these. */
int rd_check_classes(sp_ctx *ctx, const rd_params *p, const char *dir) {
  survey s = {.other = NULL};
  char sub[4096];
  rd_subfolders(dir, &s.names);
  for (size_t i = 0; i < s.names.n; i++) look_at(&s, dir, s.names.v[i]);
  int rc = check_readings(ctx, p, dir, &s);
  for (int k = RD_TRAIN_PART; !rc && k < RD_PARTS; k++)
    if (s.divided[k] && snprintf(sub, sizeof sub, "%s/%s", dir, s.divided[k]) < (int)sizeof sub) {
      rd_names names = {0};
      const char *kind[3] = {NULL};
      rd_subfolders(sub, &names);
      for (size_t i = 0; i < names.n; i++) kind[rd_read_folder_name(names.v[i]).kind] = names.v[i];
      if (kind[RD_IMAGES] && kind[RD_MASKS]) rc = mixed_up(ctx, sub, kind[RD_IMAGES], kind[RD_MASKS]);
      else if (p->folders == RD_FOLDERS_AUTO) rc = check_words(ctx, sub, &names);
      rd_names_free(&names);
    }
  rd_names_free(&s.names);
  return rc;
}
