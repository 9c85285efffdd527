/* SPDX-License-Identifier: MIT
 * twos.c - the layout `twos`: two images a sample, of the same stem in two folders, such as A/ and B/, before/ and
 * after/, left/ and right/, and the labels of both in a third, however they are divided into parts. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mask_names.h"
#include "pairs.h"
#include "table.h"
#include "two_names.h"

enum { ROLES = RD_TWO_LABELS + 1 };

/* The folders of each part, below `dir`; "": there is none. RD_NO_PART: of no part. */
typedef struct plan {
  char of[RD_PARTS][ROLES][512];
  char twice[2][512]; /* two folders that would both be one; "": none */
  int twice_role;
  const char *labels; /* what the parameter mask_folder says; NULL: nothing */
  int row, of_maps;   /* row: of the two words; of_maps: RD_TWO_LABELS are called as maps are */
} plan;

static void put(plan *p, rd_two_name n, const char *rel) {
  char *to = p->of[n.part][n.role];
  if (*to && !*p->twice[0]) {
    snprintf(p->twice[0], sizeof p->twice[0], "%s", to);
    snprintf(p->twice[1], sizeof p->twice[1], "%s", rel);
    p->twice_role = n.role;
  }
  if (!*to) snprintf(to, sizeof p->of[0][0], "%s", rel);
}

/* The subfolders of a folder, and of some of those, each read once: one may hold a million files. */
typedef struct tree {
  const char *dir;
  rd_names top, *sub;
  char *read; /* of sub */
} tree;

static void tree_free(tree *t) {
  for (size_t i = 0; t->sub && i < t->top.n; i++) rd_names_free(&t->sub[i]);
  rd_names_free(&t->top);
  free(t->sub);
  free(t->read);
}

static void tree_open(tree *t, const char *dir) {
  *t = (tree){.dir = dir};
  rd_subfolders(dir, &t->top);
  t->sub = calloc(t->top.n + 1, sizeof *t->sub);
  t->read = calloc(t->top.n + 1, 1);
  if (!t->sub || !t->read) t->top.n = 0;
}

static const rd_names *below(tree *t, size_t i) {
  char path[4096];
  if (!t->read[i] && snprintf(path, sizeof path, "%s/%s", t->dir, t->top.v[i]) < (int)sizeof path)
    rd_subfolders(path, &t->sub[i]);
  t->read[i] = 1;
  return &t->sub[i];
}

/* A/train, and train/A. Whether the folder is divided so. */
static int look_into(plan *p, int row, tree *t, size_t i, rd_two_name of) {
  const rd_names *names = below(t, i);
  char rel[512];
  int divided = 0;
  for (size_t k = 0; k < names->n; k++) {
    rd_two_name n = rd_read_two_name(names->v[k], row, p->labels, p->of_maps);
    if (of.part && n.part && of.part != n.part) continue;
    if (of.role && n.role && of.role != n.role) continue;
    rd_two_name both = {of.part ? of.part : n.part, of.role ? of.role : n.role};
    if (!both.part || !both.role || snprintf(rel, sizeof rel, "%s/%s", t->top.v[i], names->v[k]) >= (int)sizeof rel)
      continue;
    put(p, both, rel);
    divided = 1;
  }
  return divided;
}

static int has(const plan *p, int part, int role) { return !!*p->of[part][role]; }
static int has_both(const plan *p, int part) { return has(p, part, RD_TWO_FIRST) && has(p, part, RD_TWO_SECOND); }
static int has_all(const plan *p, int part) { return has_both(p, part) && has(p, part, RD_TWO_LABELS); }

/* Both words are there, as folders or below those of parts. */
static int has_words(tree *t, int row) {
  int seen = 0, of_part;
  for (size_t i = 0; i < t->top.n; i++) {
    rd_two_name n = rd_read_two_name(t->top.v[i], row, NULL, 0);
    if (n.role) seen |= 1 << n.role;
    if (n.role || !n.part) continue;
    of_part = 0;
    const rd_names *names = below(t, i);
    for (size_t k = 0; k < names->n; k++) of_part |= 1 << rd_read_two_name(names->v[k], row, NULL, 0).role;
    seen |= of_part;
  }
  return seen >> RD_TWO_FIRST & 1 && seen >> RD_TWO_SECOND & 1;
}

