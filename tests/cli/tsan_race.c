/* SPDX-License-Identifier: MIT
 * tsan_race.c - two lanes' threads write one buffer without an event between them, on purpose:
 * proves that TSan sees it. */
#include <pthread.h>
#include <stdio.h>

static float slot[1024];

static void *lane(void *arg) {
  float v = *(float *)arg;
  for (size_t i = 0; i < sizeof slot / sizeof slot[0]; i++) slot[i] = v;
  return NULL;
}

int main(void) {
  pthread_t a, b;
  float one = 1, two = 2;
  if (pthread_create(&a, NULL, lane, &one) || pthread_create(&b, NULL, lane, &two)) return 1;
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  printf("%g\n", (double)slot[17]);
  return 0;
}
