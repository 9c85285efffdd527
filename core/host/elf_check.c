/* SPDX-License-Identifier: MIT
 * elf_check.c - is a shared object all there? */
#include "host/elf_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cut_short(const char *path, uint64_t want, uint64_t size, sp_err *err) {
  return sp_fail(err, SP_E_FORMAT,
                 "%s: the file is cut short: %llu bytes are promised, %llu are there; build or copy it again", path,
                 (unsigned long long)want, (unsigned long long)size);
}

static int check_parts(const char *path, int fd, uint64_t size, sp_err *err) {
  ElfW(Ehdr) head;
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return SP_OK;
  if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      head.e_phentsize != sizeof(ElfW(Phdr)))
    return SP_OK;
  for (unsigned i = 0; i < head.e_phnum; i++) {
    ElfW(Phdr) part;
    uint64_t at = head.e_phoff + (uint64_t)i * sizeof part;
    if (head.e_phoff > size || pread(fd, &part, sizeof part, (off_t)at) != (ssize_t)sizeof part)
      return cut_short(path, at + sizeof part, size, err);
    if (part.p_type != PT_LOAD) continue;
    if (part.p_offset > size || part.p_filesz > size - part.p_offset)
      return cut_short(path, part.p_offset + part.p_filesz, size, err);
  }
  return SP_OK;
}

int sp_elf_check(const char *path, const char *real, sp_err *err) {
  struct stat st;
  int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
  int rc = SP_OK;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) rc = check_parts(path, fd, (uint64_t)st.st_size, err);
  close(fd);
  return rc;
}
