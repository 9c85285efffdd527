/* SPDX-License-Identifier: MIT
 * tar_impl.h - what the parts of the kit share. */
#ifndef SP_PLUGINS_TAR_IMPL_H
#define SP_PLUGINS_TAR_IMPL_H

#include <sys/stat.h>

#include "tar.h"

struct tar_file {
  char *path, *name; /* name: in words */
  int fd; /* -1: opened for each read */
  int is_held, is_spooled;
  int64_t from, bytes; /* where the tar lies in the file that is read */
  struct stat was;     /* of the file at `path`, when it was opened */
};

/* spool.c: t->fd, from and bytes of what a compressed file unpacks to. */
int tar_spool_take(sp_ctx *ctx, tar_file *t, tar_unpacked *unpacked);
void tar_spool_leave(void);

/* walk.c: unpacks the file to `to` from byte `at` on; dir: where that lies, for words. */
int tar_unpack(sp_ctx *ctx, const tar_file *t, int to, const char *dir, int64_t at, int64_t *bytes);

/* tar.c: the file once more; -1: errno says why not. */
int tar_open_again(const tar_file *t);
/* Is it one file, with nothing written to it between? */
int tar_same(const struct stat *a, const struct stat *b);
/* 1: all of the bytes; 0: the file ends before; -1: errno says why not. */
int tar_pread(int fd, int64_t at, void *to, size_t bytes);

#endif
