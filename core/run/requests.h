/* SPDX-License-Identifier: MIT
 * requests.h - what the loop asks where it is fed by requests. */
#ifndef SP_CORE_REQUESTS_H
#define SP_CORE_REQUESTS_H

#include "run/loop.h"

typedef enum sp_requests_next {
  SP_REQUESTS_BEGUN, /* `step` begins, with requests or empty; or the loop ends in front of it */
  SP_REQUESTS_OVER,  /* the step whose turn it is can be collected: all of it is over */
  SP_REQUESTS_TOLD   /* requests were answered that no step has done */
} sp_requests_next;

/* With the machine: the gate, with room for as many steps as are in flight. */
int sp_requests_init(sp_machine *m, sp_err *err);
void sp_requests_reset(sp_loop *l); /* nothing is in flight */
/* What `step`, the tick's, is made of, or what comes before. May wait; where there is no further step it ends the
 * loop. */
sp_requests_next sp_requests_begin(sp_loop *l, uint64_t step);
/* Until the event is complete; what is late by then is answered. */
void sp_requests_await(sp_loop *l, const sp_place *place, void *event);

#endif