static void look_for(int row, tree *t, plan *p) {
  for (size_t i = 0; i < t->top.n; i++) {
    const char *name = t->top.v[i];
    rd_two_name n = rd_read_two_name(name, row, p->labels, p->of_maps);
    if (strlen(name) > 255 || (!n.part && !n.role)) continue;
    if (n.part && n.role) put(p, n, name);
    else if (!look_into(p, row, t, i, n) && n.role) put(p, n, name);
  }
}

/* The plan of the first two words that are there; other: of the next two. Returns how many are found, at most 2. */
static int look_as(const char *dir, const char *labels, int of_maps, plan *p, plan *other) {
  tree t;
  int found = 0;
  tree_open(&t, dir);
  for (int row = 0; row < rd_n_two_words && found < 2; row++) {
    plan is = {.labels = labels && *labels ? labels : NULL, .row = row, .of_maps = of_maps};
    int both = 0;
    if (!has_words(&t, row)) continue;
    look_for(row, &t, &is);
    for (int k = 0; k < RD_PARTS; k++) both |= has_both(&is, k);
    if (both) *(found++ ? other : p) = is;
  }
  tree_free(&t);
  return found;
}

/* Maps lie in a folder that is called as they are, or in one for masks. */
static int look(const char *dir, const char *labels, int of_maps, plan *p, plan *other) {
  int found = look_as(dir, labels, of_maps, p, other), has_maps = 0;
  for (int k = 0; found && k < RD_PARTS; k++) has_maps |= has_all(p, k);
  return of_maps && !has_maps ? look_as(dir, labels, 0, p, other) : found;
}

/* A part with both images; -1: of none it is likely: a/ and b/ without labels are classes rather. */
static int likely(const plan *p) {
  int both = -1;
  for (int k = 0; k < RD_PARTS; k++) {
    if (!has_both(p, k)) continue;
    const char *first = p->of[k][RD_TWO_FIRST], *slash = strrchr(first, '/'), *name = slash ? slash + 1 : first;
    if (has(p, k, RD_TWO_LABELS)) return k;
    if (both < 0 && strcmp(name, "a") != 0) both = k;
  }
  return both;
}

/* Folders of images beside masks are read as such, whatever else lies there. */
static int twos_like(const char *dir) {
  plan p, other;
  return !(rd_is_folder(dir, "images") && rd_is_folder(dir, "masks")) && look(dir, NULL, 0, &p, &other) &&
         likely(&p) >= 0;
}

static int map_twos_like(const char *dir) {
  plan p, other;
  return !rd_is_folder(dir, "images") && look(dir, NULL, 1, &p, &other) && likely(&p) >= 0;
}

/* Folders that are two classes by their names, and may be two images of a sample. */
int rd_doubt_classes(rd_listing *l, const char *dir) {
  plan p, other;
  int k = look(dir, NULL, 0, &p, &other) ? likely(&p) : -1;
  if (k < 0) return SP_OK;
  const char(*of)[512] = p.of[k];
  if (has_all(&p, k))
    return l->ctx->host->fail(
        l->ctx, SP_E_INVALID,
        "%s holds %s/, %s/ and %s/: two images a sample and their labels, which is for target = \"mask\" "
        "(train_seg.lua); where they are three classes, `folders = \"classes\"` takes them so",
        dir, of[RD_TWO_FIRST], of[RD_TWO_SECOND], of[RD_TWO_LABELS]);
  rd_note(l, "%s/ and %s/ are two classes; as the two images of a sample they would lack a folder of labels, label/",
          of[RD_TWO_FIRST], of[RD_TWO_SECOND]);
  return SP_OK;
}

/* ---- into the table ---- */
static const char *find_as(const rd_names *names, const char *image, int how) {
  char stem[256];
  char **found = rd_stem_as(image, how, stem) ? rd_find_stem(names, stem) : NULL;
  return found ? *found : NULL;
}

