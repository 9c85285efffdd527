/* SPDX-License-Identifier: MIT
 * device_host.c - what device_kit.h asks for, of the built-in devices: their operations are functions of the host. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu.h"
#include "tests/kit/device_kit.h"
#include "tests/kit/suite.h"

const int kit_many = 3000;

const sp_device_type *const *kit_devices(int *n) {
  static const sp_device_type *const all[] = {&sp_device_cpu, &sp_device_sim, &sp_device_mock, &sp_device_simmock};
  *n = (int)SP_ARRAY(all);
  return all;
}

static atomic_int gate;

void kit_begin(void) { atomic_store(&gate, 0); }

atomic_int *kit_gate(void) { return &gate; }

int kit_submit(sp_ctx *c, const sp_device_type *t, void *stream, sp_op_fn fn, void *arg) {
  return t->stream_submit(c, stream, fn, arg);
}

/* sim and simmock have no thread of their own. */
bool kit_holds(const sp_device_type *t) { return strncmp(t->name, "sim", 3) != 0; }

static int op_gate(void *open, void *native) {
  (void)native;
  while (!atomic_load((atomic_int *)open)) nap(1);
  return SP_OK;
}

static int op_no_gate(void *open, void *native) {
  (void)open, (void)native;
  return SP_OK;
}

int kit_shut(sp_ctx *c, const sp_device_type *t, void *stream, atomic_int *open) {
  return t->stream_submit(c, stream, kit_holds(t) ? op_gate : op_no_gate, open);
}

size_t kit_memory(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0; /* their allocator is not the one that mallinfo2 looks at */
#else
  return mallinfo2().uordblks;
#endif
}

int kit_run(Suite *suite) { return suite_run(suite); }
