/* SPDX-License-Identifier: MIT
 * elf_check.h - is a shared object all there? */
#ifndef SP_CORE_ELF_CHECK_H
#define SP_CORE_ELF_CHECK_H

#include "base/err.h"

/* The loader maps what the headers promise; a file cut short (a copy that was interrupted) then kills the process by a
 * bus error. SP_E_FORMAT when a part of `real` that is to be loaded is missing; messages name `path`. What is no ELF
 * file at all is left to dlopen, which refuses it in its own words. */
int sp_elf_check(const char *path, const char *real, sp_err *err);

#endif
