/* SPDX-License-Identifier: MIT
 * grouped.h - an optimizer that honours groups of weights beside itself without any: `groups` of sp_plan. */
#ifndef SP_CORE_CHECK_GROUPED_H
#define SP_CORE_CHECK_GROUPED_H

#include "check/report.h"
#include "check/rig.h"

/* Both are open; `whole` is planned. Not SP_OK: it could not be tried, for err's reason. */
int grouped_check(report *rep, rig *whole, rig *grouped, sp_err *err);

#endif
