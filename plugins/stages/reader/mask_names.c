/* SPDX-License-Identifier: MIT
 * mask_names.c - which mask belongs to which image: of the same stem, or by a rule such as img_* and *_mask. */
#include "mask_names.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "folder_names.h"
#include "words.h"

#define MAX_RULES 16

/* ---- a rule ---- */
/* What is around the part of a stem that image and mask share: "img_*" and "*_mask". */
typedef struct mask_rule {
  char front[2][64], back[2][64]; /* of images, of masks */
} mask_rule;

/* What a stem has between `front` and `back`; 0: it has not both. */
static int core_of(const char *name, const char *front, const char *back, char core[NAME_MAX + 1]) {
  size_t n = rd_stem_length(name), f = strlen(front), b = strlen(back);
  if (n < f + b || n - f - b > NAME_MAX || strncmp(name, front, f) || strncmp(name + n - b, back, b)) return 0;
  memcpy(core, name + f, n - f - b);
  core[n - f - b] = 0;
  return n > f + b;
}

static const char *mask_of(const mask_rule *r, const rd_names *masks, const char *image) {
  char core[NAME_MAX + 1], stem[NAME_MAX + 1];
  if (!core_of(image, r->front[0], r->back[0], core)) return NULL;
  if (snprintf(stem, sizeof stem, "%s%s%s", r->front[1], core, r->back[1]) > NAME_MAX) return NULL;
  char **found = rd_find_stem(masks, stem), **best = found;
  for (; found && found < masks->v + masks->n && rd_same_stem(*found, *best); found++) /* a PNG before other endings */
    if (rd_is_mask(*found)) return *found;
  return best ? *best : NULL;
}

static const char *without_mask(const mask_rule *r, const rd_names *images, const rd_names *masks) {
  for (size_t i = 0; i < images->n; i++)
    if (!mask_of(r, masks, images->v[i])) return images->v[i];
  return NULL;
}

/* As the parameter mask_name writes it. */
static const char *in_words(const mask_rule *r, char to[300]) {
  int plain = !*r->front[0] && !*r->back[0];
  int n = plain ? 0 : snprintf(to, 300, "%s*%s=", r->front[0], r->back[0]);
  snprintf(to + n, (size_t)(300 - n), "%s*%s", r->front[1], r->back[1]);
  return to;
}

/* ---- what the parameter says ---- */
static int take_side(const char *p, size_t n, char front[64], char back[64]) {
  const char *star = memchr(p, '*', n);
  if (!star || memchr(star + 1, '*', n - (size_t)(star + 1 - p)) || n > 60) return 0;
  snprintf(front, 64, "%.*s", (int)(star - p), p);
  snprintf(back, 64, "%.*s", (int)(n - (size_t)(star + 1 - p)), star + 1);
  return 1;
}

static int take_parameter(sp_ctx *ctx, const char *text, mask_rule *r) {
  const char *equals = strchr(text, '='), *mask = equals ? equals + 1 : text;
  if ((!equals || take_side(text, (size_t)(equals - text), r->front[0], r->back[0])) &&
      take_side(mask, strlen(mask), r->front[1], r->back[1]))
    return SP_OK;
  return ctx->host->fail(
      ctx, SP_E_INVALID,
      "mask_name = \"%s\": * stands once for the stem of an image, without an ending, as in \"*_mask\" or "
      "\"img_*=mask_*\"",
      text);
}

/* ---- finding one ---- */
/* What stands beside the shared part of a mask's stem has to be apart from it: the image 1 has not the mask 10. */
static int is_apart(const char *front, const char *back) {
  size_t f = strlen(front);
  if (f && isalnum((unsigned char)front[f - 1]) && !rd_read_folder_name(front).kind) return 0;
  return !*back || !isalnum((unsigned char)*back) || rd_read_folder_name(back).kind;
}

typedef struct search {
  const rd_names *images, *masks;
  mask_rule rules[MAX_RULES];
  int n;
} search;

static int is_known(const search *s, const mask_rule *r) {
  for (int i = 0; i < s->n; i++)
    if (!memcmp(&s->rules[i], r, sizeof *r)) return 1;
  return 0;
}

/* The rules by which the image, whose shared part is `core`, has a mask, and all others too where `all` is set. */
static void try_core(search *s, const char *core, const char *front, const char *back, int all) {
  for (size_t i = 0; i < s->masks->n && s->n < MAX_RULES; i++) {
    const char *name = s->masks->v[i], *at = strstr(name, core);
    size_t n = rd_stem_length(name), c = strlen(core);
    if (!at || (size_t)(at - name) + c > n) continue;
    size_t f = (size_t)(at - name), b = n - f - c;
    mask_rule r;
    memset(&r, 0, sizeof r);
    if (f > 60 || b > 60) continue;
    snprintf(r.front[0], sizeof r.front[0], "%s", front);
    snprintf(r.back[0], sizeof r.back[0], "%s", back);
    memcpy(r.front[1], name, f);
    memcpy(r.back[1], at + c, b);
    if (is_apart(r.front[1], r.back[1]) && !is_known(s, &r) && (!all || !without_mask(&r, s->images, s->masks)))
      s->rules[s->n++] = r;
  }
}

/* The stem as it is, then without what says that it is an image: img_1, 1_rgb. */
static void try_image(search *s, const char *image, int all) {
  static const char *const fronts[] = {"img_", "img-", "img", "image_", "image-", "image",
                                       "im_",  "im-",  "im",  "rgb_",   "IMG_"},
                           *const backs[] = {"_img",         "_image", "-image",    "_rgb",   "_sat",  "_im",
                                             "_leftImg8bit", "_orig",  "_original", "_input", "_photo"};
  char core[NAME_MAX + 1];
  if (core_of(image, "", "", core)) try_core(s, core, "", "", all);
  for (size_t i = 0; i < sizeof fronts / sizeof *fronts && !s->n; i++)
    if (core_of(image, fronts[i], "", core)) try_core(s, core, fronts[i], "", all);
  for (size_t i = 0; i < sizeof backs / sizeof *backs && !s->n; i++)
    if (core_of(image, "", backs[i], core)) try_core(s, core, "", backs[i], all);
}

