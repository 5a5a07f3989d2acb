/* The table of hooks, and the calls that go to all layers: see hooks.h. */
#include "boot/hooks.h"

pgasi_hooks_t pgasi_hooks;
__thread pgasi_thread_hooks_t pgasi_thread_hooks;

void pgasi_hooks_want_poll(pgasi_layer_t layer, bool wants)
{
    uint32_t bit = UINT32_C(1) << layer;
    /* Another thread may be about to clear the bit, so setting it is always a store of its own. */
    if (wants)
        __atomic_fetch_or(&pgasi_hooks.poll_wanted, bit, __ATOMIC_RELEASE);
    else if (pgasi_hooks_poll_is_wanted(layer))
        __atomic_fetch_and(&pgasi_hooks.poll_wanted, ~bit, __ATOMIC_RELAXED);
}

void pgasi_hooks_thread_attached(void)
{
    for (int i = 0; i < PGASI_N_LAYERS; i++)
        if (pgasi_hooks.thread_attached[i])
            pgasi_hooks.thread_attached[i]();
}

pgas_status_t pgasi_hooks_thread_detaching(void)
{
    pgas_status_t first = PGAS_OK;
    for (int i = PGASI_N_LAYERS - 1; i >= 0; i--) {
        pgas_status_t status =
            pgasi_hooks.thread_detaching[i] ? pgasi_hooks.thread_detaching[i]() : PGAS_OK;
        first = first == PGAS_OK ? status : first;
    }
    return first;
}

int pgasi_hooks_poll(void)
{
    uint32_t wanted = __atomic_load_n(&pgasi_hooks.poll_wanted, __ATOMIC_RELAXED);
    int n = 0;
    for (; wanted; wanted &= wanted - 1)
        n += pgasi_hooks.poll[__builtin_ctz(wanted)]();
    return n;
}
