/* SPDX-License-Identifier: MIT
 * updates.h - an optimizer whose update is made in several calls beside one in a single call:
 * rule 12 of spcore/plugin.h. */
#ifndef SP_CORE_CHECK_UPDATES_H
#define SP_CORE_CHECK_UPDATES_H

#include "check/report.h"
#include "check/rig.h"

/* Both are open; `whole` is planned, and its gradients are exchanged for others. Not SP_OK: it could not be tried, for
 * err's reason. */
int updates_check(report *rep, rig *whole, rig *cut, sp_err *err);

#endif
