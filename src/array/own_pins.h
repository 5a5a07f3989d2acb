/** Pins of the calling thread. A thread may not wait for the end of its own pin, so an access
 *  searches this list before it waits. */
#ifndef PGASI_ARRAY_OWN_PINS_H
#define PGASI_ARRAY_OWN_PINS_H

#include <stdbool.h>
#include <stdint.h>
#include "array/descriptor.h"

typedef struct pgasi_array_grant pgasi_array_grant_t;

typedef struct pgasi_array_own_pin {
    const pgasi_array_grant_t *grant;
    uint32_t n;
} pgasi_array_own_pin_t;

#define PGASI_ARRAY_OWN_PINS 8 /* more pins are in memory from malloc */

typedef struct {
    pgasi_array_own_pin_t *pin;
    uint32_t n, room;
    uint64_t epoch;
    pgasi_array_own_pin_t few[PGASI_ARRAY_OWN_PINS];
} pgasi_array_own_pins_t;
extern __thread pgasi_array_own_pins_t pgasi_array_own_pins
    __attribute__((tls_model("initial-exec")));

/** Makes room for one more pin; later records it. The thread itself calls both, also if another
 *  thread has counted the pin in the grant. */
pgas_status_t pgasi_array_own_pin_room(void);
void pgasi_array_own_pin_add(const pgasi_array_grant_t *grant);
/** A pin of a grant becomes one of another grant; there is room for it. */
void pgasi_array_own_pin_move(const pgasi_array_grant_t *from, const pgasi_array_grant_t *to);
/** @return false: the thread has no pin of the grant. */
bool pgasi_array_own_pin_remove(const pgasi_array_grant_t *grant);
bool pgasi_array_has_own_pin(const pgasi_array_grant_t *grant);

/** Records the calling thread's pins in its access. The record is valid until the access is
 *  done. */
void pgasi_array_own_pins_note(pgasi_array_access_t *x);
/** Whether the thread of the access had pinned the grant when it noted its pins. */
bool pgasi_array_is_pinned_by(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x);

#endif
