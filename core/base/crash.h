/* SPDX-License-Identifier: MIT
 * crash.h - when a plugin crashes or leaves the program, whose call it was. */
#ifndef SP_CORE_CRASH_H
#define SP_CORE_CRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_CRASH_NO_STEP UINT64_MAX

/* The call that this thread makes into a plugin, for the words of a crash. The strings live as long as the call. */
typedef struct sp_crash_call {
  const char *stage; /* NULL: the file is being loaded */
  const char *file;  /* "": not known */
  const char *what;  /* the callback */
  uint64_t step;     /* or SP_CRASH_NO_STEP */
  bool returned;     /* it is over, and the core reads what it gave */
  const struct sp_crash_call *outer;
} sp_crash_call;
void sp_crash_enter(sp_crash_call *call);
void sp_crash_leave(void);

/* For a thread that works on another one's call: from now on it is this one's too; NULL: none any more. The other
 * thread stays in it for so long. */
const sp_crash_call *sp_crash_current(void);
void sp_crash_adopt(const sp_crash_call *call);

/* A plugin's file that was loaded, `so` as dlopen gave it: where no call is known, as in a device or a format, a crash
 * names the innermost of these files on the stack. */
void sp_crash_file(const char *path, void *so);

/* From now on a fatal signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS) on any thread first prints one
 * line that names the call, then ends the program with that signal, core dump included. exit() and quick_exit() inside
 * a call, and whatever ends the main thread, print one line and end the program with status 1. A handler that is there,
 * such as a sanitizer's, is left alone. */
void sp_crash_watch(void);

/* From now on this thread ends by returning from its function, after sp_crash_thread(false). If a plugin ends it in
 * another way (pthread_exit(), pthread_cancel(), thrd_exit()), whoever waits for it would wait for ever, so one line
 * names the call and the program ends with status 1. */
void sp_crash_thread(bool stays);

/* Where this thread handles a crash when its own stack is used up; at least SP_CRASH_STACK bytes, which stay until
 * sp_crash_stack(NULL). One that is there, such as a sanitizer's, is left alone. */
#define SP_CRASH_STACK 65536 /* a signal's frame holds all registers, on some processors more than 10 KiB */
void sp_crash_stack(void *stack);

#endif
