/* SPDX-License-Identifier: MIT
 * registry.h - which plugins there are, and what is found in them by name. */
#ifndef SP_CORE_REGISTRY_H
#define SP_CORE_REGISTRY_H

#include "host/plugin_file.h"

typedef struct sp_registry sp_registry;

int sp_registry_new(sp_registry **reg, sp_err *err);
void sp_registry_free(sp_registry *reg);

/* Folders searched, in the order they were added. Missing folders are passed over. */
int sp_registry_add_dir(sp_registry *reg, const char *dir, sp_err *err);
/* Loads one file now; what it holds comes before anything found in folders. */
int sp_registry_load(sp_registry *reg, const char *path, const sp_plugin_file **file, sp_err *err);

/* A stage by name and device: from files loaded already, then from the one in the folders that its name says, of the
 * first folder that has it: for "cpu" NAME.so, or where there is none what is named after its first words; for another
 * device NAME_DEVICE.so likewise, then as for "cpu". So toy_mul for "cuda" is in toy_mul_cuda.so, else in toy_cuda.so,
 * else in toy_mul.so, else in toy.so; no other file is opened. A file of several stages has a link of each one's name
 * beside it, encoder.so -> networks.so, and is loaded once. The error offers the nearest name, also of files that are
 * not opened, and says so where the stage exists for another device only. SP_E_NOTFOUND: no file has it; one that does
 * not load, for want of a library too, is another error. */
int sp_registry_stage(sp_registry *reg, const char *name, const char *device, const sp_stage_type **type,
                      const sp_plugin_file **file, sp_err *err);
/* Opens what NAME says for every device there is, as if it was asked for each. What does not load is passed over, since
 * sp_registry_stage says why. */
void sp_registry_load_stage(sp_registry *reg, const char *name);
/* A device by name; built-in ones are added by sp_registry_add_device. NULL result with SP_E_NOTFOUND:
 * no such plugin. */
int sp_registry_device(sp_registry *reg, const char *name, const sp_device_type **type, sp_err *err);
/* The same by the name of one device: "cuda" is the first of its type, "cuda:1" the second. Whether there are so many,
 * the type says. */
int sp_registry_device_at(sp_registry *reg, const char *name, const sp_device_type **type, int *index, sp_err *err);
int sp_registry_add_device(sp_registry *reg, const sp_device_type *type, sp_err *err);
/* A format by file extension of `path`: from files loaded already, then from safetensors.so for ".safetensors". */
int sp_registry_format(sp_registry *reg, const char *path, const sp_format_type **type, sp_err *err);

/* A communicator by name: from files loaded already, then from comm_NAME.so. */
int sp_registry_comm(sp_registry *reg, const char *name, const sp_comm_type **type, sp_err *err);

#define SP_DEVICE_NUMBER_MAX 1023
typedef struct sp_device_name {
  char type[64];
  int index;
} sp_device_name;
/* NAME or NAME:NUMBER. The words of a failure say what is wanted, not what was given. */
int sp_device_name_parse(const char *text, sp_device_name *name, sp_err *err);

/* Loads everything in the folders. Files that do not load are reported through `bad` (may be NULL) and passed over. */
int sp_registry_scan(sp_registry *reg, void (*bad)(void *arg, const char *path, const sp_err *why), void *arg,
                     sp_err *err);
size_t sp_registry_count(const sp_registry *reg);
const sp_plugin_file *sp_registry_at(const sp_registry *reg, size_t i); /* in order of loading */

#endif
