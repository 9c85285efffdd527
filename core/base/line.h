/* SPDX-License-Identifier: MIT
 * line.h - the line at the bottom of a terminal, such as a progress bar: it gives way to what is printed, and stands
 * below it again. One a process; from any thread. */
#ifndef SP_CORE_LINE_H
#define SP_CORE_LINE_H

#include <stddef.h>

void sp_line_draw(const char *text); /* on stdout, in place of what is there; no newline in it */
void sp_line_erase(void);
/* Whole lines, each ended by a newline: to stdout; with write(2) to stderr, in one call. */
void sp_line_print(const char *text, size_t n);
void sp_line_error(const char *text, size_t n);
/* The same for a signal handler. */
void sp_line_signal(const char *text, size_t n);
/* Takes the line away for good; a signal handler may call it. */
void sp_line_abandon(void);

#endif
