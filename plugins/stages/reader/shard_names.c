/* SPDX-License-Identifier: MIT
 * shard_names.c - which tar files are read: those of a folder, of a pattern, of a list, at addresses;
 * which part each is of. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../kits/fetch/fetch.h"
#include "../../kits/text/text.h"
#include "shard_names.h"

#define MOST_FILES 1000000    /* that a pattern may name */
#define MOST_LIST (256 << 20) /* bytes of a list */

/* Of an address the query does not count. */
static int is_shard(const char *name) {
  static const char *const endings[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"};
  size_t n = fetch_is_address(name) ? strcspn(name, "?#") : strlen(name);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t m = strlen(endings[i]);
    if (n > m && !strncasecmp(name + n - m, endings[i], m)) return 1;
  }
  return 0;
}

/* ---- lists ---- */
/* The entry of the line at *p, NUL-terminated in place; NULL: there are no more. *p goes on. */
static char *next_entry(char **p) {
  while (**p) {
    char *from = *p, *end = from + strcspn(from, "\n"), *last = end;
    *p = *end ? end + 1 : end;
    text_trim(&from, &last);
    if (from == last || *from == '#') continue;
    *last = 0;
    return from;
  }
  return NULL;
}

/* A text file whose first entry is a tar file. */
int rd_lists_shards(const char *path) {
  size_t n = strlen(path);
  text_file t = {0};
  char why[TEXT_WHY];
  struct stat st;
  if (n < 5 || strcasecmp(path + n - 4, ".txt") || stat(path, &st) || !S_ISREG(st.st_mode)) return 0;
  if (text_read(path, MOST_LIST, 8192, &t, why)) return 0;
  char *p = t.p, *first = p ? next_entry(&p) : NULL;
  int is = first && is_shard(first);
  text_free(&t);
  return is;
}

/* ---- patterns ---- */
int rd_names_shards(const char *path) { return is_shard(path) && !rd_is_folder(path, ""); }

int rd_shards_like(const char *dir) {
  if (rd_names_shards(dir) || rd_lists_shards(dir)) return 1;
  DIR *d = opendir(dir);
  int is = 0;
  for (struct dirent *e; d && !is && (e = readdir(d));) is = *e->d_name != '.' && is_shard(e->d_name);
  if (d) closedir(d);
  return is;
}

static int bad_pattern(rd_listing *l, const char *pattern, const char *why) {
  return l->ctx->host->fail(l->ctx, SP_E_INVALID,
                            "%s: %s; a pattern is such as shards/train-{000000..000009}.tar or {a,b}.tar", pattern,
                            why);
}

/* {from..to}: with leading zeros where one of the two has them. */
typedef struct range {
  unsigned long from, to;
  int digits;
} range;

static int is_range(const char *in, const char *end, range *r) {
  size_t n = strspn(in, "0123456789");
  if (!n || n > 9 || strncmp(in + n, "..", 2)) return 0;
  size_t m = strspn(in + n + 2, "0123456789");
  if (!m || m > 9 || in + n + 2 + m != end) return 0;
  r->from = strtoul(in, NULL, 10);
  r->to = strtoul(in + n + 2, NULL, 10);
  r->digits = (*in == '0' && n > 1) || (in[n + 2] == '0' && m > 1) ? (int)(n > m ? n : m) : 0;
  return 1;
}

/* path: n bytes of a name are done; rest: of the pattern. */
static int expand(rd_listing *l, const char *pattern, char path[4096], size_t n, const char *rest, rd_names *out) {
  size_t plain = strcspn(rest, "{}");
  if (n + plain >= 4096) return bad_pattern(l, pattern, "a path is too long");
  memcpy(path + n, rest, plain);
  path[n += plain] = 0;
  rest += plain;
  if (!*rest && out->n == MOST_FILES) return bad_pattern(l, pattern, "it names more than a million files");
  if (!*rest) return rd_names_add(out, path) ? rd_no_memory(l) : SP_OK;
  const char *in = rest + 1, *end = strpbrk(in, "{}");
  if (*rest == '}' || !end || *end == '{') return bad_pattern(l, pattern, "a brace lacks its other one");
  range r = {0, 0, 0};
  int is = is_range(in, end, &r),
      rc = r.from <= r.to ? SP_OK : bad_pattern(l, pattern, "a range ends below its beginning");
  for (unsigned long v = r.from; is && !rc && v <= r.to; v++) {
    int digits = snprintf(path + n, 4096 - n, "%0*lu", r.digits, v);
    rc = n + (size_t)digits < 4096 ? expand(l, pattern, path, n + (size_t)digits, end + 1, out)
                                   : bad_pattern(l, pattern, "a path is too long");
  }
  for (const char *next; !is && !rc; in = next + 1) {
    next = in + strcspn(in, ",}");
    if (n + (size_t)(next - in) >= 4096) return bad_pattern(l, pattern, "a path is too long");
    memcpy(path + n, in, (size_t)(next - in));
    rc = expand(l, pattern, path, n + (size_t)(next - in), end + 1, out);
    if (next == end) break;
  }
  return rc;
}