/* ---- saying what is wrong ---- */
/* A mask whose stem differs in case only. */
static const char *other_case(const rd_names *masks, const char *image) {
  size_t n = rd_stem_length(image);
  for (size_t i = 0; i < masks->n; i++)
    if (rd_stem_length(masks->v[i]) == n && !strncasecmp(masks->v[i], image, n)) return masks->v[i];
  char a[NAME_MAX + 1], b[NAME_MAX + 1];
  snprintf(a, sizeof a, "%.*s", (int)n, image);
  for (size_t i = 0; i < masks->n; i++) {
    snprintf(b, sizeof b, "%.*s", (int)rd_stem_length(masks->v[i]), masks->v[i]);
    if (rd_is_alike(a, b)) return masks->v[i];
  }
  return NULL;
}

static int no_mask(rd_listing *l, const char *const where[2], const mask_rule *rule, const char *image,
                   const rd_names *images, const rd_names *masks) {
  search near = {images, masks, {{{""}, {""}}}, 0};
  char words[300], wanted[300], core[NAME_MAX + 1] = "";
  const char *same = other_case(masks, image);
  core_of(image, rule->front[0], rule->back[0], core);
  snprintf(wanted, sizeof wanted, "%.60s%.120s%.60s.png", rule->front[1], *core ? core : "*", rule->back[1]);
  if (!same) try_image(&near, image, 0);
  if (same)
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s/%s has no mask: %s/%s is missing; %s/%s is nearly that%s: rename it", where[0], image,
                              where[1], wanted, where[1], same,
                              strncasecmp(same, image, rd_stem_length(image))
                                  ? " (its accents or blanks are other bytes, as of Unicode's NFC and NFD)"
                                  : "");
  if (near.n)
    return l->ctx->host->fail(
        l->ctx, SP_E_DATA,
        "%s/%s has no mask: %s/%s is missing; %s/%s is there, but not each image has one called so "
        "(`mask_name = \"%s\"` would want that)",
        where[0], image, where[1], wanted, where[1], mask_of(&near.rules[0], masks, image),
        in_words(&near.rules[0], words));
  return l->ctx->host->fail(
      l->ctx, SP_E_DATA,
      "%s/%s has no mask: %s/%s is missing; the first mask there is %s: where names differ by more "
      "than the ending, `mask_name = \"*_mask\"` says how",
      where[0], image, where[1], wanted, masks->v[0]);
}

static int several(rd_listing *l, const char *const where[2], const search *s, const char *image) {
  char words[300], list[2048] = "";
  for (int i = 0, n = 0; i < s->n && n < (int)sizeof list; i++)
    n += snprintf(list + n, sizeof list - (size_t)n, "%s`mask_name = \"%s\"`", !i ? "" : i + 1 < s->n ? ", " : " or ",
                  in_words(&s->rules[i], words));
  return l->ctx->host->fail(l->ctx, SP_E_DATA, "%s/%s has %d masks, such as %s/%s and %s; say which are meant: %s",
                            where[0], image, s->n, where[1], mask_of(&s->rules[0], s->masks, image),
                            mask_of(&s->rules[1], s->masks, image), list);
}

static int find_rule(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks,
                     const char *image, mask_rule *rule) {
  char words[300];
  memset(rule, 0, sizeof *rule);
  if (*l->p->mask_name) {
    int rc = take_parameter(l->ctx, l->p->mask_name, rule);
    image = rc ? NULL : without_mask(rule, images, masks);
    return image ? no_mask(l, where, rule, image, images, masks) : rc;
  }
  search s = {images, masks, {{{""}, {""}}}, 0};
  try_image(&s, image, 1);
  if (!s.n) return no_mask(l, where, rule, image, images, masks);
  if (s.n > 1) return several(l, where, &s, image);
  *rule = s.rules[0];
  rd_note(l, "each image has its mask by mask_name = \"%s\": %s and %s", in_words(rule, words), image,
          mask_of(rule, masks, image));
  return SP_OK;
}

/* ---- all of them ---- */
/* By equal stems, in one walk through both lists; the first image without a mask, or NULL. Of one stem a PNG is taken
 * before other endings. */
static const char *match_stems(const rd_names *images, const rd_names *masks, const char **out) {
  size_t k = 0;
  for (size_t i = 0; i < images->n; i++) {
    const char *image = images->v[i];
    while (k < masks->n && !rd_same_stem(masks->v[k], image) && rd_by_stem(&masks->v[k], &image) < 0) k++;
    if (k == masks->n || !rd_same_stem(masks->v[k], image)) return image;
    out[i] = masks->v[k];
    for (size_t j = k + 1; j < masks->n && !rd_is_mask(out[i]) && rd_same_stem(masks->v[j], image); j++)
      if (rd_is_mask(masks->v[j])) out[i] = masks->v[j];
  }
  return NULL;
}

int rd_match_masks(rd_listing *l, const char *const where[2], const rd_names *images, const rd_names *masks,
                   const char **out) {
  const char *image = *l->p->mask_name ? "" : match_stems(images, masks, out);
  mask_rule rule;
  if (!image) return SP_OK;
  int rc = find_rule(l, where, images, masks, image, &rule);
  for (size_t i = 0; !rc && i < images->n; i++) out[i] = mask_of(&rule, masks, images->v[i]);
  return rc;
}
