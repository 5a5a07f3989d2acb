/* Transports by name. A backend gives a table with holes. The first request for a transport fills
 * them with refusals, so that no caller tests an entry for NULL. */
#include "transport/transport.h"

#include <pthread.h>
#include <string.h>
#include "base/checks.h"

static const struct {
    const char *name;
    const pgasi_tp_ops_t *(*ops)(void);
} transports[] = {
    { "ucx", pgasi_ucx_ops },
    { "loopback", pgasi_loopback_ops },
    { "verbs", pgasi_verbs_ops },
};

#define N_TRANSPORTS PGASI_ARRAY_LENGTH(transports)

static struct {
    pthread_mutex_t lock;
    bool is_filled[N_TRANSPORTS];
    pgasi_tp_ops_t of[N_TRANSPORTS];
} tables = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* every entry of the table is a pointer to a function */
typedef void (*entry_t)(void);
#define N_ENTRIES (sizeof(pgasi_tp_ops_t) / sizeof(entry_t))
PGASI_STATIC_ASSERT(sizeof(pgasi_tp_ops_t) % sizeof(entry_t) == 0,
                    "the table holds function pointers only");

static void fill(size_t i)
{
    entry_t entries[N_ENTRIES], refusals[N_ENTRIES];
    memcpy(entries, transports[i].ops(), sizeof entries);
    memcpy(refusals, &pgasi_tp_refusals, sizeof refusals);
    for (size_t j = 0; j < N_ENTRIES; j++)
        entries[j] = entries[j] != NULL ? entries[j] : refusals[j];
    memcpy(&tables.of[i], entries, sizeof entries);
}

/* @return N_TRANSPORTS: no such transport */
static size_t number_of(const char *name)
{
    size_t i = 0;
    while (i < N_TRANSPORTS && strcmp(name, transports[i].name) != 0)
        i++;
    return i;
}

bool pgasi_tp_exists(const char *name)
{
    return number_of(name) < N_TRANSPORTS;
}

const pgasi_tp_ops_t *pgasi_tp_find(const char *name)
{
    size_t i = number_of(name);
    if (i == N_TRANSPORTS)
        return NULL;
    pthread_mutex_lock(&tables.lock);
    if (!tables.is_filled[i])
        fill(i);
    tables.is_filled[i] = true;
    pthread_mutex_unlock(&tables.lock);
    return &tables.of[i];
}
