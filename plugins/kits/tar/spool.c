/* SPDX-License-Identifier: MIT
 * spool.c - what compressed files unpack to, one behind another in one file without a name: it is gone with the
 * process, however that ends. Readers of training and of validation share it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tar_impl.h"

typedef struct piece {
  struct stat of; /* the compressed file */
  int64_t from, bytes;
} piece;

static struct {
  pthread_mutex_t lock;
  size_t users; /* files that are open; none: all below is empty */
  int fd;
  char dir[1024];
  piece *v;
  size_t n;
  int64_t end;
} spool = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Not /tmp, which may be memory. */
static int make_file(sp_ctx *ctx) {
  const char *dir = getenv("TMPDIR");
  char path[sizeof spool.dir + 16];
  if (!dir || !*dir) dir = "/var/tmp";
  snprintf(spool.dir, sizeof spool.dir, "%s", dir);
  snprintf(path, sizeof path, "%s/spcore-XXXXXX", spool.dir);
  spool.fd = mkostemp(path, O_CLOEXEC);
  if (spool.fd >= 0 && !unlink(path)) return SP_OK;
  return ctx->host->fail(ctx, SP_E_IO, "a compressed archive cannot be unpacked into %s: %s; let TMPDIR name a folder",
                         spool.dir, strerror(errno));
}

static int add(sp_ctx *ctx, const tar_file *t, tar_unpacked *unpacked) {
  piece *v = realloc(spool.v, (spool.n + 1) * sizeof *v);
  if (!v) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to unpack %s", t->name);
  spool.v = v;
  piece *p = &v[spool.n];
  *p = (piece){.of = t->was, .from = spool.end};
  int rc = tar_unpack(ctx, t, spool.fd, spool.dir, spool.end, &p->bytes);
  if (rc) return rc;
  spool.n++;
  spool.end += p->bytes;
  unpacked->files++;
  unpacked->bytes += p->bytes;
  snprintf(unpacked->dir, sizeof unpacked->dir, "%s", spool.dir);
  return SP_OK;
}

static void leave(void) {
  if (--spool.users) return;
  if (spool.fd >= 0) close(spool.fd);
  free(spool.v);
  spool.fd = -1;
  spool.v = NULL;
  spool.n = 0;
  spool.end = 0;
}

int tar_spool_take(sp_ctx *ctx, tar_file *t, tar_unpacked *unpacked) {
  size_t i = 0;
  pthread_mutex_lock(&spool.lock);
  int rc = spool.users++ ? SP_OK : make_file(ctx);
  while (!rc && i < spool.n && !tar_same(&spool.v[i].of, &t->was)) i++;
  if (!rc && i == spool.n) rc = add(ctx, t, unpacked);
  if (!rc) {
    unpacked->compressed++;
    t->is_spooled = 1;
    t->fd = spool.fd;
    t->from = spool.v[i].from;
    t->bytes = spool.v[i].bytes;
  } else {
    leave();
  }
  pthread_mutex_unlock(&spool.lock);
  return rc;
}

void tar_spool_leave(void) {
  pthread_mutex_lock(&spool.lock);
  leave();
  pthread_mutex_unlock(&spool.lock);
}
