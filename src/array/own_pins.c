/* Pins of the calling thread: a list, in memory of the thread as long as it is short. */
#include "array/own_pins.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "mem/thread.h"

__thread pgasi_array_own_pins_t pgasi_array_own_pins __attribute__((tls_model("initial-exec")));
#define own pgasi_array_own_pins

/* Pins of an earlier job ended with it. New grants may have the same addresses. */
static void forget_old_pins(void)
{
    if (PGAS_LIKELY(own.epoch == pgasi_epoch))
        return;
    own.n = 0;
    own.epoch = pgasi_epoch;
}

void pgasi_array_own_pins_note(pgasi_array_access_t *x)
{
    forget_old_pins();
    x->pins = own.pin;
    x->n_pins = own.n;
}

bool pgasi_array_is_pinned_by(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x)
{
    for (uint32_t i = 0; i < x->n_pins; i++)
        if (x->pins[i].grant == grant)
            return true;
    return false;
}

bool pgasi_array_has_own_pin(const pgasi_array_grant_t *grant)
{
    pgasi_array_access_t x;
    pgasi_array_own_pins_note(&x);
    return pgasi_array_is_pinned_by(grant, &x);
}

pgas_status_t pgasi_array_own_pin_room(void)
{
    forget_old_pins();
    if (!own.pin) {
        own.pin = own.few;
        own.room = PGASI_ARRAY_OWN_PINS;
    }
    if (own.n < own.room)
        return PGAS_OK;
    bool first = own.pin == own.few;
    pgasi_array_own_pin_t *more = realloc(first ? NULL : own.pin, 2 * own.room * sizeof *more);
    if (!more)
        return PGAS_ERR_NO_MEMORY;
    if (first)
        memcpy(more, own.few, sizeof own.few);
    own.pin = more;
    own.room *= 2;
    return PGAS_OK;
}

void pgasi_array_own_pin_add(const pgasi_array_grant_t *grant)
{
    for (uint32_t i = 0; i < own.n; i++) {
        if (own.pin[i].grant == grant) {
            own.pin[i].n++;
            return;
        }
    }
    own.pin[own.n++] = (pgasi_array_own_pin_t){ grant, 1 };
}

void pgasi_array_own_pin_move(const pgasi_array_grant_t *from, const pgasi_array_grant_t *to)
{
    uint32_t i = 0;
    while (own.pin[i].grant != from)
        i++;
    if (own.pin[i].n == 1) {
        own.pin[i].grant = to;
        return;
    }
    own.pin[i].n--;
    pgasi_array_own_pin_add(to);
}

bool pgasi_array_own_pin_remove(const pgasi_array_grant_t *grant)
{
    forget_old_pins();
    for (uint32_t i = 0; i < own.n; i++) {
        if (own.pin[i].grant != grant)
            continue;
        if (--own.pin[i].n == 0)
            own.pin[i] = own.pin[--own.n];
        if (own.n == 0 && own.pin != own.few) {
            free(own.pin);
            own.pin = NULL;
        }
        return true;
    }
    return false;
}
