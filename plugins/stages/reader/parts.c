/* SPDX-License-Identifier: MIT
 * parts.c - the parts that a folder is divided into by the names of its subfolders: what is for training, what
 * validates, and what is kept for the end. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "table.h"

#define MAX_WITHIN 4  /* folders within each other that hold nothing else */
#define LOOK_DEPTH 16 /* for a picture */

static const char *const usual[RD_PARTS] = {"", "train", "val", "test"};

void rd_note(rd_listing *l, const char *fmt, ...) {
  size_t at = strlen(l->notes);
  va_list ap;
  if (at + 2 >= sizeof l->notes) return;
  if (at) l->notes[at++] = '\n';
  va_start(ap, fmt);
  vsnprintf(l->notes + at, sizeof l->notes - at, fmt, ap);
  va_end(ap);
  size_t n = strlen(l->notes + at);
  for (char *p = l->notes + at; *p; p++) /* a note is one line, whatever is in a name */
    if ((unsigned char)*p < ' ' || *p == 127) *p = ' ';
  for (const char *p = l->notes; at && p && p < l->notes + at; p = strchr(p, '\n'), p = p ? p + 1 : p)
    if (!strncmp(p, l->notes + at, n) && p[n] == '\n') { /* of the other file, too */
      l->notes[at - 1] = 0;
      return;
    }
}

/* ---- looking ---- */
int rd_has_picture(const char *path, int depth) {
  char sub[4096];
  int found = 0;
  DIR *d = opendir(path);
  for (struct dirent *e; d && !found && (e = readdir(d));)
    if (!rd_is_junk(e->d_name) && rd_is_image(e->d_name)) {
      int n = snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
      found = n < (int)sizeof sub && rd_entry_kind(sub, e) != DT_DIR;
    }
  if (d && !found && depth) rewinddir(d);
  for (struct dirent *e; d && !found && depth && (e = readdir(d));) {
    if (rd_is_junk(e->d_name)) continue;
    int n = snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
    found = n < (int)sizeof sub && rd_entry_kind(sub, e) == DT_DIR && rd_has_picture(sub, depth - 1);
  }
  if (d) closedir(d);
  return found;
}

static int has_outlines(const char *path, int depth) {
  char sub[4096];
  int found = 0;
  DIR *d = opendir(path);
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    const char *dot = strrchr(e->d_name, '.');
    if (rd_is_junk(e->d_name) || snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >= (int)sizeof sub) continue;
    found = rd_entry_kind(sub, e) == DT_DIR ? depth && has_outlines(sub, depth - 1) : dot && !strcmp(dot, ".json");
  }
  if (d) closedir(d);
  return found;
}

int rd_may_be_masks(const char *dir, const char *name) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return 0;
  return rd_has_picture(path, LOOK_DEPTH) || has_outlines(path, 2);
}

int rd_has_folders(const char *path) {
  rd_names names = {0};
  char sub[4096];
  int found = 0;
  rd_subfolders(path, &names);
  for (size_t i = 0; i < names.n && !found; i++)
    found = snprintf(sub, sizeof sub, "%s/%s", path, names.v[i]) < (int)sizeof sub && rd_has_picture(sub, LOOK_DEPTH);
  rd_names_free(&names);
  return found;
}

static int like_part(const char *path, const rd_lister *lister) {
  return lister->like(path) || (lister == &rd_classes && rd_has_folders(path));
}

int rd_looks_divided(const char *dir, const rd_lister *lister) {
  rd_names names = {0};
  char sub[4096];
  int found = 0;
  rd_subfolders(dir, &names);
  for (size_t i = 0; i < names.n && !found; i++) {
    rd_folder_name n = rd_read_folder_name(names.v[i]);
    if (!n.part || n.kind == RD_MASKS) continue;
    found = snprintf(sub, sizeof sub, "%s/%s", dir, names.v[i]) < (int)sizeof sub && like_part(sub, lister);
  }
  rd_names_free(&names);
  return found;
}

/* The only one of these folders, or the only one with pictures where none lies beside them; NULL: there is none. */
static const char *only_one(const char *path, const rd_names *names) {
  const char *only = NULL;
  char sub[4096];
  if (names->n == 1) return names->v[0];
  if (rd_has_picture(path, 0)) return NULL;
  for (size_t i = 0; i < names->n; i++) {
    if (snprintf(sub, sizeof sub, "%s/%s", path, names->v[i]) >= (int)sizeof sub || !rd_has_picture(sub, LOOK_DEPTH))
      continue;
    if (only) return NULL;
    only = names->v[i];
  }
  return only;
}

