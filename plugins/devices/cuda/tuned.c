/* SPDX-License-Identifier: MIT
 * tuned.c - choices that were measured once, kept in a text file per GPU and library versions.
 *
 * A line is KEY, a tab, VALUE. The file is read at the first question, and again before it is written, so that what
 * another process stored meanwhile is kept. */
#include "dev.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE (SP_CUDA_KEY_MAX + SP_CUDA_VALUE_MAX)

/* ---- in memory --------------------------------------------------------------------------------------------------- */

static cuda_tuned *find(const cuda_dev *dev, const char *key) {
  for (size_t i = 0; i < dev->n_tuned; i++)
    if (strcmp(dev->tuned[i].key, key) == 0) return &dev->tuned[i];
  return NULL;
}

static bool add(cuda_dev *dev, const char *key, const char *value) {
  if (dev->n_tuned == dev->cap_tuned) {
    size_t cap = dev->cap_tuned ? 2 * dev->cap_tuned : 64;
    cuda_tuned *grown = realloc(dev->tuned, cap * sizeof *grown);
    if (!grown) return false;
    dev->tuned = grown;
    dev->cap_tuned = cap;
  }
  cuda_tuned t = {strdup(key), strdup(value)};
  if (!t.key || !t.value) {
    free(t.key);
    free(t.value);
    return false;
  }
  dev->tuned[dev->n_tuned++] = t;
  return true;
}

void sp_cuda_tuned_free(cuda_dev *dev) {
  for (size_t i = 0; i < dev->n_tuned; i++) {
    free(dev->tuned[i].key);
    free(dev->tuned[i].value);
  }
  free(dev->tuned);
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

/* Adds what the file has and memory has not. */
static void read_file(sp_ctx *ctx, cuda_dev *dev, const char *path) {
  char line[LINE + 2], *value;
  size_t bad = 0;
  FILE *f = fopen(path, "r");
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    bool whole = strchr(line, '\n') != NULL;
    if (!cut(line, &value)) bad++;
    else if (!find(dev, line) && !add(dev, line, value)) break;
    for (int c = 0; !whole && c != '\n' && c != EOF;) c = getc(f);
  }
  fclose(f);
  if (bad)
    ctx->host->log(ctx, SP_LOG_WARN, "%s: %zu line%s not KEY, tab, VALUE: left out", path, bad,
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

static bool write_file(const cuda_dev *dev, char *path) {
  char temp[PATH_MAX + 8];
  if (!make_folders(path)) return false;
  snprintf(temp, sizeof temp, "%s.XXXXXX", path);
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
  for (size_t i = 0; i < dev->n_tuned; i++) fprintf(f, "%s\t%s\n", dev->tuned[i].key, dev->tuned[i].value);
  bool written = !ferror(f);
  if (fclose(f) || !written || rename(temp, path)) {
    int why = errno;
    unlink(temp);
    errno = why;
    return false;
  }
  return true;
}

/* ---- what a stage asks for --------------------------------------------------------------------------------------- */

static int device_of(sp_ctx *ctx, cuda_dev **dev) {
  cuda_stream *s = ctx->stream ? sp_cuda_stream_of(ctx->stream) : NULL;
  *dev = s ? s->dev : sp_cuda_current();
  if (!*dev) return ctx->host->fail(ctx, SP_E_STATE, "spcore.cuda: no device is open");
  char path[PATH_MAX];
  if (!(*dev)->tuned_read && path_of(*dev, path, sizeof path)) read_file(ctx, *dev, path);
  (*dev)->tuned_read = true;
  return SP_OK;
}

int sp_cuda_get_tuned(sp_ctx *ctx, const char *key, char *value, size_t bytes) {
  cuda_dev *dev;
  int status = device_of(ctx, &dev);
  if (status) return status;
  const cuda_tuned *t = find(dev, key);
  if (!t) return SP_E_NOTFOUND;
  if (strlen(t->value) >= bytes)
    return ctx->host->fail(ctx, SP_E_RANGE, "spcore.cuda: the value of '%s' has %zu bytes", key, strlen(t->value));
  strcpy(value, t->value);
  return SP_OK;
}

int sp_cuda_set_tuned(sp_ctx *ctx, const char *key, const char *value) {
  cuda_dev *dev;
  char path[PATH_MAX];
  int status = device_of(ctx, &dev);
  if (status) return status;
  if (!*key || strlen(key) >= SP_CUDA_KEY_MAX || strlen(value) >= SP_CUDA_VALUE_MAX || strpbrk(key, "\t\n") ||
      strpbrk(value, "\t\n"))
    return ctx->host->fail(ctx, SP_E_INVALID,
                           "spcore.cuda: '%s' with '%s' is too long, empty, or has a tab or line end", key, value);
  cuda_tuned *t = find(dev, key);
  char *copy = t ? strdup(value) : NULL;
  if (t ? !copy : !add(dev, key, value)) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for a tuned choice");
  if (t) {
    free(t->value);
    t->value = copy;
  }
  if (dev->tuned_in_memory) return SP_OK;
  errno = ENOENT;
  bool there = path_of(dev, path, sizeof path);
  if (there) read_file(ctx, dev, path);
  if (there && write_file(dev, path)) return SP_OK;
  dev->tuned_in_memory = true;
  ctx->host->log(ctx, SP_LOG_DEBUG, "tuned choices stay in memory: %s: %s", there ? path : "no HOME", strerror(errno));
  return SP_OK;
}
