/* SPDX-License-Identifier: MIT
 * crash.h - when a plugin crashes the program, whose call it was. */
#ifndef SP_CORE_CRASH_H
#define SP_CORE_CRASH_H

/* The call that this thread makes into a plugin, for the words of a crash. The strings live as long as the call. */
typedef struct sp_crash_call {
  const char *stage, *file, *what;
  const struct sp_crash_call *outer;
} sp_crash_call;
void sp_crash_enter(sp_crash_call *call);
void sp_crash_leave(void);

/* From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT first print one line that names the call, then end the
 * program as they always do, core dump included. A handler that is there, such as a sanitizer's, is left alone. */
void sp_crash_watch(void);

#endif
