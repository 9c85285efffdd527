/* SPDX-License-Identifier: MIT
 * segment.c - the shared memory of the ranks of one host. Its name is gone as soon as all have it open, so that nothing
 * stays behind, however the ranks end. */
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../kits/comm.h"

#define BOX_BYTES ((size_t)256 << 10)
#define ALL_BYTES ((size_t)16 << 20) /* at most, of all boxes */
#define PAGE 4096

/* /dev/shm holds no "/", and names of up to 255 bytes: a job's own name may be anything. */
static void put_name(char *to, size_t size, const char *job) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (; *job; job++) h = (h ^ (unsigned char)*job) * UINT64_C(0x100000001b3);
  snprintf(to, size, "/spcore-%016llx", (unsigned long long)h);
}

static int io_failed(sp_ctx *ctx, const char *name, const char *what) {
  int code = errno;
  bool full = code == ENOSPC || code == ENOMEM;
  return ctx->host->fail(ctx, full ? SP_E_NOMEM : SP_E_IO, "shared memory %s: %s: %s%s", name, what, strerror(code),
                         full ? " (a container's /dev/shm may be small: docker run --shm-size)" : "");
}

static void place(local_comm *c) {
  size_t boxes = 2 * (size_t)c->ranks, head = sizeof(local_segment) + boxes * sizeof(local_box);
  size_t share = ALL_BYTES / boxes / PAGE * PAGE;
  c->bytes = share < BOX_BYTES ? share : BOX_BYTES;
  head = (head + PAGE - 1) / PAGE * PAGE;
  c->mapped = head + boxes * c->bytes;
  c->data = (char *)c->segment + head;
}

static int map(sp_ctx *ctx, local_comm *c, const char *name, int fd) {
  place(c);
  void *at = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return io_failed(ctx, name, "mmap");
  c->segment = at;
  place(c);
  return SP_OK;
}

/* Of an earlier run of the job, which was killed right here, one may be left. */
static int create(sp_ctx *ctx, local_comm *c, const char *name, uint64_t mark) {
  shm_unlink(name);
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return io_failed(ctx, name, "cannot be made");
  place(c);
  errno = posix_fallocate(fd, 0, (off_t)c->mapped); /* too little memory: now, not as SIGBUS later */
  int rc = errno ? io_failed(ctx, name, "cannot be made") : map(ctx, c, name, fd);
  close(fd);
  if (!rc) c->segment->mark = mark;
  return rc;
}

static int attach(sp_ctx *ctx, local_comm *c, const char *name, uint64_t mark) {
  struct stat st;
  int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return io_failed(ctx, name, "rank 0 has made it, but here it cannot be opened");
  place(c);
  bool whole = fstat(fd, &st) == 0 && (size_t)st.st_size == c->mapped;
  int rc = whole ? map(ctx, c, name, fd) : SP_OK;
  close(fd);
  if (!rc && (!whole || c->segment->mark != mark))
    rc = ctx->host->fail(ctx, SP_E_IO, "shared memory %s is not that of rank 0: 'local' is for the ranks of one host",
                         name);
  return rc;
}

static uint64_t new_mark(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int local_map(sp_ctx *ctx, const sp_comm_boot *boot, local_comm *c) {
  struct {
    uint64_t mark;
    int64_t status;
  } mine = {.mark = new_mark()}, all[LOCAL_RANKS];
  char name[64];
  put_name(name, sizeof name, boot->job);
  if (c->rank == 0) mine.status = create(ctx, c, name, mine.mark);
  int rc = boot->exchange(boot, &mine, sizeof mine, all);
  if (!rc) {
    int status = (int)mine.status;
    if (c->rank && !all[0].status) status = attach(ctx, c, name, all[0].mark);
    rc = comm_agree(ctx, boot, status);
  }
  if (c->rank == 0) shm_unlink(name);
  return rc;
}

void local_unmap(local_comm *c) {
  if (c->segment) munmap(c->segment, c->mapped);
}
