/* SPDX-License-Identifier: MIT
 * cache.c - the folder of what was fetched: places, what is known of a file, locks, and room.
 *
 * ROOT/HOST-HASH/NAME is a file, NAME.info what is known of it, NAME.part what there is of it so far. Locks are those
 * of flock, which end with their process. ROOT/readers has a file for each process, which it locks,
 * with the paths that it reads. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch_impl.h"

/* ---- places ---- */
static uint64_t hash_of(const char *p, size_t n) {
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)p[i]) * UINT64_C(0x100000001B3);
  return h ^ h >> 31;
}

static int make_folders(char *path) {
  for (char *p = path + 1; (p = strchr(p, '/')); p++) {
    *p = 0;
    int made = !mkdir(path, 0777) || errno == EEXIST;
    *p = '/';
    if (!made) return 0;
  }
  return !mkdir(path, 0777) || errno == EEXIST;
}

int fetch_cache_root(const fetch_how *how, char to[FETCH_PATH], char why[FETCH_WHY]) {
  const char *own = getenv("SPCORE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = *how->cache     ? snprintf(to, FETCH_PATH, "%s", how->cache)
          : own && *own   ? snprintf(to, FETCH_PATH, "%s/shards", own)
          : xdg && *xdg   ? snprintf(to, FETCH_PATH, "%s/spcore/shards", xdg)
          : home && *home ? snprintf(to, FETCH_PATH, "%s/.cache/spcore/shards", home)
                          : -1;
  if (n < 0)
    return snprintf(why, FETCH_WHY, "there is no folder for it: neither HOME nor XDG_CACHE_HOME is set"), SP_E_INVALID;
  if (n > FETCH_PATH / 2) return snprintf(why, FETCH_WHY, "the folder's path is too long: %.200s...", to), SP_E_INVALID;
  if (make_folders(to)) return SP_OK;
  return snprintf(why, FETCH_WHY, "folder %.400s: %s", to, strerror(errno)), SP_E_IO;
}

static void tidy(char *name) {
  for (; *name; name++)
    if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_%+=,", *name)) *name = '_';
}

int fetch_place(const char *root, const char *bare, char to[FETCH_PATH]) {
  const char *slash = strrchr(bare, '/'), *host = strstr(bare, "://");
  size_t folder = (size_t)(slash - bare);
  char short_host[64], name[256];
  if (!host || strlen(slash + 1) > 200) return 0;
  snprintf(short_host, sizeof short_host, "%.*s", (int)strcspn(host + 3, "/"), host + 3);
  snprintf(name, sizeof name, "%s%s", slash[1] == '.' || !slash[1] ? "_" : "", slash + 1);
  tidy(short_host);
  tidy(name);
  int n = snprintf(to, FETCH_PATH, "%s/%s-%016" PRIx64, root, short_host, hash_of(bare, folder));
  if (n >= FETCH_PATH - 300 || !make_folders(to)) return 0;
  return snprintf(to + n, (size_t)(FETCH_PATH - n), "/%s", name) > 0;
}

/* ---- what is known of a file ---- */
static int beside(const char *path, const char *ending, char to[FETCH_PATH + 16]) {
  return snprintf(to, FETCH_PATH + 16, "%s%s", path, ending) < FETCH_PATH + 16;
}

int fetch_read_info(const char *path, const char *ending, fetch_info *info) {
  char file[FETCH_PATH + 16], line[1024];
  FILE *f = beside(path, ending, file) ? fopen(file, "re") : NULL;
  *info = (fetch_info){.size = -1};
  while (f && fgets(line, sizeof line, f)) {
    char *value = strchr(line, ' ');
    if (!value) continue;
    *value++ = 0;
    value[strcspn(value, "\n")] = 0;
    if (!strcmp(line, "size")) info->size = strtoll(value, NULL, 10);
    if (!strcmp(line, "sized")) info->sized = 1;
    if (!strcmp(line, "sha256")) snprintf(info->sum, sizeof info->sum, "%.64s", value);
    if (!strcmp(line, "etag")) snprintf(info->etag, sizeof info->etag, "%.255s", value);
    if (!strcmp(line, "modified")) snprintf(info->modified, sizeof info->modified, "%.63s", value);
  }
  if (f) fclose(f);
  return info->size >= 0;
}

int fetch_write_info(const char *path, const char *ending, const char *bare, const fetch_info *info) {
  char file[FETCH_PATH + 16], temp[FETCH_PATH + 32];
  if (!beside(path, ending, file)) return 0;
  snprintf(temp, sizeof temp, "%s.new", file);
  FILE *f = fopen(temp, "we");
  if (!f) return 0;
  fprintf(f, "address %s\nsize %" PRId64 "\n", bare, info->size);
  if (info->sized) fprintf(f, "sized by the server\n");
  if (*info->sum) fprintf(f, "sha256 %s\n", info->sum);
  if (*info->etag) fprintf(f, "etag %s\n", info->etag);
  if (*info->modified) fprintf(f, "modified %s\n", info->modified);
  int bad = ferror(f);
  bad |= fclose(f);
  return !bad && !rename(temp, file);
}

void fetch_touch(const char *path) {
  char file[FETCH_PATH + 16];
  if (beside(path, ".info", file)) utimensat(AT_FDCWD, file, NULL, 0);
}

/* ---- locks ---- */
int fetch_lock(const char *path, int (*wait)(void *arg), void *arg) {
  char file[FETCH_PATH + 16];
  if (!beside(path, ".lock", file)) return errno = ENAMETOOLONG, -1;
  int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
    if ((errno == EWOULDBLOCK || errno == EINTR) && !wait(arg)) continue;
    close(fd);
    return -1;
  }
  return fd;
}

