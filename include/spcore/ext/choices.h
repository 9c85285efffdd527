/* SPDX-License-Identifier: MIT
 *
 * spcore/ext/choices.h - "spcore.choices/1": which algorithms stages of a device have chosen while they were prepared,
 * by measuring say, and how a process takes those of another one.
 *
 * Ranks of a job compute the same bits only with the same algorithms. So rank 0 prepares its stages first, and the
 * others hold to what it took. It is an extension of the device (sp_device_type.extension), for the host alone.
 */
#ifndef SPCORE_EXT_CHOICES_H
#define SPCORE_EXT_CHOICES_H

#include "../abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SP_EXT_CHOICES "spcore.choices/1"

#define SP_CHOICE_MAX 192 /* bytes of a key and of a value, each with its 0 */

typedef struct sp_choice {
  char key[SP_CHOICE_MAX], value[SP_CHOICE_MAX];
} sp_choice;

typedef struct sp_choices {
  uint32_t size, reserved;

  /* The k-th choice, from 0, that stages of this process have taken, in the order in which they first did, which is
   * that of prepare(). SP_E_NOTFOUND, without words: there are no more. [main & !running] */
  int (*taken)(sp_ctx *, void *dev, uint64_t k, sp_choice *choice);
  /* From now on that one is taken in this process, in the place of what it has measured or kept, which stays as it is
   * for others. [main & !running] */
  int (*hold)(sp_ctx *, void *dev, const sp_choice *choice);
} sp_choices;

#ifdef __cplusplus
}
#endif
#endif
