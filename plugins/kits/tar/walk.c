/* SPDX-License-Identifier: MIT
 * walk.c - headers of tar files, and files without their compression, through libarchive. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../what/what.h"
#include "tar_impl.h"

#ifdef HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>

#define BLOCK 512
#define CHECK_ROOM (INT64_C(64) << 20) /* bytes between two looks at what the disk has left */
#define KEEP_FREE (UINT64_C(1) << 30)  /* bytes, or a twentieth of the disk where that is less */

/* Skipped bytes are not read: a header is a small part of what lies between two of them. */
typedef struct tape {
  const tar_file *t;
  int fd, failed;    /* failed: it could not be read */
  int64_t size;      /* but for a last block that is cut off and zeros, as filling may be */
  int64_t from, pos; /* bytes: those from `from` to pos */
  char bytes[4096];
} tape;

static la_ssize_t tape_read(struct archive *a, void *arg, const void **out) {
  tape *p = arg;
  int64_t left = p->size - p->pos, n = left < (int64_t)sizeof p->bytes ? left : (int64_t)sizeof p->bytes;
  *out = p->bytes;
  if (n && tar_pread(p->fd, p->t->from + p->pos, p->bytes, (size_t)n) < 1) {
    p->failed = 1;
    archive_set_error(a, errno, "cannot be read: %s", strerror(errno));
    return -1;
  }
  p->from = p->pos;
  p->pos += n;
  return (la_ssize_t)n;
}

static la_int64_t tape_skip(struct archive *a, void *arg, la_int64_t n) {
  tape *p = arg;
  int64_t left = p->size - p->pos;
  (void)a;
  if (n > left) n = left;
  p->pos += n;
  p->from = p->pos;
  return n;
}

static int64_t size_of(const tape *p) {
  char last[BLOCK];
  int64_t n = p->t->bytes % BLOCK, whole = p->t->bytes - n, i = 0;
  if (n && tar_pread(p->fd, p->t->from + whole, last, (size_t)n) < 1) return p->t->bytes;
  while (i < n && !last[i]) i++;
  return i < n || !whole ? p->t->bytes : whole;
}

/* ---- members ---- */
typedef struct walk {
  sp_ctx *ctx;
  const tar_file *t;
  const tape *tape;
  struct archive *a;
  int (*found)(void *arg, const tar_member *m);
  void *arg;
  char last[256];      /* the member before; "": there was none */
  int64_t end, behind; /* where it ends, or -1: of no matter; where the next header is due */
  int archive;         /* of several in the file */
} walk;

/* Does a block of zeros lie there? Two of them end an archive, and another may follow. */
static int ends_at(const walk *w, int64_t at) {
  static const char zeros[BLOCK];
  const tape *p = w->tape;
  char block[BLOCK];
  if (at < 0 || at > w->t->bytes - BLOCK) return 0;
  if (at >= p->from && at + BLOCK <= p->pos) return !memcmp(p->bytes + (at - p->from), zeros, BLOCK);
  return tar_pread(p->fd, w->t->from + at, block, BLOCK) == 1 && !memcmp(block, zeros, BLOCK);
}

static int damaged(walk *w, const char *why) {
  const char *path = w->t->name;
  char what[WHAT_WORDS];
  if (!*w->last && !w->tape->failed) {
    int known =
        what_is_file(w->t->path, what) && !strstr(what, "gzip") && !strstr(what, "zstd") && !strstr(what, "a tar");
    return w->ctx->host->fail(w->ctx, SP_E_DATA, "%s is no tar, or its first header is damaged%s%s", path,
                              known ? ": " : "", known ? what : "");
  }
  return w->ctx->host->fail(w->ctx, SP_E_DATA, "%s, behind %s: %s", path, *w->last ? w->last : "its beginning", why);
}

/* Where libarchive says a header begins, what is before must have ended: a member with holes has fewer bytes than its
 * size says, and could not be read by its place. */
static int has_holes(const walk *w, const char *name) {
  return w->ctx->host->fail(w->ctx, SP_E_DATA,
                            "%s: %s is stored with holes, as sparse files are; pack it again with tar cf, without -S",
                            w->t->name, name);
}