/* What a path names: itself, a pattern, or a list of such, whose paths begin at the list.
 * Addresses are as they were given. */
static int name_all(rd_listing *l, const char *path, rd_names *out) {
  char to[4096], line[4096], why[TEXT_WHY];
  text_file t = {0};
  if (!rd_lists_shards(path)) {
    if (!fetch_is_address(path) && !access(path, F_OK)) return rd_names_add(out, path) ? rd_no_memory(l) : SP_OK;
    return expand(l, path, to, 0, path, out);
  }
  int rc = text_read(path, MOST_LIST, 0, &t, why),
      folder = (int)(strrchr(path, '/') ? strrchr(path, '/') + 1 - path : 0);
  if (rc) return l->ctx->host->fail(l->ctx, rc, "%s: %s", path, why);
  char *p = t.p;
  for (char *entry; !rc && p && (entry = next_entry(&p));) {
    int beside = !fetch_is_address(entry) && *entry != '/';
    if (!is_shard(entry))
      rc = l->ctx->host->fail(l->ctx, SP_E_DATA,
                              "%s: \"%.200s\" is no tar file: such a list has an address or a path of one in each line",
                              path, entry);
    else if (snprintf(line, sizeof line, "%.*s%s", beside ? folder : 0, path, entry) >= (int)sizeof line)
      rc = rd_too_long(l->ctx, path, entry);
    else rc = expand(l, line, to, 0, line, out);
  }
  text_free(&t);
  return rc;
}

/* ---- addresses ---- */
/* The folder of a file or a pattern; 0: it has none. */
static size_t folder_length(const char *path) {
  size_t n = strcspn(path, fetch_is_address(path) ? "{?#" : "{");
  while (n && path[n - 1] != '/') n--;
  return n ? n - 1 : 0;
}

static fetch_how how_of(const rd_params *p) {
  return (fetch_how){p->cache_dir, p->data_checksums, p->cache_bytes, p->fetch_tries, p->fetch_pause, p->fetch_timeout};
}

/* Its classes.txt, where the server has one. */
static int fetch_classes(rd_listing *l, const fetch_how *how, const char *address) {
  char file[4096];
  const char *query = strchr(address, '?');
  char *list[] = {file};
  fetch_how any = *how;
  any.checksums = "";
  if (snprintf(file, sizeof file, "%.*s/classes.txt%s", (int)folder_length(address), address, query ? query : "") >=
      (int)sizeof file)
    return SP_OK;
  return fetch_all(l->ctx, &any, list, 1, 1);
}