/* Masks without the word that says which of the two an image is: x_before.png has x.png. 0: not each has one. */
static int match_without_word(const rd_names *images, const rd_names *masks, const char **out) {
  for (size_t i = 0; i < images->n; i++)
    if (!(out[i] = find_as(masks, images->v[i], RD_STEM_BARE))) return 0;
  return 1;
}

/* The second of each image, in out[]; both lists are sorted by stem. */
static int match(rd_listing *l, const char *const where[2], const rd_names *first, const rd_names *second,
                 const char **out) {
  size_t missing = 0, at = 0, used = 0;
  for (size_t i = 0; i < first->n; i++) {
    out[i] = find_as(second, first->v[i], RD_STEM_SAME);
    if (!out[i]) out[i] = find_as(second, first->v[i], RD_STEM_OTHER);
    used += !!out[i];
    if (!out[i] && !missing++) at = i;
  }
  if (missing)
    return l->ctx->host->fail(
        l->ctx, SP_E_DATA,
        "%s/%s has no second image: %s has none of its stem; %zu of %zu images have none; take them out, or add those",
        where[0], first->v[at], where[1], missing, first->n);
  if (second->n > used)
    rd_note(l, "%zu of the %zu images in %s have no first one in %s and are left out", second->n - used, second->n,
            where[1], where[0]);
  return SP_OK;
}

static int add_all(rd_listing *l, const char *const where[ROLES], const rd_names names[ROLES], const char **seconds,
                   const char **masks) {
  const char *const with_masks[2] = {where[RD_TWO_FIRST], where[RD_TWO_LABELS]};
  uint32_t source[ROLES];
  int rc = SP_OK;
  for (int k = RD_TWO_FIRST; !rc && k < ROLES; k++)
    rc = rd_add_source(l->t, RD_FILES, where[k], &source[k]) ? rd_no_memory(l) : SP_OK;
  for (size_t i = 0; !rc && i < names[RD_TWO_FIRST].n; i++) {
    const char *image = names[RD_TWO_FIRST].v[i];
    if ((rc = rd_check_ending(l, with_masks, image, masks[i]))) break;
    rd_ref *second =
        rd_add_pair(l->t, source[RD_TWO_FIRST], source[RD_TWO_LABELS], image, masks[i]) ? NULL : rd_add_second(l->t);
    if (!second || rd_set_file(l->t, second, source[RD_TWO_SECOND], seconds[i], strlen(seconds[i])))
      rc = rd_no_memory(l);
  }
  return rc;
}

static int match_all(rd_listing *l, const char *const where[ROLES], const rd_names names[ROLES]) {
  const char *const two[2] = {where[RD_TWO_FIRST], where[RD_TWO_SECOND]};
  const char *const with_masks[2] = {where[RD_TWO_FIRST], where[RD_TWO_LABELS]};
  size_t n = names[RD_TWO_FIRST].n;
  const char **of = calloc(2 * n + 1, sizeof *of);
  int rc = of ? match(l, two, &names[RD_TWO_FIRST], &names[RD_TWO_SECOND], of) : rd_no_memory(l);
  if (!rc && (*l->p->mask_name || !match_without_word(&names[RD_TWO_FIRST], &names[RD_TWO_LABELS], of + n)))
    rc = rd_match_masks(l, with_masks, &names[RD_TWO_FIRST], &names[RD_TWO_LABELS], of + n);
  if (!rc) rc = add_all(l, where, names, of, of + n);
  free(of);
  return rc;
}

