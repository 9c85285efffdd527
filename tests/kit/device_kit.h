/* SPDX-License-Identifier: MIT
 * device_kit.h - what the conformance suite of devices needs where operations are not functions of the host: on CUDA. */
#ifndef SP_TESTS_DEVICE_KIT_H
#define SP_TESTS_DEVICE_KIT_H

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <spcore/device.h>

/* Ends the program as skipped, with the reason, where there is no GPU. */
const sp_device_type *kit_device(void);

/* Begins a test: what the calls below handed out before is used again. */
void kit_begin(void);

/* Has the stream call fn(arg, NULL) on the host when its turn comes; the status that it returns is lost. */
int kit_submit(sp_ctx *ctx, const sp_device_type *type, void *stream, sp_op_fn fn, void *arg);

/* Holds the stream until *open is not 0, unless kit_holds() is false: the emulator's streams run at once. A host function
 * would hold those of all other streams too. */
bool kit_holds(void);
int kit_shut(sp_ctx *ctx, const sp_device_type *type, void *stream, atomic_int *open);

/* Of gates; the device can read them. */
atomic_int *kit_gates(void);

/* The tests that are of this device alone. */
void kit_add_tests(Suite *suite);

#endif
