/* SPDX-License-Identifier: MIT
 * shards.c - the layout `webdataset`: tar files whose members are samples, those of one sample side by side and of one
 * name up to the first dot: KEY.jpg and KEY.cls, or KEY.seg.png. Of two images a sample KEY.before.jpg and
 * KEY.after.jpg. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "../../kits/fetch/fetch.h"
#include "../../kits/tar/tar.h"
#include "class_file.h"
#include "shard_names.h"
#include "maps.h"
#include "two_names.h"
#include "values.h"

#define MOST_LABEL 32768 /* bytes of KEY.cls and KEY.json */
#define MOST_NAME 4000   /* bytes of a member's name */

enum { IMAGE, LABEL, JSON, MASK, OF_TWO, OTHER }; /* kinds of members; OF_TWO: KEY.before.jpg */

/* ---- members in the table ---- */
/* What a reference's `at` leads to: the place in the shard, then the member's name. */
static uint64_t place_of(const rd_table *t, const rd_ref *ref) {
  uint64_t at;
  memcpy(&at, t->bytes + ref->at, sizeof at);
  return at;
}

static const char *member_of(const rd_table *t, const rd_ref *ref) { return t->bytes + ref->at + sizeof(uint64_t); }

static int shard_name(const rd_table *t, const rd_ref *ref, char *to, size_t size) {
  return snprintf(to, size, "%s: %s", t->bytes + t->sources[ref->source].path, member_of(t, ref));
}

static int shard_open(sp_ctx *ctx, const rd_table *t, rd_source *s) {
  tar_unpacked unpacked = {0};
  return s->data ? SP_OK
                 : tar_open(ctx, t->bytes + (s->file ? s->file : s->path), t->bytes + s->path, &unpacked,
                            (tar_file **)&s->data);
}

static void shard_close(rd_source *s) { tar_close(s->data); }

static int shard_load(const rd_table *t, const rd_ref *ref, rd_worker *w) {
  char *why = w->decoder.why;
  int rc;
  void *to = im_room(&w->decoder, ref->size);
  if (!ref->size) rc = IM_BROKEN, snprintf(why, sizeof w->decoder.why, "the file is empty");
  else if (!to) rc = SP_E_NOMEM, snprintf(why, sizeof w->decoder.why, "no memory for its %" PRIu32 " bytes", ref->size);
  else
    rc = tar_read(t->sources[ref->source].data, (int64_t)place_of(t, ref), to, ref->size, why, sizeof w->decoder.why);
  return rc ? rd_blame(t, w, rc, ref) : SP_OK;
}

const rd_source_kind rd_shard_source = {shard_open, shard_close, shard_load, shard_name};

/* The name up to the first dot of its last part; of a sample with that last part alone. */
static size_t key_length(const char *name) {
  const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
  return (size_t)(last - name) + strcspn(last, ".");
}

static void stem_of(const rd_table *t, const rd_sample *s, char *to, size_t size) {
  const char *name = member_of(t, &s->image), *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
  snprintf(to, size, "%.*s", (int)strcspn(last, "."), last);
}

/* ---- one shard ---- */
typedef struct member {
  const char *name;
  int kind, archive;
  int64_t at, size;
} member;

/* A shard being listed: its members of interest, and what is known of all shards. */
typedef struct shard {
  rd_listing *l;
  const char *path;
  tar_file *tar;
  uint32_t source;
  int part;
  rd_names names;
  member *v;
  size_t n, cap;
  rd_shard_labels *labels;
} shard;

/* RD_TWO_FIRST or RD_TWO_SECOND of ".before.jpg", by the words of that row; 0: it has none of them. */
static int role_of(const char *ending, int row) {
  const char *dot = strchr(ending + 1, '.');
  return dot && !strchr(dot + 1, '.') ? rd_two_word(ending + 1, (size_t)(dot - ending) - 1, row) : 0;
}