static int list_part(rd_listing *l, int k, const char *base, const char *within, const char rel[ROLES][512]) {
  rd_names names[ROLES] = {{0}};
  char paths[ROLES][4096];
  const char *where[ROLES];
  int rc = SP_OK;
  l->parts[k] = (rd_part){base, ""};
  for (int j = RD_TWO_FIRST; !rc && j < ROLES; j++) {
    where[j] = paths[j];
    if (snprintf(paths[j], sizeof paths[j], "%s/%s%s", base, within, rel[j]) >= (int)sizeof paths[j])
      rc = rd_too_long(l->ctx, base, rel[j]);
    else rc = rd_list_pictures(l, paths[j], strlen(base) + 1, j == RD_TWO_LABELS, &names[j], &l->t->left[k]);
    rd_names_sort(&names[j], rd_by_stem);
  }
  for (int j = RD_TWO_FIRST; !rc && j < RD_TWO_LABELS; j++) rc = rd_check_stems(l->ctx, paths[j], &names[j]);
  if (!rc) rc = match_all(l, where, names);
  if (!rc && names[RD_TWO_LABELS].n > names[RD_TWO_FIRST].n)
    l->t->left[k].masks = names[RD_TWO_LABELS].n - names[RD_TWO_FIRST].n;
  if (!rc && rd_add_bytes(l->t, paths[RD_TWO_LABELS], strlen(paths[RD_TWO_LABELS]), &l->t->roots[k]))
    rc = rd_no_memory(l);
  l->t->ends[k] = l->t->n;
  for (int j = RD_TWO_FIRST; j < ROLES; j++) rd_names_free(&names[j]);
  return rc;
}

/* ---- which folders ---- */
static const char *top_of(const char *rel, char to[512]) {
  snprintf(to, 512, "%.*s", (int)strcspn(rel, "/"), rel);
  return to;
}

static int check_part(sp_ctx *ctx, const char *dir, const plan *p, int part, int target) {
  const char(*of)[512] = p->of[part];
  if (has_both(p, part) && !has(p, part, RD_TWO_LABELS) && part != RD_TEST_PART && target == RD_TARGET_MAP)
    return ctx->host->fail(
        ctx, SP_E_DATA,
        "%s holds %s/ and %s/: as two images a sample they lack a folder of maps, disparity/, depth/ or maps/",
        dir, of[RD_TWO_FIRST], of[RD_TWO_SECOND]);
  if (has_both(p, part) && !has(p, part, RD_TWO_LABELS) && part != RD_TEST_PART)
    return ctx->host->fail(
        ctx, SP_E_DATA,
        "%s holds %s/ and %s/: as two images a sample they lack a folder of labels (label/ or masks/), and as two "
        "classes they are for target = \"class\" (train_cls.lua)",
        dir, of[RD_TWO_FIRST], of[RD_TWO_SECOND]);
  if (part && part != RD_TEST_PART && !has_both(p, part) && (has(p, part, RD_TWO_FIRST) || has(p, part, RD_TWO_SECOND)))
    return ctx->host->fail(
        ctx, SP_E_DATA, "%s holds %s/ without the folder of the other image of each sample; add it, or move that away",
        dir, has(p, part, RD_TWO_FIRST) ? of[RD_TWO_FIRST] : of[RD_TWO_SECOND]);
  return SP_OK;
}

static int check_plan(sp_ctx *ctx, const char *dir, const plan *p, int target) {
  char name[512];
  const char *slash = strrchr(p->twice[1], '/');
  snprintf(name, sizeof name, "%s", slash ? slash + 1 : p->twice[1]);
  if (*p->twice[0] && p->twice_role != RD_TWO_LABELS)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s holds %s/ and %s/, and both may be the %s image of a sample; move one away", dir,
                           p->twice[0], p->twice[1], p->twice_role == RD_TWO_FIRST ? "first" : "second");
  if (*p->twice[0])
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s holds %s/ and %s/, and both may have the labels; `mask_folder = \"%s\"` takes that one",
                           dir, p->twice[0], p->twice[1], name);
  int divided = 0;
  for (int k = RD_TRAIN_PART; k < RD_PARTS; k++) divided |= has_both(p, k) << k;
  if (divided && has_both(p, RD_NO_PART))
    return ctx->host->fail(
        ctx, SP_E_DATA,
        "%s holds %s/, which is of no part, beside folders of parts; move one away, or name a folder "
        "that holds one of them",
        dir, p->of[RD_NO_PART][RD_TWO_FIRST]);
  int rc = SP_OK;
  for (int k = 0; !rc && k < RD_PARTS; k++) rc = check_part(ctx, dir, p, k, target);
  return rc;
}