/* ---- room ---- */
typedef struct entry {
  char *path;
  int64_t bytes;
  struct timespec used;
} entry;

typedef struct room {
  entry *v;
  size_t n, cap;
  int64_t bytes;
  char *kept; /* paths, each with a line break in front and behind */
  size_t n_kept;
} room;

static void add_entry(room *r, const char *path, int64_t bytes, struct timespec used) {
  if (r->n == r->cap) {
    size_t cap = r->cap ? 2 * r->cap : 256;
    entry *v = realloc(r->v, cap * sizeof *v);
    if (!v) return;
    r->v = v;
    r->cap = cap;
  }
  char *copy = strdup(path);
  if (copy) r->v[r->n++] = (entry){copy, bytes, used};
}

static int ends_in(const char *name, const char *ending) {
  size_t n = strlen(name), m = strlen(ending);
  return n > m && !strcmp(name + n - m, ending);
}

static void look_into(room *r, const char *folder) {
  char path[FETCH_PATH + 300], info[FETCH_PATH + 320];
  struct stat st, is;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (*e->d_name == '.' || ends_in(e->d_name, ".info") || ends_in(e->d_name, ".lock") || ends_in(e->d_name, ".new"))
      continue;
    if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path || stat(path, &st)) continue;
    if (!S_ISREG(st.st_mode)) continue;
    r->bytes += st.st_size;
    snprintf(info, sizeof info, "%s.info", path);
    if (ends_in(e->d_name, ".part")) add_entry(r, path, st.st_size, st.st_mtim);
    else if (!stat(info, &is)) add_entry(r, path, st.st_size, is.st_mtim);
  }
  if (d) closedir(d);
}

/* What live processes read; the files of dead ones go. */
static void note_readers(room *r, const char *folder) {
  char path[FETCH_PATH + 300];
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (*e->d_name == '.' || snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path) continue;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) continue;
    if (!flock(fd, LOCK_EX | LOCK_NB)) unlink(path);
    else if (!fstat(fd, &st) && st.st_size < (1 << 28)) {
      char *more = realloc(r->kept, r->n_kept + (size_t)st.st_size + 2);
      if (more) {
        r->kept = more;
        r->kept[r->n_kept++] = '\n';
        ssize_t got = pread(fd, r->kept + r->n_kept, (size_t)st.st_size, 0);
        if (got > 0) r->n_kept += (size_t)got;
        r->kept[r->n_kept] = 0;
      }
    }
    close(fd);
  }
  if (d) closedir(d);
}

static int soon(void *arg) { return (void)arg, usleep(20000), 0; }

/* While it is held, nobody deletes or begins to read. */
static int lock_room(const char *root) {
  char path[FETCH_PATH];
  return snprintf(path, sizeof path, "%s/room", root) < (int)sizeof path ? fetch_lock(path, soon, NULL) : -1;
}

/* The lock on this process's file of what it reads is that of the descriptor, which stays open. */
static int begin_reading(const char *root) {
  char path[FETCH_PATH + 64];
  room r = {0};
  int lock = lock_room(root);
  snprintf(path, sizeof path, "%s/readers", root);
  mkdir(path, 0777);
  note_readers(&r, path);
  free(r.kept);
  snprintf(path, sizeof path, "%s/readers/XXXXXX", root);
  int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
  if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);
  if (lock >= 0) close(lock);
  return fd;
}

int fetch_keep(const char *root, const char *path) {
  static int fd = -1; /* the caller holds a lock */
  static char of[FETCH_PATH];
  char line[FETCH_PATH + 4];
  if (strcmp(of, root) != 0) {
    fd = begin_reading(root);
    snprintf(of, sizeof of, "%s", fd < 0 ? "" : root);
  }
  int n = snprintf(line, sizeof line, "%s\n", path);
  return fd >= 0 && write(fd, line, (size_t)n) == n;
}

static int is_kept(const room *r, const char *path) {
  char line[FETCH_PATH + 4];
  snprintf(line, sizeof line, "\n%.4090s\n", path);
  return r->kept && strstr(r->kept, line) != NULL;
}

/* A part that a process is fetching: who does so has the lock of what it becomes. */
static int is_locked(const char *path) {
  char file[FETCH_PATH + 16];
  if (!ends_in(path, ".part")) return 0;
  snprintf(file, sizeof file, "%.*s.lock", (int)(strlen(path) - strlen(".part")), path);
  int fd = open(file, O_RDWR | O_CLOEXEC), is = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB);
  if (fd >= 0) close(fd);
  return is;
}

static int by_use(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

int64_t fetch_make_room(const char *root, int64_t most, int64_t bytes) {
  char path[FETCH_PATH + 300], info[FETCH_PATH + 320];
  room r = {0};
  int lock = lock_room(root);
  DIR *d = opendir(root);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (*e->d_name == '.' || snprintf(path, sizeof path, "%s/%s", root, e->d_name) >= (int)sizeof path) continue;
    if (!strcmp(e->d_name, "readers")) note_readers(&r, path);
    else look_into(&r, path);
  }
  if (d) closedir(d);
  if (r.n) qsort(r.v, r.n, sizeof *r.v, by_use);
  for (size_t i = 0; i < r.n; i++) {
    if (r.bytes + bytes > most && !is_kept(&r, r.v[i].path) && !is_locked(r.v[i].path)) {
      snprintf(info, sizeof info, "%s.info", r.v[i].path);
      unlink(info);
      if (!unlink(r.v[i].path)) r.bytes -= r.v[i].bytes;
    }
    free(r.v[i].path);
  }
  free(r.v);
  free(r.kept);
  if (lock >= 0) close(lock);
  return r.bytes + bytes > most ? r.bytes + bytes - most : 0;
}
