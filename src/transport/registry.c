/* Transports by name. A backend gives a table with holes. They are filled with refusals once, here,
 * so that no caller tests an entry for NULL. */
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

static pgasi_tp_ops_t tables[PGASI_ARRAY_LENGTH(transports)];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

/* every entry of the table is a pointer to a function */
typedef void (*entry_t)(void);
#define N_ENTRIES (sizeof(pgasi_tp_ops_t) / sizeof(entry_t))
PGASI_STATIC_ASSERT(sizeof(pgasi_tp_ops_t) % sizeof(entry_t) == 0,
                    "the table holds function pointers only");

static void fill_tables(void)
{
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(transports); i++) {
        entry_t entries[N_ENTRIES], refusals[N_ENTRIES];
        memcpy(entries, transports[i].ops(), sizeof entries);
        memcpy(refusals, &pgasi_tp_refusals, sizeof refusals);
        for (size_t j = 0; j < N_ENTRIES; j++)
            entries[j] = entries[j] != NULL ? entries[j] : refusals[j];
        memcpy(&tables[i], entries, sizeof entries);
    }
}

const pgasi_tp_ops_t *pgasi_tp_find(const char *name)
{
    pthread_once(&filled, fill_tables);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(transports); i++)
        if (strcmp(name, transports[i].name) == 0)
            return &tables[i];
    return NULL;
}