static int check_end(const walk *w) {
  if (w->end < 0 || archive_read_header_position(w->a) == (w->end + BLOCK - 1) / BLOCK * BLOCK) return SP_OK;
  return has_holes(w, w->last);
}

static int visit(walk *w, struct archive_entry *e) {
  int type = archive_entry_filetype(e), is_link = type == AE_IFLNK || archive_entry_hardlink(e);
  const char *name = archive_entry_pathname(e);
  if (!name) name = archive_entry_pathname_utf8(e);
  if (!name) return damaged(w, "a member's name cannot be read");
  int rc = check_end(w);
  if (rc) return rc;
  if (archive_entry_sparse_count(e) > 0) return has_holes(w, name);
  if (ends_at(w, w->behind)) w->archive++;
  snprintf(w->last, sizeof w->last, "%s", name);
  w->end = -1;
  w->behind = (archive_filter_bytes(w->a, 0) + (type == AE_IFREG && !is_link ? archive_entry_size(e) : 0) + BLOCK - 1) /
              BLOCK * BLOCK;
  if (!is_link && type != AE_IFREG) return SP_OK;
  tar_member m = {name, archive_filter_bytes(w->a, 0), is_link ? 0 : archive_entry_size(e), is_link, w->archive};
  if (m.size < 0 || m.at < 0 || m.at > w->t->bytes || m.size > w->t->bytes - m.at)
    return w->ctx->host->fail(w->ctx, SP_E_DATA,
                              "%s: %s has %" PRId64 " bytes by its header, and %" PRId64
                              " are left: the archive is cut off or damaged; fetch or pack it again",
                              w->t->name, name, m.size, w->t->bytes - m.at);
  if (!is_link) w->end = m.at + m.size;
  return w->found(w->arg, &m);
}

/* The mark at the end may be missing without any member being cut. */
static int check_mark(const walk *w) {
  int rc = check_end(w);
  if (!rc && archive_read_header_position(w->a) >= w->t->bytes)
    w->ctx->host->log(w->ctx, SP_LOG_WARN, "%s does not end as a tar does; members may be missing behind %s",
                      w->t->name, *w->last ? w->last : "its beginning");
  return rc;
}

/* Behind an end, where programs that unpack stop. */
static int tell_behind(const walk *w) {
  w->ctx->host->log(w->ctx, SP_LOG_WARN, "%s: the archive ends behind %s, and what follows is no tar: left out",
                    w->t->name, w->last);
  return SP_OK;
}

static int walk_all(walk *w) {
  struct archive_entry *e;
  for (;;) {
    int got = archive_read_next_header(w->a, &e), rc;
    if (got == ARCHIVE_EOF) return check_mark(w);
    int bad = got == ARCHIVE_RETRY || got < ARCHIVE_WARN; /* RETRY: a header whose checksum is wrong */
    if (bad && *w->last && !w->tape->failed && ends_at(w, w->behind)) return tell_behind(w);
    if (bad) return damaged(w, archive_error_string(w->a));
    if ((rc = visit(w, e))) return rc;
  }
}

int tar_walk(sp_ctx *ctx, const tar_file *t, int (*found)(void *arg, const tar_member *m), void *arg) {
  tape p = {.t = t, .fd = t->fd >= 0 ? t->fd : tar_open_again(t)};
  walk w = {
      .ctx = ctx, .t = t, .tape = &p, .a = archive_read_new(), .found = found, .arg = arg, .end = -1, .behind = -1};
  int rc;
  p.size = size_of(&p);
  if (!w.a) rc = ctx->host->fail(ctx, SP_E_NOMEM, "no memory to list %s", t->name);
  else if (p.fd < 0) rc = ctx->host->fail(ctx, SP_E_IO, "%s: %s", t->name, strerror(errno));
  else if (archive_read_support_format_tar(w.a) ||
           archive_read_set_format_option(w.a, "tar", "read_concatenated_archives", "1") ||
           archive_read_open2(w.a, &p, NULL, tape_read, tape_skip, NULL))
    rc = damaged(&w, archive_error_string(w.a));
  else rc = walk_all(&w);
  if (w.a) archive_read_free(w.a);
  if (p.fd >= 0 && p.fd != t->fd) close(p.fd);
  return rc;
}

