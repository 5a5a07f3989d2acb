/* Registered memory by owner: how much each part of the program and of the library has. */
#include "mem/regmem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/checks.h"

static struct {
    pthread_mutex_t lock;
    pgas_reg_owner_t of[PGASI_REG_OWNERS_MAX];
    int n;
} owners = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pgas_reg_owner_t *find_owner(const char *name)
{
    for (int i = 0; i < owners.n; i++)
        if (strncmp(owners.of[i].name, name, sizeof owners.of[i].name - 1) == 0)
            return &owners.of[i];
    if (owners.n == PGASI_REG_OWNERS_MAX)
        return &owners.of[owners.n - 1];
    pgas_reg_owner_t *owner = &owners.of[owners.n++];
    memset(owner, 0, sizeof *owner);
    snprintf(owner->name, sizeof owner->name, "%s",
             owners.n == PGASI_REG_OWNERS_MAX ? "others" : name);
    return owner;
}

pgas_reg_owner_t *pgasi_reg_owner_enter(const char *name, size_t max_bytes)
{
    pthread_mutex_lock(&owners.lock);
    pgas_reg_owner_t *owner = find_owner(name);
    owner->max_bytes += max_bytes;
    pthread_mutex_unlock(&owners.lock);
    return owner;
}

void pgasi_reg_owner_leave(pgas_reg_owner_t *owner, size_t max_bytes)
{
    pthread_mutex_lock(&owners.lock);
    owner->max_bytes -= max_bytes;
    pthread_mutex_unlock(&owners.lock);
}

void pgasi_reg_owner_count(pgas_reg_owner_t *owner, int64_t change)
{
    pthread_mutex_lock(&owners.lock);
    owner->bytes += (uint64_t)change;
    owner->high_bytes = PGASI_MAX(owner->high_bytes, owner->bytes);
    pthread_mutex_unlock(&owners.lock);
}

int pgasi_regmem_owners(pgas_reg_owner_t *owners_p, int n)
{
    pthread_mutex_lock(&owners.lock);
    int have = owners.n;
    memcpy(owners_p, owners.of, (size_t)PGASI_MIN(n, have) * sizeof *owners_p);
    pthread_mutex_unlock(&owners.lock);
    return have;
}

void pgasi_reg_owners_stop(void)
{
    owners.n = 0;
}
