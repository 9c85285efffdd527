/* SPDX-License-Identifier: MIT
 * plugin_file.h - opens one plugin file and checks what it holds. */
#ifndef SP_CORE_PLUGIN_FILE_H
#define SP_CORE_PLUGIN_FILE_H

#include <spcore/comm.h>
#include <spcore/device.h>
#include <spcore/format.h>
#include <spcore/plugin.h>

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* One loaded shared object; structs copied to the host's size, never unloaded. */
typedef struct sp_plugin_file {
  char *path; /* absolute */
  sp_plugin plugin;
  sp_stage_type *stages; /* n_stages copies */
  size_t n_stages;
  sp_device_type *devices;
  size_t n_devices;
  sp_format_type *formats;
  size_t n_formats;
  sp_comm_type *comms;
  size_t n_comms;
} sp_plugin_file;

/* Opens the file f->path, with the rest of *f zero; errors call it `path`, as the user did. What it filled before a
 * failure goes with sp_plugin_file_free(). */
int sp_plugin_file_open(sp_plugin_file *f, const char *path, sp_err *err);
void sp_plugin_file_free(sp_plugin_file *f); /* its path too, but not f itself; the shared object stays */

/* May a stage, a device or a port be called so? [a-z][a-z0-9_]* */
bool sp_plugin_name_ok(const char *name);

#endif
