/* Functions that handle the death of a rank. */
#include "base/deaths.h"

#include <stdlib.h>
#include "base/spin.h"

#define N_MAX   8
#define N_SPINS 64

static struct {
    int lock; /* held while a function is added */
    int n;
    pgasi_death_fn_t fn[N_MAX];
} deaths;

void pgasi_deaths_add(pgasi_death_fn_t fn)
{
    pgasi_spin_lock(&deaths.lock, N_SPINS);
    int i = 0;
    while (i < deaths.n && deaths.fn[i] != fn)
        i++;
    if (i == N_MAX)
        abort();
    if (i == deaths.n) {
        deaths.fn[i] = fn;
        __atomic_store_n(&deaths.n, i + 1, __ATOMIC_RELEASE);
    }
    pgasi_spin_unlock(&deaths.lock);
}

void pgasi_deaths_report(int rank)
{
    int n = __atomic_load_n(&deaths.n, __ATOMIC_ACQUIRE);
    for (int i = 0; i < n; i++)
        deaths.fn[i](rank);
}
