/* SPDX-License-Identifier: MIT
 * tuned.c - choices that were measured once, kept in a text file per GPU and library versions.
 *
 * A line is KEY, a tab, VALUE. What was chosen first holds: in memory until the process ends, though its devices are
 * closed and opened, and in the file for everybody. Another algorithm means other last bits, so the file is read and
 * written under a lock, and a process that measured beside another takes what that one has stored. A rank of a job
 * takes what rank 0 has, and leaves the file as it is. */
#include "dev.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE (SP_CUDA_KEY_MAX + SP_CUDA_VALUE_MAX)
enum { LOCK_TRIES = 500 }; /* of 10 ms */

/* ---- in memory --------------------------------------------------------------------------------------------------- */

typedef struct choice {
  char *key, *value;
  char *held; /* what is taken in its place, NULL: nothing is */
  bool taken;
} choice;

typedef struct cuda_tuned {
  struct cuda_tuned *next;
  choice *choices;
  size_t n, cap;
  size_t *taken; /* [n_taken, room for cap] which of them stages have, in this order */
  size_t n_taken;
  bool unkept; /* it was said that the file cannot be written */
  char path[]; /* of the file; "" : there is no folder for it */
} table;

static table *tables; /* one for each file; of the one thread that prepares */

static choice *find(const table *t, const char *key) {
  for (size_t i = 0; i < t->n; i++)
    if (strcmp(t->choices[i].key, key) == 0) return &t->choices[i];
  return NULL;
}

static bool add(table *t, const char *key, const char *value) {
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : 64;
    choice *grown = realloc(t->choices, cap * sizeof *grown);
    if (!grown) return false;
    t->choices = grown;
    size_t *more = realloc(t->taken, cap * sizeof *more);
    if (!more) return false;
    t->taken = more;
    t->cap = cap;
  }
  choice c = {strdup(key), strdup(value), NULL, false};
  if (!c.key || !c.value) {
    free(c.key);
    free(c.value);
    return false;
  }
  t->choices[t->n++] = c;
  return true;
}

static bool replace(char **text, const char *value) {
  char *copy = strdup(value);
  if (!copy) return false;
  free(*text);
  *text = copy;
  return true;
}

static const char *value_of(const choice *c) { return c->held ? c->held : c->value; }