static int by_address(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Two that differ in what is not shown would be one file. */
static int check_twice(rd_listing *l, const rd_names *addresses) {
  rd_names bare = {0};
  char text[FETCH_PATH];
  int rc = SP_OK;
  for (size_t i = 0; !rc && i < addresses->n; i++) {
    fetch_bare(addresses->v[i], text, sizeof text);
    if (rd_names_add(&bare, text)) rc = rd_no_memory(l);
  }
  if (bare.n) qsort(bare.v, bare.n, sizeof *bare.v, by_address);
  for (size_t i = 1; !rc && i < bare.n; i++)
    if (!strcmp(bare.v[i], bare.v[i - 1]))
      rc = l->ctx->host->fail(l->ctx, SP_E_INVALID, "%s is named twice (what follows a ? does not count)", bare.v[i]);
  rd_names_free(&bare);
  return rc;
}

int rd_fetch(sp_ctx *ctx, const rd_params *p) {
  rd_listing l = {.ctx = ctx, .p = p};
  rd_names all = {0}, addresses = {0};
  const char *const paths[] = {p->given_path, p->given_val_path};
  fetch_how how = how_of(p);
  int rc = SP_OK;
  for (int k = 0; !rc && k < 2; k++)
    if (*paths[k] && (fetch_is_address(paths[k]) || rd_lists_shards(paths[k]))) rc = name_all(&l, paths[k], &all);
  for (size_t i = 0; !rc && i < all.n; i++)
    if (fetch_is_address(all.v[i]) && rd_names_add(&addresses, all.v[i])) rc = rd_no_memory(&l);
  if (!rc) rc = check_twice(&l, &addresses);
  if (!rc && addresses.n) rc = fetch_all(ctx, &how, addresses.v, addresses.n, 0);
  if (!rc && addresses.n)
    rc = fetch_classes(&l, &how, fetch_is_address(p->given_path) ? p->given_path : addresses.v[0]);
  rd_names_free(&all);
  rd_names_free(&addresses);
  return rc;
}

const char *rd_shard_file(const char *path) {
  const fetched *f = fetch_is_address(path) ? fetch_find(path) : NULL;
  return f ? f->path : path;
}

int rd_add_fetched(rd_table *t, uint32_t source, const char *path) {
  const fetched *f = fetch_is_address(path) ? fetch_find(path) : NULL;
  if (!f) return SP_OK;
  uint64_t file, tag;
  if (rd_add_bytes(t, f->path, strlen(f->path), &file) || rd_add_bytes(t, f->tag, strlen(f->tag), &tag))
    return SP_E_NOMEM;
  t->sources[source].file = file;
  t->sources[source].tag = tag;
  return SP_OK;
}

/* How sure it is that they are whole. */
static void note_fetched(rd_listing *l, const rd_names shards[2]) {
  size_t n = 0, unsummed = 0, unsized = 0;
  for (int k = 0; k < l->t->n_parts; k++)
    for (size_t i = 0; i < shards[k].n; i++) {
      const fetched *f = fetch_is_address(shards[k].v[i]) ? fetch_find(shards[k].v[i]) : NULL;
      n += f != NULL;
      unsummed += f && !f->summed;
      unsized += f && !f->summed && !f->sized;
    }
  if (unsummed > unsized)
    rd_note(l,
            "%zu of %zu fetched shards have no checksum, so their sizes alone were compared with the server's: "
            "NAME.tar.sha256 beside them, or --data-checksums FILE, says them",
            unsummed - unsized, n);
  if (unsized)
    rd_note(
        l,
        "of %zu of %zu fetched shards the server says neither checksum nor size: whether they are whole is not known; "
        "--data-checksums FILE says it",
        unsized, n);
}

/* ---- folders and parts ---- */
/* The shards in the folder of part k. What lies there besides is left out. */
static int list_folder(rd_listing *l, int k, rd_names *out) {
  const rd_part *p = &l->parts[k];
  char path[4096];
  size_t base = strlen(p->base) + 1;
  if (snprintf(path, sizeof path, "%s/%s", p->base, p->rel) >= (int)sizeof path)
    return rd_too_long(l->ctx, p->base, p->rel);
  int rc = rd_stamp_path(l, path);
  DIR *d = rc ? NULL : opendir(path);
  if (rc) return rc;
  if (!d) return l->ctx->host->fail(l->ctx, SP_E_IO, "folder %s: %s", path, strerror(errno));
  errno = 0;
  for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) {
    if (e->d_name[0] == '.' || !strcmp(e->d_name, "classes.txt")) continue;
    if (snprintf(path, sizeof path, "%s/%s%s", p->base, p->rel, e->d_name) >= (int)sizeof path)
      rc = rd_too_long(l->ctx, p->base, e->d_name);
    else if (is_shard(e->d_name)) rc = rd_names_add(out, path) ? rd_no_memory(l) : SP_OK;
    else rd_leave(&l->t->left[k], path + base, rd_entry_kind(path, e));
  }
  if (!rc && errno) rc = l->ctx->host->fail(l->ctx, SP_E_IO, "folder %s: %s", p->base, strerror(errno));
  closedir(d);
  rd_names_sort(out, rd_by_name);
  return rc;
}