static int has_role(const char *ending) {
  for (int row = 0; row < rd_n_two_words; row++)
    if (role_of(ending, row)) return 1;
  return 0;
}

static int kind_of(const rd_params *p, const char *ending) {
  static const char *const masks[] = {".seg.png", ".mask.png"};
  static const char *const maps[] = {".depth.png", ".depth.tif", ".depth.tiff", ".depth.npy", ".map.png",
                                     ".map.tif",   ".map.tiff",  ".map.npy",    ".npy"};
  /* Else an array beside a picture is another matter. */
  int numbers = p->keep.as != IM_AS_UINT8 || p->keep.channels > 3;
  if (rd_gives(p->target) != RD_MASK && !strcasecmp(ending, ".cls")) return LABEL;
  if (rd_gives(p->target) != RD_MASK && !strcasecmp(ending, ".json")) return JSON;
  for (size_t i = 0; i < 2; i++)
    if (!strcasecmp(ending, masks[i])) return p->target == RD_TARGET_MASK ? MASK : OTHER;
  for (size_t i = 0; p->target == RD_TARGET_MAP && i < sizeof maps / sizeof *maps; i++)
    if (!strcasecmp(ending, maps[i])) return MASK;
  if (strrchr(ending, '.') != ending)
    return (rd_is_picture(ending) || (numbers && rd_is_array(ending))) && has_role(ending) ? OF_TWO : OTHER;
  return rd_is_picture(ending) || (numbers && rd_is_array(ending)) ? IMAGE : OTHER;
}

static int no_memory(const shard *s) {
  return s->l->ctx->host->fail(s->l->ctx, SP_E_NOMEM, "no memory for the members of %s", s->path);
}

/* What programs add that pack: POSIX's long names as others unpack them, and what a Mac keeps of files. */
static int is_added(const char *name) {
  for (const char *p = name, *next; p; p = next ? next + 1 : NULL) {
    next = strchr(p, '/');
    if (!strncmp(p, "PaxHeader", 9) || !strncmp(p, "__MACOSX/", 9)) return 1;
  }
  return 0;
}

/* Of a name whose key ends at its first dot: would it belong to a sample if the key ended later? */
static int is_dotted(const shard *s, const char *ending) {
  while ((ending = strchr(ending + 1, '.')))
    if (kind_of(s->l->p, ending) != OTHER) return 1;
  return 0;
}

static void leave_out(shard *s, const char *name, const char *ending, int is_hidden) {
  rd_left *left = &s->l->t->left[s->part];
  if (is_hidden) rd_leave_junk(left, name);
  else if (*ending && is_dotted(s, ending)) rd_leave_dotted(left, name);
  else rd_leave(left, name, DT_REG);
}

/* A member of the tar, as tar_walk finds it. Names without an ending, or that begin with a dot, belong to no sample. */
static int found(void *arg, const tar_member *m) {
  shard *s = arg;
  sp_ctx *ctx = s->l->ctx;
  const char *slash = strrchr(m->name, '/'), *last = slash ? slash + 1 : m->name, *ending = last + strcspn(last, ".");
  int is_hidden = ending == last || is_added(m->name), kind = *ending && !is_hidden ? kind_of(s->l->p, ending) : OTHER;
  if (kind == OTHER) {
    leave_out(s, last, ending, is_hidden);
    return SP_OK;
  }
  if (m->is_link)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s: %s is a link; pack a copy of the files without links, as `cp -rL FOLDER COPY` makes it",
                           s->path, m->name);
  if (strlen(m->name) > MOST_NAME)
    return ctx->host->fail(ctx, SP_E_DATA, "%s: a member's name is longer than %d bytes: %.80s...", s->path, MOST_NAME,
                           m->name);
  if (m->size > IM_MAX_FILE)
    return ctx->host->fail(ctx, SP_E_DATA, "%s: %s has %" PRId64 " bytes; an image may have at most 1 GiB", s->path,
                           m->name, m->size);
  if (s->n == s->cap) {
    size_t cap = s->cap ? 2 * s->cap : 1024;
    member *v = realloc(s->v, cap * sizeof *v);
    if (!v) return no_memory(s);
    s->v = v;
    s->cap = cap;
  }
  if (rd_names_add(&s->names, m->name)) return no_memory(s);
  s->v[s->n++] = (member){s->names.v[s->names.n - 1], kind, m->archive, m->at, m->size};
  return SP_OK;
}

