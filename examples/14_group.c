/* 14_group: memory that several ranks hold, changed by operations that run along the chain of them.
 *
 * The first rank is the client, the others are replicas. Under a lock, the client appends an entry
 * to a log on all replicas, and applies it to a table. Then it finds a replica whose lock another
 * client holds. Where the network card has WAIT and ENABLE, no replica's CPU takes part; they wait
 * in a barrier here. With one rank, that rank is the client and the only replica.
 *
 *   mpirun -n 4 build/examples/14_group */
#include <pgas/group.h>
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

/* Offsets in the region of every replica. */
enum { LOCK = 0, LOG = 4096, TABLE = 8192 };

#define ME      7u /* the lock's values: 0, or the holder */
#define ANOTHER 8u

static const char entry[16] = "balance = 2000";
static pgas_group_t *group;

static void must(pgas_status_t status, const char *what)
{
    if (status == PGAS_OK)
        return;
    fprintf(stderr, "14_group: %s\n", what);
    pgas_abort(1, pgas_status_text(status));
}

/* The log entry, a read behind it, and a copy from the log to the table: one batch. The operations
 * run in this order on each replica. */
static void append_and_apply(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_group_op_t batch[] = { PGAS_GWRITE(LOG, entry, sizeof entry),
                                PGAS_GFLUSH(LOG, sizeof entry),
                                PGAS_GMEMCPY(TABLE, LOG, sizeof entry) };
    must(pgas_group_submit(group, batch, 3, &done), "submit");
    must(pgas_sync_wait(&done, -1), "wait"); /* complete on all replicas */
}

/* Replicas on which the compare-and-swap succeeded, as a map. */
static uint64_t map_of(const uint64_t *old, int n, uint64_t expected)
{
    uint64_t map = 0;
    for (int i = 0; i < n; i++)
        map |= (uint64_t)(old[i] == expected) << i;
    return map;
}

/* Takes the lock on all replicas, or on none. */
static int lock(int n)
{
    uint64_t old[PGAS_GROUP_REPLICAS_MAX];
    must(pgas_group_cas(group, LOCK, 0, ME, ~0ull, old), "lock");
    uint64_t taken = map_of(old, n, 0);
    int n_taken = __builtin_popcountll(taken);
    printf("lock: taken on %d of %d replicas\n", n_taken, n);
    if (n_taken == n)
        return 1;
    if (taken)
        must(pgas_group_cas(group, LOCK, ME, 0, taken, NULL), "undo");
    return 0;
}

static void unlock(void)
{
    must(pgas_group_cas(group, LOCK, ME, 0, ~0ull, NULL), "unlock");
}

/* @return whether all went as it should */
static int client(void)
{
    pgas_group_info_t info = { .size = sizeof info };
    must(pgas_group_info(group, &info), "info");
    int n = info.n_replicas;

    int good = lock(n);
    append_and_apply();
    unlock();

    /* Another client was faster on the last replica. */
    uint64_t last = 1ull << (n - 1);
    must(pgas_group_cas(group, LOCK, 0, ANOTHER, last, NULL), "another client");
    good = !lock(n) && good;
    must(pgas_group_cas(group, LOCK, ANOTHER, 0, last, NULL), "another client");
    good = lock(n) && good;

    must(pgas_group_dump(group, stdout, TABLE, sizeof entry), "dump");
    return good;
}

int main(int argc, char **argv)
{
    pgas_group_info_t info = { .size = sizeof info };
    usage_check(pgas_launcher_rank(), argc, argv, "14_group\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    must(pgas_group_create(NULL, NULL, &group), "create");

    int64_t good = pgas_rank() == 0 ? client() : 1;
    pgas_barrier(NULL);
    must(pgas_group_info(group, &info), "info");
    const char *region = info.region;
    if (region) /* this rank is a replica */
        good = good && memcmp(region + LOG, entry, sizeof entry) == 0 &&
               memcmp(region + TABLE, entry, sizeof entry) == 0 &&
               *(const uint64_t *)(region + LOCK) == ME;
    pgas_allreduce(NULL, &good, &good, 1, PGAS_I64, PGAS_MIN);
    if (pgas_rank() == 0)
        printf("%s\n", good ? "right" : "WRONG");
    must(pgas_group_destroy(group), "destroy");
    return pgas_finalize() == PGAS_OK && good ? 0 : 1;
}