/* Which split a shard belongs to by its name, train-0001.tar, or its folder's; -1: neither. */
static int split_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *folder = name;
  if (!strncmp(name, "train-", 6)) return 0;
  if (!strncmp(name, "val-", 4)) return 1;
  while (folder > path && (folder == name || folder[-1] != '/')) folder--;
  if (!strncmp(folder, "train/", 6)) return 0;
  return strncmp(folder, "val/", 4) ? -1 : 1;
}

/* Those of a part, which is a folder, or a file, a pattern or a list by itself. Addresses are bare from here on. */
static int list_part(rd_listing *l, int k, rd_names *out) {
  const char *base = l->parts[k].base;
  char bare[FETCH_PATH];
  rd_names all = {0};
  if (*l->parts[k].rel || !(rd_names_shards(base) || rd_lists_shards(base))) return list_folder(l, k, out);
  int rc = name_all(l, base, &all);
  for (size_t i = 0; !rc && i < all.n; i++) {
    fetch_bare(all.v[i], bare, sizeof bare);
    if (rd_names_add(out, bare)) rc = rd_no_memory(l);
  }
  rd_names_free(&all);
  return rc;
}

/* The shards of one part go to both where there are some of either split; those of neither are left out. */
static int divide(rd_listing *l, rd_names shards[2]) {
  rd_names all = shards[0];
  int has[2] = {0, 0};
  for (size_t i = 0; i < all.n; i++)
    if (split_of(all.v[i]) >= 0) has[split_of(all.v[i])] = 1;
  if (!has[0] || !has[1]) return SP_OK;
  int rc = rd_check_own(l, "has shards named train-* and val-*, which say");
  l->t->n_parts = 2;
  l->parts[1] = l->parts[0];
  shards[0] = (rd_names){0};
  for (size_t i = 0; !rc && i < all.n; i++) {
    int k = split_of(all.v[i]);
    const char *slash = strrchr(all.v[i], '/');
    if (k < 0) rd_leave(&l->t->left[2], slash ? slash + 1 : all.v[i], DT_REG);
    else if (rd_names_add(&shards[k], all.v[i])) rc = rd_no_memory(l);
  }
  rd_names_free(&all);
  return rc;
}

int rd_find_shards(rd_listing *l, rd_names shards[2]) {
  int rc = SP_OK, given = *l->p->val_path != 0;
  if (given) rc = rd_other_part(l, "tar files");
  else if (!rd_shards_like(l->p->path)) rc = rd_find_parts(l, "tar files");
  if (!given && l->t->n_parts == 2) rd_look_beside(l, 2, (const char *const[]){"train", "val", "classes.txt", NULL});
  for (int k = 0; !rc && k < l->t->n_parts; k++) rc = list_part(l, k, &shards[k]);
  if (!rc && l->t->n_parts != 2) rc = divide(l, shards);
  if (!rc) note_fetched(l, shards);
  return rc;
}

/* ---- classes.txt ---- */
void rd_shards_home(const char *path, char home[4096]) {
  char first[4096], bare[FETCH_PATH], why[TEXT_WHY];
  text_file t = {0};
  snprintf(home, 4096, "%s", path);
  if (rd_is_folder(home, "")) return;
  size_t n = folder_length(path);
  if (fetch_is_address(path)) {
    fetch_bare(path, bare, sizeof bare);
    snprintf(first, sizeof first, "%.*s/classes.txt", (int)folder_length(bare), bare);
    const fetched *f = fetch_find(first);
    snprintf(home, 4096, "%s", f ? f->path : first);
    *strrchr(home, '/') = 0;
    return;
  }
  snprintf(home, 4096, "%.*s", n ? (int)n : 1, n || *path == '/' ? path : ".");
  if (!rd_lists_shards(path) || snprintf(first, sizeof first, "%s/classes.txt", home) >= (int)sizeof first ||
      !access(first, F_OK))
    return;
  char *p = text_read(path, MOST_LIST, 0, &t, why) ? NULL : t.p, *entry = p ? next_entry(&p) : NULL;
  if (entry && fetch_is_address(entry)) rd_shards_home(entry, home);
  text_free(&t);
}
