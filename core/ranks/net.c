/* SPDX-License-Identifier: MIT
 * net.c - sockets for core/ranks: none blocks, none lives on in another program, a deadline on each wait. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "ranks/impl.h"

#define RETRY_MS 50 /* until somebody listens */

void sp_net_close(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* Waits for `events`; false when the time is over. */
static bool ready(int fd, short events, double until) {
  for (;;) {
    double left = until - sp_now();
    struct pollfd p = {.fd = fd, .events = events};
    int ms = isinf(until) ? -1 : left <= 0 ? 0 : left > 60 ? 60000 : (int)(left * 1000) + 1;
    int n = poll(&p, 1, ms);
    if (n > 0) return true;
    if (n < 0 ? errno != EINTR : left <= 0) return false;
  }
}

bool sp_net_send(int fd, const void *data, size_t n, double until) {
  for (const char *at = data; n > 0;) {
    ssize_t w = send(fd, at, n, MSG_NOSIGNAL);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0 && errno == EAGAIN && ready(fd, POLLOUT, until)) continue;
    if (w <= 0) return false;
    at += w;
    n -= (size_t)w;
  }
  return true;
}

bool sp_net_recv(int fd, void *data, size_t n, double until) {
  for (char *at = data; n > 0;) {
    ssize_t got = recv(fd, at, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && ready(fd, POLLIN, until)) continue;
    if (got <= 0) return false;
    at += got;
    n -= (size_t)got;
  }
  return true;
}

void sp_net_drain(int fd, double until) {
  char rest[4096];
  ssize_t n;
  do n = recv(fd, rest, sizeof rest, 0);
  while (n > 0 || (n < 0 && (errno == EINTR || (errno == EAGAIN && ready(fd, POLLIN, until)))));
}

/* What is sent is small and wanted at once. */
static void no_delay(int fd) { setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); }

static int look_up(const char *address, int port, int flags, struct addrinfo **list, sp_err *err) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  int rc = getaddrinfo(address, service, &hints, list);
  if (!rc) return SP_OK;
  return sp_fail(err, SP_E_NOTFOUND, "'%s', where rank 0 should be: %s (SPCORE_ADDR says another host)",
                 address ? address : "this host", rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

static bool is_loopback(const char *address) {
  return strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0;
}

static int listen_at(const struct addrinfo *a) {
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
  if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

/* A job on one host is not to be seen from others. Elsewhere the name of this host may mean an address that only others
 * can use, or on Debian one that only this host can: so all of them. */
int sp_net_listen(const char *address, int port, int *fd, sp_err *err) {
  struct addrinfo *list;
  bool here = is_loopback(address);
  int rc = look_up(here ? address : NULL, port, AI_PASSIVE, &list, err);
  if (rc) return rc;
  *fd = -1;
  static const int order[] = {AF_INET6, AF_INET}; /* one socket of IPv6 takes both */
  for (size_t i = 0; i < SP_ARRAY(order); i++)
    for (const struct addrinfo *a = list; a && *fd < 0; a = a->ai_next)
      if (a->ai_family == order[i]) *fd = listen_at(a);
  int why = errno;
  freeaddrinfo(list);
  if (*fd >= 0) return SP_OK;
  return sp_fail(err, SP_E_IO, "rank 0 cannot listen on port %d: %s (SPCORE_PORT says another port)", port,
                 strerror(why));
}

int sp_net_accept(int listener, char *from, size_t n) {
  struct sockaddr_storage who;
  socklen_t len = sizeof who;
  char host[48] = "?", service[8] = "?";
  int fd = accept4(listener, (struct sockaddr *)&who, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return -1;
  no_delay(fd);
  getnameinfo((struct sockaddr *)&who, len, host, sizeof host, service, sizeof service,
              NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(from, n, "%s port %s", host, service);
  return fd;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int connect_to(const struct addrinfo *a, double until) {
  int why = 0, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  socklen_t len = sizeof why;
  if (connect(fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS) why = errno;
  else if (!ready(fd, POLLOUT, until)) why = ETIMEDOUT;
  else getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len);
  if (!why) return fd;
  close(fd);
  errno = why;
  return -1;
}

int sp_net_connect(const char *address, int port, double until, int *fd, sp_err *err) {
  struct addrinfo *list;
  int why = 0, rc = look_up(address, port, 0, &list, err);
  if (rc) return rc;
  for (*fd = -1; *fd < 0;) {
    for (const struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) *fd = connect_to(a, until);
    why = errno;
    if (*fd >= 0 || sp_now() >= until) break;
    poll(NULL, 0, RETRY_MS);
  }
  freeaddrinfo(list);
  if (*fd >= 0) no_delay(*fd);
  return *fd >= 0 ? SP_OK : sp_fail(err, SP_E_LATE, "%s", strerror(why));
}