/* ---- compressed files ---- */
typedef struct unpacking {
  sp_ctx *ctx;
  const char *path, *name, *dir;
  struct archive *a;
  int to;
  int64_t at, bytes, looked; /* looked: bytes when the disk's room was looked at */
} unpacking;

static int no_room(const unpacking *u, const char *why) {
  return u->ctx->host->fail(u->ctx, SP_E_IO,
                            "%s: %s in %s for what it unpacks to (%.1f GiB so far): let TMPDIR name a folder with more "
                            "room, or unpack it to a plain .tar once",
                            u->name, why, u->dir, (double)(u->at + u->bytes) / (1 << 30));
}

/* A small file can unpack to any size: it must not fill the disk of others. */
static int check_room(unpacking *u) {
  struct statvfs s;
  if (u->bytes && u->bytes - u->looked < CHECK_ROOM) return SP_OK;
  u->looked = u->bytes;
  if (fstatvfs(u->to, &s)) return SP_OK; /* writing will tell */
  uint64_t all = (uint64_t)s.f_blocks * s.f_frsize, left = (uint64_t)s.f_bavail * s.f_frsize, keep = all / 20;
  if (keep > KEEP_FREE) keep = KEEP_FREE;
  return left > keep + CHECK_ROOM ? SP_OK : no_room(u, "too little room");
}

static int write_block(unpacking *u, const char *p, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t got = pwrite(u->to, p + done, n - done, (off_t)(u->at + u->bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return no_room(u, strerror(errno));
    done += (size_t)got;
    u->bytes += got;
  }
  return check_room(u);
}

static int unpack_all(unpacking *u) {
  struct archive_entry *e;
  const void *block;
  size_t n;
  la_int64_t at;
  int rc = check_room(u), got = rc ? ARCHIVE_OK : archive_read_open_filename(u->a, u->path, 1 << 17);
  if (!rc && got == ARCHIVE_OK) got = archive_read_next_header(u->a, &e);
  while (!rc && got == ARCHIVE_OK)
    if ((got = archive_read_data_block(u->a, &block, &n, &at)) == ARCHIVE_OK) rc = write_block(u, block, n);
  if (rc || got == ARCHIVE_EOF) return rc;
  return u->ctx->host->fail(u->ctx, SP_E_DATA,
                            "%s cannot be unpacked: %s; it is cut off or damaged: fetch or pack it again", u->name,
                            archive_error_string(u->a));
}

int tar_unpack(sp_ctx *ctx, const tar_file *t, int to, const char *dir, int64_t at, int64_t *bytes) {
  unpacking u = {.ctx = ctx, .path = t->path, .name = t->name, .dir = dir, .a = archive_read_new(), .to = to, .at = at};
  int rc;
  if (!u.a) return ctx->host->fail(ctx, SP_E_NOMEM, "no memory to unpack %s", t->name);
  if (archive_read_support_format_raw(u.a) || archive_read_support_filter_gzip(u.a) ||
      archive_read_support_filter_zstd(u.a))
    rc = ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s is compressed, and libarchive here does not read gzip and zstd",
                         t->name);
  else rc = unpack_all(&u);
  archive_read_free(u.a);
  *bytes = u.bytes;
  return rc;
}

#else

static int no_library(sp_ctx *ctx, const char *path) {
  return ctx->host->fail(ctx, SP_E_UNSUPPORTED,
                         "%s is a tar, and this spcore was built without libarchive; install that (Debian: "
                         "libarchive-dev), configure and build again",
                         path);
}

int tar_walk(sp_ctx *ctx, const tar_file *t, int (*found)(void *arg, const tar_member *m), void *arg) {
  (void)found, (void)arg;
  return no_library(ctx, t->name);
}

int tar_unpack(sp_ctx *ctx, const tar_file *t, int to, const char *dir, int64_t at, int64_t *bytes) {
  (void)to, (void)dir, (void)at, (void)bytes;
  return no_library(ctx, t->name);
}

#endif
