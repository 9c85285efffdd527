/* SPDX-License-Identifier: MIT
 * segment.c - the shared memory of the ranks of one host. It has no name: rank 0 hands its file to the others through a
 * socket, so that nothing stays behind, whenever the ranks are killed. */
#include "local.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <fcntl.h>
#include <unistd.h>

#include "../../kits/comm.h"

#define BOX_BYTES ((size_t)256 << 10)
#define ALL_BYTES ((size_t)16 << 20) /* at most, of all boxes */
#define PAGE 4096
#define GROUP \
  6 /* ranks that knock at once: fewer than may wait at any socket, and of eight, as tests have them, not all */

/* What rank 0 tells the others. */
typedef struct offer {
  uint64_t mark;
  int64_t status;
  uint32_t bytes; /* of address: the kernel chooses one, which no file has */
  struct sockaddr_un address;
} offer;

static int io_failed(sp_ctx *ctx, const char *what) {
  int code = errno;
  bool full = code == ENOSPC || code == ENOMEM;
  return ctx->host->fail(ctx, full ? SP_E_NOMEM : SP_E_IO, "shared memory: %s: %s", what, strerror(code));
}

static void place(local_comm *c) {
  size_t boxes = 2 * (size_t)c->ranks, head = sizeof(local_segment) + boxes * sizeof(local_box);
  size_t share = ALL_BYTES / boxes / PAGE * PAGE;
  c->bytes = share < BOX_BYTES ? share : BOX_BYTES;
  head = (head + PAGE - 1) / PAGE * PAGE;
  c->mapped = head + boxes * c->bytes;
  c->data = (char *)c->segment + head;
}

static int map(sp_ctx *ctx, local_comm *c, int fd) {
  void *at = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return io_failed(ctx, "mmap");
  c->segment = at;
  place(c);
  return SP_OK;
}

static int new_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

static int create(sp_ctx *ctx, local_comm *c, int *fd, offer *o) {
  if (getrandom(&o->mark, sizeof o->mark, 0) != sizeof o->mark) return io_failed(ctx, "getrandom");
  *fd = memfd_create("spcore-local", MFD_CLOEXEC);
  if (*fd < 0) return io_failed(ctx, "memfd_create");
  errno = posix_fallocate(*fd, 0, (off_t)c->mapped); /* too little memory: now, not as SIGBUS later */
  int rc = errno ? io_failed(ctx, "cannot be had") : map(ctx, c, *fd);
  if (!rc) c->segment->mark = o->mark;
  return rc;
}

static int invite(sp_ctx *ctx, int *door, offer *o) {
  socklen_t bytes = sizeof o->address;
  o->address.sun_family = AF_UNIX;
  *door = new_socket();
  if (*door < 0 || bind(*door, (struct sockaddr *)&o->address, sizeof o->address.sun_family) || listen(*door, GROUP) ||
      getsockname(*door, (struct sockaddr *)&o->address, &bytes))
    return io_failed(ctx, "no socket to hand it over");
  o->bytes = bytes;
  return SP_OK;
}

static bool is_ours(int fd) {
  struct ucred who;
  socklen_t len = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

/* The file `fd` over the socket `to`, or from it: *fd. */
static bool pass(int to, int *fd, bool send) {
  char byte = 0;
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec data = {&byte, 1};
  struct msghdr m = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *head = CMSG_FIRSTHDR(&m);
  if (send) {
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(head), fd, sizeof *fd);
    return sendmsg(to, &m, MSG_NOSIGNAL) == 1;
  }
  errno = ENODATA; /* where nothing comes */
  if (recvmsg(to, &m, MSG_CMSG_CLOEXEC) != 1 || !(head = CMSG_FIRSTHDR(&m)) || head->cmsg_type != SCM_RIGHTS)
    return false;
  memcpy(fd, CMSG_DATA(head), sizeof *fd);
  return true;
}

/* To all who have knocked. */
static int hand_out(sp_ctx *ctx, int door, int fd) {
  for (int to; (to = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; close(to))
    if (is_ours(to) && !pass(to, &fd, true)) {
      close(to);
      return io_failed(ctx, "cannot be handed over");
    }
  return SP_OK;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int knock(sp_ctx *ctx, int *door, const offer *o) {
  *door = new_socket();
  if (*door >= 0 && connect(*door, (const struct sockaddr *)&o->address, o->bytes) == 0) return SP_OK;
  return io_failed(ctx, "rank 0 is not to be found on this host ('local' is for ranks of one host and its network)");
}

static int attach(sp_ctx *ctx, local_comm *c, int door, uint64_t mark) {
  struct stat st;
  int fd;
  if (!pass(door, &fd, false)) return io_failed(ctx, "rank 0 has made it, but here it has not come");
  bool whole = fstat(fd, &st) == 0 && (size_t)st.st_size == c->mapped;
  int rc = whole ? map(ctx, c, fd) : SP_OK;
  close(fd);
  if (!rc && (!whole || c->segment->mark != mark))
    rc = ctx->host->fail(ctx, SP_E_IO, "shared memory: it is not that of rank 0: 'local' is for the ranks of one host");
  return rc;
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* Every rank in each exchange, whatever has failed before: the others wait for it there. */
static int share(sp_ctx *ctx, const sp_comm_boot *boot, local_comm *c, int *fd, int *door) {
  offer mine = {0}, all[LOCAL_RANKS];
  if (c->rank == 0) mine.status = create(ctx, c, fd, &mine);
  if (c->rank == 0 && !mine.status) mine.status = invite(ctx, door, &mine);
  int rc = boot->exchange(boot, &mine, sizeof mine, all), status = (int)mine.status;
  for (int first = 1; first < c->ranks && !rc; first += GROUP) {
    if (c->rank >= first && c->rank < first + GROUP && !all[0].status) status = knock(ctx, door, &all[0]);
    rc = comm_agree(ctx, boot, status);
    if (!rc && c->rank == 0) status = hand_out(ctx, *door, *fd);
    if (!rc) rc = comm_agree(ctx, boot, status);
  }
  if (rc || c->ranks == 1) return rc ? rc : status;
  return comm_agree(ctx, boot, c->rank ? attach(ctx, c, *door, all[0].mark) : SP_OK);
}

int local_map(sp_ctx *ctx, const sp_comm_boot *boot, local_comm *c) {
  int fd = -1, door = -1;
  place(c);
  int rc = share(ctx, boot, c, &fd, &door);
  if (fd >= 0) close(fd);
  if (door >= 0) close(door);
  return rc;
}

void local_unmap(local_comm *c) {
  if (c->segment) munmap(c->segment, c->mapped);
}