__attribute__((destructor)) static void free_tables(void) {
  while (tables) {
    table *t = tables;
    tables = t->next;
    for (size_t i = 0; i < t->n; i++) {
      free(t->choices[i].key);
      free(t->choices[i].value);
      free(t->choices[i].held);
    }
    free(t->choices);
    free(t->taken);
    free(t);
  }
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Letters, digits and dots stay; the rest becomes one '-' each run. */
static void put_plain(char *text, size_t n, const char *s) {
  size_t at = strlen(text);
  for (; *s && at + 1 < n; s++) {
    bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '.';
    if (plain) text[at++] = *s;
    else if (at && text[at - 1] != '-') text[at++] = '-';
  }
  text[at] = 0;
}

/* False where there is no folder for it: no home. */
static bool folder_of(char *path, size_t n) {
  const char *own = getenv("SPCORE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int len = own && *own     ? snprintf(path, n, "%s", own)
            : xdg && *xdg   ? snprintf(path, n, "%s/spcore", xdg)
            : home && *home ? snprintf(path, n, "%s/.cache/spcore", home)
                            : -1;
  return len > 0 && (size_t)len < n;
}

static bool path_of(const cuda_dev *dev, char *path, size_t n) {
  char name[256], detail[160] = "";
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  snprintf(name, sizeof name, "%s sm%d driver%d runtime%d %s", dev->gpu, (int)dev->ext.capability, driver, runtime,
           sp_cuda_library_versions());
  put_plain(detail, sizeof detail, name);
  if (!folder_of(path, n)) return false;
  size_t at = strlen(path);
  int len = snprintf(path + at, n - at, "/cuda-%s.txt", detail);
  return len > 0 && (size_t)len < n - at;
}

/* A line of the file, cut into key and value; false if it is none. */
static bool cut(char *line, char **value) {
  size_t n = strlen(line);
  char *tab = strchr(line, '\t');
  if (!n || line[n - 1] != '\n' || !tab || tab == line || strchr(tab + 1, '\t')) return false;
  line[n - 1] = 0;
  *tab = 0;
  *value = tab + 1;
  return tab - line < SP_CUDA_KEY_MAX && strlen(*value) < SP_CUDA_VALUE_MAX;
}

/* Adds what the file has and memory has not. Where `key` is given, its value in the file is copied to `value`. */
static void read_file(sp_ctx *ctx, table *t, const char *key, char *value) {
  char line[LINE + 2], *text;
  size_t bad = 0;
  FILE *f = *t->path ? fopen(t->path, "re") : NULL;
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    bool whole = strchr(line, '\n') != NULL;
    if (!cut(line, &text)) bad++;
    else if (key && strcmp(line, key) == 0) strcpy(value, text);
    else if (!find(t, line) && !add(t, line, text)) break;
    for (int c = 0; !whole && c != '\n' && c != EOF;) c = getc(f);
  }
  fclose(f);
  if (bad)
    ctx->host->log(ctx, SP_LOG_WARN, "%s: %zu line%s not KEY, tab, VALUE: left out", t->path, bad,
                   bad == 1 ? " is" : "s are");
}

static bool make_folders(char *path) {
  for (char *p = path + 1; (p = strchr(p, '/')); p++) {
    *p = 0;
    bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
    *p = '/';
    if (!made) return false;
  }
  return true;
}

static bool write_file(const table *t) {
  char temp[PATH_MAX + 8];
  snprintf(temp, sizeof temp, "%s.XXXXXX", t->path);
  int fd = mkstemp(temp);
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!f) {
    int why = errno;
    if (fd >= 0) {
      close(fd);
      unlink(temp);
    }
    errno = why;
    return false;
  }
  for (size_t i = 0; i < t->n; i++) fprintf(f, "%s\t%s\n", t->choices[i].key, t->choices[i].value);
  bool written = !ferror(f);
  if (fclose(f) || !written || rename(temp, t->path)) {
    int why = errno;
    unlink(temp);
    errno = why;
    return false;
  }
  return true;
}

/* A file beside it, since it is itself replaced. Waits at most five seconds, so that a stopped process cannot hold up
 * all others; -1: no lock (a file system without them), and the last one to write wins. */
static int lock_file(const table *t) {
  char name[PATH_MAX + 8];
  snprintf(name, sizeof name, "%s.lock", t->path);
  int fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);
  for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
    if ((errno == EWOULDBLOCK || errno == EINTR) && i < LOCK_TRIES) {
      nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
      continue;
    }
    close(fd);
    return -1;
  }
  return fd;
}

/* Puts what memory has into the file; first takes from the file what it has for c's key, unless that was refused. */
static bool agree(sp_ctx *ctx, table *t, choice *c, const char *refused) {
  char path[PATH_MAX], there[SP_CUDA_VALUE_MAX] = "\n"; /* no value has a line end */
  size_t at = (size_t)(c - t->choices);
  strcpy(path, t->path);
  if (!*path || !make_folders(path)) return false;
  int fd = lock_file(t);
  read_file(ctx, t, c->key, there);
  c = &t->choices[at];
  bool theirs = *there != '\n' && !(refused && strcmp(there, refused) == 0);
  bool kept = theirs ? replace(&c->value, there) : write_file(t);
  int why = errno;
  if (fd >= 0) close(fd);
  errno = why;
  return kept;
}

/* ---- what a stage asks for --------------------------------------------------------------------------------------- */

static table *open_table(const char *path) {
  table *t = tables;
  while (t && strcmp(t->path, path) != 0) t = t->next;
  if (t) return t;
  t = calloc(1, sizeof *t + strlen(path) + 1);
  if (!t) return NULL;
  strcpy(t->path, path);
  t->next = tables;
  return tables = t;
}