static int look_once(rd_listing *l, const char *dir, plan *p) {
  plan other;
  int target = l->p->target, k = 0, m = 0,
      found = look(dir, l->p->mask_folder, target == RD_TARGET_MAP, p, &other);
  if (found > 1) {
    while (!has_both(p, k)) k++;
    while (!has_both(&other, m)) m++;
    return l->ctx->host->fail(
        l->ctx, SP_E_DATA,
        "%s holds %s/ and %s/, and also %s/ and %s/: both may be the two images of a sample; move two away", dir,
        p->of[k][RD_TWO_FIRST], p->of[k][RD_TWO_SECOND], other.of[m][RD_TWO_FIRST], other.of[m][RD_TWO_SECOND]);
  }
  return found ? check_plan(l->ctx, dir, p, target) : rd_no_layout(l->ctx, dir);
}

static int stamp_tops(rd_listing *l, const char *dir, const plan *p) {
  char path[4096], top[512];
  int rc = SP_OK;
  for (int part = 0; part < RD_PARTS; part++)
    for (int j = RD_TWO_FIRST; !rc && j < ROLES; j++)
      if (strchr(p->of[part][j], '/') &&
          snprintf(path, sizeof path, "%s/%s", dir, top_of(p->of[part][j], top)) < (int)sizeof path)
        rc = rd_stamp_path(l, path);
  return rc;
}

static void look_beside(rd_listing *l, const plan *p, const rd_chosen *c) {
  char tops[2 * RD_TWO_LABELS][512];
  const char *known[2 * RD_TWO_LABELS + 2] = {"classes.txt"};
  for (int i = 0; i < 2 * RD_TWO_LABELS; i++)
    known[1 + i] = top_of(p->of[c->part[i / RD_TWO_LABELS]][RD_TWO_FIRST + i % RD_TWO_LABELS], tops[i]);
  rd_look_beside(l, 2, known);
}

static int twos_list(rd_listing *l) {
  char dir[4096], tops[RD_PARTS][512];
  const char *names[RD_PARTS] = {NULL};
  rd_chosen c = {{RD_NO_PART, RD_NO_PART}};
  plan p;
  if (snprintf(dir, sizeof dir, "%s%s%s", l->p->path, *l->within ? "/" : "", l->within) >= (int)sizeof dir)
    return rd_too_long(l->ctx, l->p->path, l->within);
  if (*l->within) dir[strlen(dir) - 1] = 0;
  l->t->gives = RD_MASK;
  int rc = look_once(l, dir, &p);
  if (!rc) rc = stamp_tops(l, dir, &p);
  for (int k = RD_TRAIN_PART; !rc && k < RD_PARTS; k++) {
    if (!has_all(&p, k)) continue;
    const char *first = p.of[k][RD_TWO_FIRST];
    names[k] = rd_read_folder_name(top_of(first, tops[k])).part && strchr(first, '/') ? tops[k] : first;
  }
  if (!rc && !has_all(&p, RD_NO_PART)) rc = rd_choose_parts(l, names, &c);
  if (rc) return rc;
  const char(*of)[512] = p.of[c.part[0]];
  rd_note(l, "two images a sample: %s/ has the first, %s/ the second, %s/ the %s", of[RD_TWO_FIRST],
          of[RD_TWO_SECOND], of[RD_TWO_LABELS], l->p->target == RD_TARGET_MAP ? "maps" : "labels");
  l->t->is_stereo = rd_is_stereo(p.row);
  if (c.part[1]) l->t->n_parts = 2;
  rc = list_part(l, 0, l->p->path, l->within, of);
  if (!rc && c.part[1]) rc = list_part(l, 1, l->p->path, l->within, p.of[c.part[1]]);
  if (!rc) look_beside(l, &p, &c);
  if (rc || !*l->p->val_path) return rc;
  rc = rd_other_part(l, "two images a sample");
  if (!rc) rc = look_once(l, l->p->val_path, &p);
  return rc ? rc : list_part(l, 1, l->p->val_path, "", (const char(*)[512])p.of[RD_NO_PART]);
}

const rd_lister rd_twos = {"twos", RD_TARGET_MASK, twos_like, twos_list, rd_settle_pairs, RD_KEPT | RD_WITHIN};
const rd_lister rd_map_twos = {"twos", RD_TARGET_MAP, map_twos_like, twos_list, rd_settle_pairs, RD_KEPT | RD_WITHIN};
