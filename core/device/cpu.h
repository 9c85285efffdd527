/* SPDX-License-Identifier: MIT
 * cpu.h - built-in devices. cpu: a stream is a thread. sim: one thread, seeded, runs any ready operation next. */
#ifndef SP_CORE_DEVICE_CPU_H
#define SP_CORE_DEVICE_CPU_H

#include <spcore/device.h>

extern const sp_device_type sp_device_cpu;

/* The sim device keeps operations and runs, in *_sync, any operation that is ready: the choice is drawn from the seed,
 * so that a seed is one possible timing. open() reads the seed set here. [main & !running] */
extern const sp_device_type sp_device_sim;
void sp_device_sim_seed(uint64_t seed);

/* The cpu device behind the borders of a GPU: its memory counts as out of the host's reach, so that a graph on it has
 * copies, step blocks and captured graphs as on CUDA, while its stages are those of the cpu. For tests. */
extern const sp_device_type sp_device_mock;

/* sim behind such a border: one draw orders the streams of both sides. An operation that waits for an event of the
 * other side, as a thread of the cpu does when it gets there, lets the others go on. */
extern const sp_device_type sp_device_simmock;

#endif
