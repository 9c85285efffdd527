/* SPDX-License-Identifier: MIT
 * conformance.h - the suite behind `spcore check`: does a stage keep the rules of spcore/plugin.h? */
#ifndef SP_CORE_CONFORMANCE_H
#define SP_CORE_CONFORMANCE_H

#include "check/solo.h"
#include "host/stage.h"

typedef enum { SP_CONFORM_OK, SP_CONFORM_FAILED, SP_CONFORM_NOTICE } sp_conform_result;

/* One line of the report. words is "" where there is nothing to add. */
typedef void (*sp_conform_fn)(void *arg, sp_conform_result result, const char *stage, const char *what,
                              const char *words);

typedef struct sp_conform {
  const sp_stage_host *host;
  sp_registry *reg; /* where devices are found; NULL: only stages for the cpu are exercised */
  const sp_value
      *set;      /* parameters: a TABLE of plain values or NULL; a name that a stage does not have is passed over */
  int precision; /* SP_PRECISION_... */
} sp_conform;

/* Runs every stage of the file, on the device that it is for, with parameters at their defaults or as set and small
 * tensors of its own making. A stage that refuses all of them, or whose device is not there, is reported with a notice
 * and the words. Returns how many checks failed. */
int sp_conformance(const sp_plugin_file *file, const sp_conform *how, sp_conform_fn line, void *arg);

#endif