static int table_of(sp_ctx *ctx, cuda_dev *dev, table **t) {
  char path[PATH_MAX];
  if (!dev->tuned) {
    if (!path_of(dev, path, sizeof path)) *path = 0;
    if (!(dev->tuned = open_table(path))) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for tuned choices");
    read_file(ctx, dev->tuned, NULL, NULL);
  }
  *t = dev->tuned;
  return SP_OK;
}

static int table_here(sp_ctx *ctx, table **t) {
  cuda_stream *s = ctx->stream ? sp_cuda_stream_of(ctx->stream) : NULL;
  cuda_dev *dev = s ? s->dev : sp_cuda_current();
  return dev ? table_of(ctx, dev, t) : ctx->host->fail(ctx, SP_E_STATE, "spcore.cuda: no device is open");
}

static int give(sp_ctx *ctx, table *t, choice *c, char *value, size_t bytes) {
  const char *text = value_of(c);
  if (strlen(text) >= bytes)
    return ctx->host->fail(ctx, SP_E_RANGE, "spcore.cuda: the value of '%s' has %zu bytes", c->key, strlen(text));
  strcpy(value, text);
  if (!c->taken) t->taken[t->n_taken++] = (size_t)(c - t->choices);
  c->taken = true;
  return SP_OK;
}

int sp_cuda_get_tuned(sp_ctx *ctx, const char *key, char *value, size_t bytes) {
  table *t;
  int status = table_here(ctx, &t);
  if (status) return status;
  choice *c = find(t, key);
  return c ? give(ctx, t, c, value, bytes) : SP_E_NOTFOUND;
}

int sp_cuda_set_tuned(sp_ctx *ctx, const char *key, const char *refused, char *value, size_t bytes) {
  table *t;
  int status = table_here(ctx, &t);
  if (status) return status;
  if (!*key || strlen(key) >= SP_CUDA_KEY_MAX || strlen(value) >= SP_CUDA_VALUE_MAX || strpbrk(key, "\t\n") ||
      strpbrk(value, "\t\n"))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "spcore.cuda: '%s' with '%s' is too long, empty, or has a tab or line end", key, value);
  choice *c = find(t, key);
  if (c && !(refused && strcmp(value_of(c), refused) == 0)) return give(ctx, t, c, value, bytes);
  if (c ? !replace(c->held ? &c->held : &c->value, value) : !add(t, key, value))
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a tuned choice");
  errno = ENOENT;
  if (!agree(ctx, t, find(t, key), refused) && !t->unkept) {
    t->unkept = true;
    ctx->host->log(ctx, SP_LOG_WARN,
                   "%s: %s: measured choices of algorithms last until this process ends; another may choose others and "
                   "differ in last bits (SPCORE_CACHE names a folder for them)",
                   *t->path ? t->path : "no HOME", strerror(errno));
  }
  return give(ctx, t, find(t, key), value, bytes);
}

/* ---- what the host asks for, where a job has several ranks ------------------------------------------------------- */

static int taken(sp_ctx *ctx, void *dev, uint64_t k, sp_choice *out) {
  table *t;
  int status = table_of(ctx, dev, &t);
  if (status || k >= t->n_taken) return status ? status : SP_E_NOTFOUND;
  const choice *c = &t->choices[t->taken[k]];
  snprintf(out->key, sizeof out->key, "%s", c->key);
  snprintf(out->value, sizeof out->value, "%s", value_of(c));
  return SP_OK;
}

static int hold(sp_ctx *ctx, void *dev, const sp_choice *wanted) {
  table *t;
  int status = table_of(ctx, dev, &t);
  if (status) return status;
  choice *c = find(t, wanted->key);
  if (c ? replace(&c->held, wanted->value) : add(t, wanted->key, wanted->value)) return SP_OK;
  return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a tuned choice");
}

const sp_choices sp_cuda_choices = {.size = sizeof(sp_choices), .taken = taken, .hold = hold};