/* That subfolder of base/within goes behind `within`. */
static int enter_only(const char *base, char *within, size_t size) {
  char path[4096];
  rd_names names = {0};
  int n = snprintf(path, sizeof path, "%s/%s", base, within), entered = 0;
  const char *only = n < (int)sizeof path && !rd_subfolders(path, &names) ? only_one(path, &names) : NULL;
  if (only) {
    size_t at = strlen(within);
    entered = snprintf(within + at, size - at, "%s/", only) < (int)(size - at);
  }
  rd_names_free(&names);
  return entered;
}

/* Two folders or more, each with pictures somewhere, and none beside them. */
static int has_deep_classes(const char *path) {
  rd_names names = {0};
  char sub[4096];
  int n = 0;
  rd_subfolders(path, &names);
  for (size_t i = 0; i < names.n && n < 2; i++)
    n += snprintf(sub, sizeof sub, "%s/%s", path, names.v[i]) < (int)sizeof sub && rd_has_picture(sub, LOOK_DEPTH);
  rd_names_free(&names);
  return n > 1 && !rd_has_picture(path, 0);
}

const rd_lister *rd_look_within(const rd_params *p, const rd_lister *(*at)(const rd_params *p, const char *dir),
                                char *within, size_t size) {
  char path[4096] = "";
  *within = 0;
  for (int i = 0; i < MAX_WITHIN && enter_only(p->path, within, size); i++) {
    if (snprintf(path, sizeof path, "%s/%s", p->path, within) >= (int)sizeof path) break;
    path[strlen(path) - 1] = 0;
    const rd_lister *l = at(p, path);
    if (l) return l;
  }
  if (*within && p->target == RD_TARGET_CLASS && has_deep_classes(path)) return &rd_classes;
  *within = 0;
  return NULL;
}

/* Folders beside it, which have no picture, are named. */
void rd_note_within(rd_listing *l) {
  char path[4096], beside[512] = "";
  rd_names names = {0};
  const char *within = l->within;
  size_t n = strlen(within) - 1, at = n, used = 0;
  while (at && within[at - 1] != '/') at--;
  if (snprintf(path, sizeof path, "%s/%.*s", l->p->path, (int)at, within) < (int)sizeof path)
    rd_subfolders(path, &names);
  for (size_t i = 0; i < names.n && used + 80 < sizeof beside; i++)
    if (strncmp(names.v[i], within + at, n - at) || names.v[i][n - at])
      used += (size_t)snprintf(beside + used, sizeof beside - used, "%s%.60s/", used ? ", " : "", names.v[i]);
  rd_names_free(&names);
  rd_note(l, "the data lies in %.*s/%s%s", (int)n, within, used ? "; without a picture, and not read: " : "",
          beside);
}

/* ---- another folder, a fraction ---- */
int rd_check_own(rd_listing *l, const char *has) {
  const rd_params *p = l->p;
  if (p->val_fraction.n)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "val_fraction = %g, but %s %s what is for validation; leave val_fraction out",
                              p->val_fraction.v[0], p->path, has);
  if (p->folds)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID, "folds = %d, but %s %s what is for validation; leave folds out",
                              (int)p->folds, p->path, has);
  if (*p->val_path)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "val_path = \"%s\", but %s %s what is for validation; leave val_path out", p->val_path,
                              p->path, has);
  return SP_OK;
}

int rd_other_part(rd_listing *l, const char *what) {
  const rd_params *p = l->p;
  if (p->val_fraction.n || p->folds)
    return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                              "%s and val_path = \"%s\" both say what is for validation; leave one out",
                              p->folds ? "folds" : "val_fraction", p->val_path);
  if ((p->target == RD_TARGET_MASK || p->target == RD_TARGET_MAP) && !l->t->lister->like(p->val_path))
    return l->ctx->host->fail(l->ctx, SP_E_DATA, "%s holds %s, val_path = \"%s\" does not; give both the same layout",
                              p->path, what, p->val_path);
  l->t->n_parts = 2;
  l->parts[1] = (rd_part){p->val_path, ""};
  return SP_OK;
}