/* ---- its samples ---- */
/* Members of one sample. Samples are in the order of their images, wherever their other members lie. */
typedef struct group {
  const member *image, *truth, *second; /* truth: label or mask; second: NULL: samples have one image */
} group;

static int by_key(const void *a, const void *b) {
  const member *x = a, *y = b;
  if (x->archive != y->archive) return x->archive < y->archive ? -1 : 1;
  size_t nx = key_length(x->name), ny = key_length(y->name);
  int c = memcmp(x->name, y->name, nx < ny ? nx : ny);
  if (!c) c = (nx > ny) - (nx < ny);
  if (!c) c = (x->kind > y->kind) - (x->kind < y->kind);
  return c ? c : (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b) {
  int64_t x = ((const group *)a)->image->at, y = ((const group *)b)->image->at;
  return (x > y) - (x < y);
}

static int same_key(const member *a, const member *b) {
  size_t n = key_length(a->name);
  return a->archive == b->archive && n == key_length(b->name) && !memcmp(a->name, b->name, n);
}

/* Two images, or two labels, of one sample. */
static int twice(const shard *s, const member *a, const member *b) {
  sp_ctx *ctx = s->l->ctx;
  if (!strcmp(a->name, b->name))
    return ctx->host->fail(ctx, SP_E_DATA, "%s: %s is there twice; pack it again", s->path, a->name);
  return ctx->host->fail(ctx, SP_E_DATA,
                         "%s: %s and %s have the same name up to the first dot, which makes them one "
                         "sample, and it can have one %s only%s",
                         s->path, a->name, b->name,
                         a->kind == IMAGE  ? "image"
                         : a->kind == MASK ? "mask"
                                           : "label",
                         a->kind == IMAGE ? " (masks are *.seg.png or *.mask.png)" : "");
}

/* Files that lie in folders, packed as they are. */
static const char *unpack(const shard *s, const member *image, char words[4400]) {
  *words = 0;
  if (strchr(image->name + 2 * !strncmp(image->name, "./", 2), '/') && !fetch_is_address(s->path))
    snprintf(words, 4400, "; folders that are packed as they are can be read unpacked: mkdir NEW; tar -xf '%s' -C NEW",
             s->path);
  return words;
}

static int lacks(const shard *s, const member *image) {
  char words[4400];
  int n = (int)key_length(image->name);
  int target = s->l->p->target, by_label = rd_gives(target) != RD_MASK;
  const char *other = s->l->t->left[s->part].file;
  const char *want = by_label                  ? ".cls or .json"
                     : target == RD_TARGET_MAP ? ".depth.png, .npy or .map.tif"
                                               : ".seg.png or .mask.png";
  return s->l->ctx->host->fail(s->l->ctx, SP_E_DATA, "%s: %s has no %s: there is no %.*s%s%s%s%s%s", s->path,
                               image->name, by_label ? "label" : "mask", n, image->name, want,
                               target == RD_TARGET_MASK ? ", and as a label no .cls, a number or the name of a class"
                                                        : "",
                               *other ? "; left out is " : "", other, unpack(s, image, words));
}

/* The n members KEY.WORD.ENDING of a sample: by one row of words one is the first and the other the second. */
static int take_two(const shard *s, const member *v, size_t n, group *g) {
  for (int row = 0; n == 2 && row < rd_n_two_words; row++) {
    int a = role_of(v[0].name + key_length(v[0].name), row), b = role_of(v[1].name + key_length(v[1].name), row);
    if (!a || !b || a == b) continue;
    g->image = &v[a == RD_TWO_SECOND];
    g->second = &v[a == RD_TWO_FIRST];
    s->l->t->is_stereo = rd_is_stereo(row);
    return SP_OK;
  }
  int key = (int)key_length(v->name);
  if (n == 1)
    return s->l->ctx->host->fail(
        s->l->ctx, SP_E_DATA,
        "%s: %s is one of two images by its name, and the other one is not there; pack both, such as "
        "%.*s.a.png and %.*s.b.png, or call it %.*s%s if samples have one image",
        s->path, v->name, key, v->name, key, v->name, key, v->name, strrchr(v->name, '.'));
  return s->l->ctx->host->fail(s->l->ctx, SP_E_DATA,
                               "%s: the sample %.*s has %zu images, such as %s and %s; two a sample are read, such as "
                               "%.*s.a.png and %.*s.b.png; pack those",
                               s->path, key, v->name, n, v[0].name, v[1].name, key, v->name, key, v->name);
}

/* A file that tools write about a set, or what is said twice. */
static void leave_json(const shard *s, const member *m) {
  const char *slash = strrchr(m->name, '/');
  rd_leave(&s->l->t->left[s->part], slash ? slash + 1 : m->name, DT_REG);
}

/* The members from v on that are of its key; *n: how many. */
static int take_group(const shard *s, const member *v, const member *end, group *g, size_t *n) {
  size_t two = 0;
  *g = (group){NULL, NULL, NULL};
  for (*n = 0; v + *n < end && same_key(v, v + *n); ++*n) {
    const member *m = v + *n;
    if (*n && m[-1].kind == m->kind && m->kind != OF_TWO) return twice(s, m - 1, m);
    if (m->kind == IMAGE) g->image = m;
    else if (m->kind == OF_TWO) two++;
    else if (!g->truth || (m->kind == JSON && *s->l->p->csv.columns)) g->truth = m;
    else leave_json(s, m); /* beside KEY.cls */
  }
  const member *words = v + *n - two;
  for (size_t i = 0; g->image && i < two; i++) rd_leave_dotted(&s->l->t->left[s->part], words[i].name);
  int rc = two && !g->image ? take_two(s, words, two, g) : SP_OK;
  return rc;
}

/* Labels and masks without an image are left out. */
static int take_groups(shard *s, group *groups, size_t *n_groups) {
  const member *bare = NULL; /* the first image without a label or mask */
  size_t labelled = 0;
  *n_groups = 0;
  if (!s->n) return SP_OK; /* a tar without samples has no list either */
  qsort(s->v, s->n, sizeof *s->v, by_key);
  for (size_t i = 0, n; i < s->n; i += n) {
    group *g = &groups[*n_groups];
    int rc = take_group(s, s->v + i, s->v + s->n, g, &n);
    if (rc) return rc;
    if (g->image && !g->truth && !bare) bare = g->image;
    if (g->image) ++*n_groups, labelled += !!g->truth;
    else if (s->v[i].kind == JSON) leave_json(s, &s->v[i]);
    else rd_leave_alone(&s->l->t->left[s->part], s->v[i].name);
  }
  if (bare && (labelled || s->l->p->target != RD_TARGET_CLASS)) return lacks(s, bare);
  qsort(groups, *n_groups, sizeof *groups, by_place);
  return SP_OK;
}

/* ---- into the table ---- */
static int set_ref(const shard *s, rd_ref *ref, const member *m) {
  char both[sizeof(uint64_t) + MOST_NAME];
  uint64_t place = (uint64_t)m->at;
  size_t n = strlen(m->name);
  memcpy(both, &place, sizeof place);
  memcpy(both + sizeof place, m->name, n);
  *ref = (rd_ref){.size = (uint32_t)m->size, .source = s->source};
  return rd_add_bytes(s->l->t, both, sizeof place + n, &ref->at);
}

static int read_label(const shard *s, const member *m, rd_sample *to) {
  sp_ctx *ctx = s->l->ctx;
  char where[4096 + MOST_NAME], why[256], *text = NULL;
  snprintf(where, sizeof where, "%s: %.*s", s->path, MOST_NAME, m->name);
  if (m->size > MOST_LABEL)
    return ctx->host->fail(ctx, SP_E_DATA,
                           "%s has %" PRId64 " bytes; a label is a number, or the name of a class, or a list "
                           "of them",
                           where, m->size);
  if (!(text = malloc((size_t)m->size + 1))) return no_memory(s);
  int rc = tar_read(s->tar, m->at, text, (size_t)m->size, why, sizeof why);
  if (rc) rc = ctx->host->fail(ctx, rc, "%s: %s", where, why);
  else rc = rd_take_shard_label(s->labels, where, text, (size_t)m->size, m->kind == JSON, to);
  free(text);
  return rc;
}

static int add_sample(const shard *s, const group *g) {
  char stem[MOST_NAME + 1];
  rd_sample *to = rd_add_sample(s->l->t);
  if (!to || set_ref(s, &to->image, g->image)) return no_memory(s);
  if (s->l->t->n > 1 && !g->second != !s->l->t->seconds)
    return s->l->ctx->host->fail(s->l->ctx, SP_E_DATA,
                                 "%s: %s is %s, and samples before it are not; pack all samples alike", s->path,
                                 g->image->name, g->second ? "one of two images" : "the only image of its sample");
  rd_ref *second = g->second ? rd_add_second(s->l->t) : NULL;
  if (g->second && (!second || set_ref(s, second, g->second))) return no_memory(s);
  stem_of(s->l->t, to, stem, sizeof stem - 1);
  to->key = rd_hash_name(strcat(stem, "."));
  if (!g->truth) {
    char where[4096 + MOST_NAME];
    snprintf(where, sizeof where, "%s: %.*s", s->path, MOST_NAME, g->image->name);
    int rc = rd_take_shard_folder(s->labels, where, g->image->name, to);
    return rc == 1 ? lacks(s, g->image) : rc;
  }
  if (g->truth->kind != MASK) return read_label(s, g->truth, to);
  return set_ref(s, &to->mask, g->truth) ? no_memory(s) : SP_OK;
}

static int list_members(shard *s) {
  size_t n = 0;
  int rc = tar_walk(s->l->ctx, s->tar, found, s);
  group *groups = rc ? NULL : malloc((s->n + 1) * sizeof *groups);
  if (!rc) rc = groups ? take_groups(s, groups, &n) : no_memory(s);
  for (size_t i = 0; !rc && i < n; i++) rc = add_sample(s, &groups[i]);
  free(groups);
  return rc;
}

static int list_shard(rd_listing *l, rd_shard_labels *labels, const char *path, int part, tar_unpacked *unpacked) {
  shard s = {.l = l, .path = path, .part = part, .labels = labels};
  const char *file = rd_shard_file(path);
  int rc = rd_stamp_path(l, file);
  if (rc) return rc;
  if (rd_add_source(l->t, RD_SHARD, path, &s.source) || rd_add_fetched(l->t, s.source, path)) return rd_no_memory(l);
  rc = tar_open(l->ctx, file, path, unpacked, &s.tar);
  l->t->sources[s.source].data = s.tar;
  if (!rc) rc = list_members(&s);
  rd_names_free(&s.names);
  free(s.v);
  return rc;
}

/* ---- the layout ---- */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void tell_unpacked(rd_listing *l, const tar_unpacked *u, const char *what) {
  static const char *const units[] = {"KiB", "MiB", "GiB"};
  double size = (double)u->bytes / 1024;
  int k = 0;
  for (; k < 2 && size >= 1024; k++) size /= 1024;
  l->ctx->host->log(l->ctx, SP_LOG_INFO, "%s: %s %zu shard%s, %.1f %s, into %s", l->p->path, what, u->files,
                    u->files == 1 ? "" : "s", size, units[k], u->dir);
}

static int list_all(rd_listing *l, rd_shard_labels *labels, const rd_names shards[2]) {
  tar_unpacked unpacked = {0};
  double begun = now();
  int rc = SP_OK, told = 0;
  for (int k = 0; !rc && k < l->t->n_parts; k++) {
    for (size_t i = 0; !rc && i < shards[k].n; i++) {
      rc = list_shard(l, labels, shards[k].v[i], k, &unpacked);
      if (rc || told || !unpacked.files || now() - begun < 2) continue;
      tell_unpacked(l, &unpacked, "goes on unpacking; so far");
      told = 1;
    }
    l->t->ends[k] = l->t->n;
  }
  if (!rc && unpacked.files) tell_unpacked(l, &unpacked, "unpacked");
  if (unpacked.compressed)
    l->t->newest = INT64_MAX; /* not kept: it is opened with words, and takes longer than listing */
  return rc;
}

/* They number the labels. */
static int stamp_classes(rd_listing *l, const char *home) {
  char path[4096 + 16];
  snprintf(path, sizeof path, "%s/classes.txt", home);
  return rd_stamp_path(l, path);
}

static const char *first_dotted(const rd_table *t) {
  for (int k = 0; k < 2; k++)
    if (t->left[k].dotted) return t->left[k].key;
  return NULL;
}

static int shards_list(rd_listing *l) {
  rd_names shards[2] = {{0}};
  char home[4096];
  rd_shards_home(l->p->path, home);
  l->t->gives = rd_gives(l->p->target);
  rd_shard_labels *labels = rd_open_shard_labels(l, home);
  int rc = labels ? stamp_classes(l, home) : SP_E_NOMEM;
  if (!rc) rc = rd_find_shards(l, shards);
  if (!rc) rc = list_all(l, labels, shards);
  if (!rc && !l->t->n) {
    char held[2048] = "";
    for (int k = 0; k < 2 && !*held; k++) rd_unread_words(&l->t->left[k], held, sizeof held);
    for (int k = 0; k < 2 && !*held; k++) snprintf(held, sizeof held, "%s", l->t->left[k].file);
    rc = l->ctx->host->fail(
        l->ctx, SP_E_DATA, "%s: the shards hold no sample: KEY." RD_ENDINGS " with %s%s%s%s%s", l->p->path,
        l->t->gives != RD_MASK          ? "KEY.cls, a number or the name of a class, or KEY.json"
        : l->p->target == RD_TARGET_MAP ? "KEY.depth.png, KEY.npy or KEY.map.tif"
                                        : "KEY.seg.png, KEY.mask.png or KEY.cls",
        first_dotted(l->t) ? "; a KEY ends at the first dot of a name, so give names one without: " : "",
        first_dotted(l->t) ? first_dotted(l->t) : "", *held ? "; they hold " : "", held);
  }
  if (!rc && l->t->seconds)
    rd_note(l, "two images a sample: %s is the first of a sample, %s the second",
            member_of(l->t, &l->t->samples[0].image), member_of(l->t, &l->t->seconds[0]));
  if (!rc) rc = rd_number_shard_labels(labels, stem_of);
  for (int k = 0; k < 2; k++) rd_names_free(&shards[k]);
  if (labels) rd_close_shard_labels(labels);
  return rc;
}

static int shards_settle(sp_ctx *ctx, rd_self *self) {
  char home[4096];
  if (self->p->target == RD_TARGET_MAP) return rd_settle_maps(ctx, self);
  rd_shards_home(self->p->path, home);
  return self->table->gives != RD_MASK ? rd_settle_words(ctx, self) : rd_settle_masks(ctx, self, home, NULL);
}

const rd_lister rd_shards = {"webdataset", RD_TARGET_ANY, rd_shards_like,
                             shards_list,  shards_settle, RD_IN_SPLITS | RD_KEPT};
