/* SPDX-License-Identifier: MIT
 * tar.c - tar files that are open, and bytes out of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tar_impl.h"

/* So many files stay open; others are opened for each read, as a set may have more shards than a process open files. */
static int n_held; /* atomic */

static int may_hold(void) {
  struct rlimit most;
  rlim_t share = !getrlimit(RLIMIT_NOFILE, &most) && most.rlim_cur != RLIM_INFINITY ? most.rlim_cur / 4 : 256;
  if ((rlim_t)__atomic_add_fetch(&n_held, 1, __ATOMIC_RELAXED) <= share) return 1;
  __atomic_sub_fetch(&n_held, 1, __ATOMIC_RELAXED);
  return 0;
}

/* A named pipe must not hang the open. */
int tar_open_again(const tar_file *t) { return open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

int tar_pread(int fd, int64_t at, void *to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(fd, (char *)to + done, bytes - done, (off_t)(at + (int64_t)done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? -1 : 0;
    done += (size_t)n;
  }
  return 1;
}

static int is_compressed(int fd) {
  uint8_t first[4] = {0};
  if (tar_pread(fd, 0, first, sizeof first) < 1) return 0;
  return (first[0] == 0x1F && first[1] == 0x8B) || !memcmp(first, "\x28\xB5\x2F\xFD", 4);
}

static int open_as(sp_ctx *ctx, tar_file *t, tar_unpacked *unpacked) {
  int fd = tar_open_again(t), rc;
  if (fd < 0 || fstat(fd, &t->was)) {
    rc = ctx->host->fail(ctx, errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO, "%s: %s", t->name, strerror(errno));
  } else if (!S_ISREG(t->was.st_mode)) {
    rc = ctx->host->fail(ctx, SP_E_IO, "%s is not a regular file", t->name);
  } else if (is_compressed(fd)) {
    rc = tar_spool_take(ctx, t, unpacked);
  } else {
    t->bytes = t->was.st_size;
    if ((t->is_held = may_hold())) t->fd = fd;
    rc = SP_OK;
  }
  if (fd >= 0 && t->fd != fd) close(fd);
  return rc;
}

int tar_open(sp_ctx *ctx, const char *path, const char *name, tar_unpacked *unpacked, tar_file **out) {
  tar_file *t = calloc(1, sizeof *t);
  if (!name) name = path;
  if (!t || !(t->path = strdup(path)) || !(t->name = strdup(name))) {
    if (t) free(t->path);
    free(t);
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to open %s", name);
  }
  t->fd = -1;
  int rc = open_as(ctx, t, unpacked);
  if (rc) tar_close(t);
  else *out = t;
  return rc;
}

void tar_close(tar_file *t) {
  if (!t) return;
  if (t->is_spooled) tar_spool_leave();
  if (t->is_held) {
    close(t->fd);
    __atomic_sub_fetch(&n_held, 1, __ATOMIC_RELAXED);
  }
  free(t->path);
  free(t->name);
  free(t);
}

int tar_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Members may lie elsewhere in another. */
static int has_changed(const tar_file *t, int fd) {
  struct stat now;
  return !t->is_spooled && (fstat(fd, &now) || !tar_same(&now, &t->was));
}

int tar_read(const tar_file *t, int64_t at, void *to, size_t bytes, char *why, size_t why_bytes) {
  int fd = t->fd >= 0 ? t->fd : tar_open_again(t), rc = SP_E_IO, got;
  if (fd < 0) {
    snprintf(why, why_bytes, "%s", strerror(errno));
  } else if (has_changed(t, fd)) {
    snprintf(why, why_bytes, "the archive has changed since it was opened; start again");
  } else if ((got = tar_pread(fd, t->from + at, to, bytes)) < 1) {
    snprintf(why, why_bytes, "%s", got < 0 ? strerror(errno) : "the archive ends before");
  } else {
    rc = SP_OK;
  }
  if (fd >= 0 && fd != t->fd) close(fd);
  return rc;
}