/* ---- which parts ---- */
int rd_choose_parts(rd_listing *l, const char *const names[RD_PARTS], rd_chosen *out) {
  const char *base = l->p->path;
  const char *const *n = names;
  int own = l->p->val_fraction.n || *l->p->val_path || l->p->folds;
  *out = (rd_chosen){{RD_NO_PART, RD_NO_PART}};
  if (!n[RD_TRAIN_PART] && (n[RD_VAL_PART] || n[RD_TEST_PART])) {
    const char *only = n[RD_VAL_PART] ? n[RD_VAL_PART] : n[RD_TEST_PART];
    return l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s holds %s/, which is not to be trained on by its name, and no train/; name it itself "
                              "(%s/%s%s) if it is all there is",
                              base, only, base, l->within, only);
  }
  if (!n[RD_TRAIN_PART]) return SP_OK;
  out->part[0] = RD_TRAIN_PART;
  if (n[RD_VAL_PART]) {
    char has[512];
    snprintf(has, sizeof has, "has %s/ and %s/, which say", n[RD_TRAIN_PART], n[RD_VAL_PART]);
    out->part[1] = RD_VAL_PART;
    return rd_check_own(l, has);
  }
  if (!n[RD_TEST_PART]) return SP_OK;
  if (own) {
    rd_note(l, "%s/ is left out: it is not trained on, and something else validates", n[RD_TEST_PART]);
    return SP_OK;
  }
  out->part[1] = RD_TEST_PART;
  rd_note(l, "there is no val/, so %s/ validates; `val_fraction = 0.1` takes a part of %s/ instead", n[RD_TEST_PART],
          n[RD_TRAIN_PART]);
  return SP_OK;
}

static int is_like(const rd_listing *l, const char *dir, const char *name) {
  char path[4096];
  return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && like_part(path, l->t->lister);
}

/* The subfolders of `dir` that are parts by their names and look like the layout; there[]: that are parts by name. */
static int name_parts(rd_listing *l, const char *dir, const rd_names *names, const char *of[RD_PARTS],
                      const char *there[RD_PARTS]) {
  for (size_t i = 0; i < names->n; i++) {
    const char *name = names->v[i];
    rd_folder_name n = rd_read_folder_name(name);
    if (!n.part || n.kind == RD_MASKS) continue;
    if (!there[n.part]) there[n.part] = name;
    if (!is_like(l, dir, name)) continue;
    if (of[n.part])
      return l->ctx->host->fail(
          l->ctx, SP_E_DATA,
          "%s holds %s/ and %s/, and both would be the part %s by their names; rename one, or put them together",
          dir, of[n.part], name, usual[n.part]);
    of[n.part] = name;
  }
  return SP_OK;
}

/* The folder of part k. */
static int set_part(rd_listing *l, int k, const char *name) {
  int n = snprintf(l->rels[k], sizeof l->rels[k], "%s%s%s", l->within, name, *name ? "/" : "");
  if (n >= (int)sizeof l->rels[k]) return rd_too_long(l->ctx, l->p->path, name);
  l->parts[k] = (rd_part){l->p->path, l->rels[k]};
  return SP_OK;
}

static int take_parts(rd_listing *l, const char *dir, const rd_names *names, const char *what) {
  const char *of[RD_PARTS] = {NULL}, *there[RD_PARTS] = {NULL};
  rd_chosen c;
  int rc = name_parts(l, dir, names, of, there);
  if (rc) return rc;
  const char *const *t = there;
  int has = of[RD_TRAIN_PART] ? RD_TRAIN_PART : RD_VAL_PART, lacks = RD_TRAIN_PART + RD_VAL_PART - has;
  int is_train = has == RD_TRAIN_PART; /* it can be divided */
  if (t[RD_TRAIN_PART] && t[RD_VAL_PART] && !of[RD_TRAIN_PART] != !of[RD_VAL_PART])
    return l->ctx->host->fail(
        l->ctx, SP_E_DATA,
        "%s/%s holds %s, %s/%s does not; give both the same layout, or other names if they are no splits%s%s%s%s", dir,
        t[has], what, dir, t[lacks], is_train ? "; or name " : "", is_train ? dir : "", is_train ? "/" : "",
        is_train ? t[has] : "");
  if ((rc = rd_choose_parts(l, of, &c))) return rc;
  rc = set_part(l, 0, c.part[0] ? of[c.part[0]] : "");
  if (rc || !c.part[1]) return rc || !*l->p->val_path ? rc : rd_other_part(l, what);
  l->t->n_parts = 2;
  return set_part(l, 1, of[c.part[1]]);
}

int rd_find_parts(rd_listing *l, const char *what) {
  char dir[4096];
  rd_names names = {0};
  if (l->p->folders == RD_FOLDERS_CLASSES) return *l->p->val_path ? rd_other_part(l, what) : set_part(l, 0, "");
  if (snprintf(dir, sizeof dir, "%s%s%s", l->p->path, *l->within ? "/" : "", l->within) >= (int)sizeof dir)
    return rd_too_long(l->ctx, l->p->path, l->within);
  if (*l->within) dir[strlen(dir) - 1] = 0;
  rd_subfolders(dir, &names);
  int rc = take_parts(l, dir, &names, what);
  rd_names_free(&names);
  return rc;
}
