/* One replica of a group is killed while the clients work: the program of t/spmd/group_kill.t, no
 * test by itself.
 *   group_victim RANK WAY      rank 0 is the client, all other ranks are replicas
 * The others continue if PGAS_ON_PEER_DEATH says so. The client forms the chain anew, and all words
 * that it has written are in all replicas that are left. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/group.h"
#include "pgas/pgas.h"

#define DEADLY  2000 /* pieces that the victim's region has when it dies */
#define N_WORDS 8000

static pgas_group_t *group;
static volatile uint64_t *words; /* of this rank, if it is a replica */

static int expect(pgas_status_t status, pgas_status_t want, const char *what)
{
    if (status == want)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

/* Writes i + 1 to word i, all of them, without waiting for each. Operations under way end with
 * PGAS_ERR_PEER; forming the chain anew completes them. */
static int write_all(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_status_t status = PGAS_OK;
    int n_bad = 0, n_reforms = 0;
    for (uint64_t i = 0; i < N_WORDS; i += status == PGAS_OK) {
        uint64_t word = i + 1;
        pgas_group_op_t op = PGAS_GWRITE(i * sizeof word, &word, sizeof word);
        status = pgas_group_submit(group, &op, 1, &sync);
        if (status == PGAS_OK)
            continue;
        n_bad += expect(status, PGAS_ERR_PEER, "submit");
        n_bad += expect(pgas_group_reform(group, -1), PGAS_OK, "reform");
        if (n_bad || ++n_reforms > 1)
            return n_bad + 1;
    }
    status = pgas_sync_wait(&sync, -1);
    if (status != PGAS_OK)
        n_bad += expect(status, PGAS_ERR_PEER, "the wait for the writes");
    pgas_group_info_t info = { .size = sizeof info, .dead = -1 };
    while (n_reforms == 0 && info.dead < 0 && pgas_group_info(group, &info) == PGAS_OK)
        pgas_progress();
    if (n_reforms == 0)
        n_bad += expect(pgas_group_reform(group, -1), PGAS_OK, "reform behind the writes");
    return n_bad + expect(pgas_group_flush(group, 0, 8), PGAS_OK, "flush");
}

/* The last word is written when all others have been. */
static int be_replica(bool dies)
{
    while (dies && words[DEADLY] == 0)
        pgas_progress();
    if (dies)
        raise(SIGKILL);
    while (words[N_WORDS] == 0)
        pgas_progress();
    for (uint64_t i = 0; i < N_WORDS; i++)
        if (words[i] != i + 1) {
            printf("rank %d: word %d is %d\n", pgas_rank(), (int)i, (int)words[i]);
            return 1;
        }
    return 0;
}

static int be_client(void)
{
    uint64_t one = 1;
    int n_bad = write_all();
    pgas_group_info_t info = { .size = sizeof info };
    n_bad += expect(pgas_group_write(group, N_WORDS * sizeof one, &one, sizeof one), PGAS_OK,
                    "the last word");
    n_bad += expect(pgas_group_info(group, &info), PGAS_OK, "info");
    if (info.n_replicas == pgas_n_ranks() - 2 && info.dead == -1)
        return n_bad;
    printf("the group has %d replicas\n", info.n_replicas);
    return n_bad + 1;
}

int main(int argc, char **argv)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    pgas_group_info_t info = { .size = sizeof info };
    struct timespec begun, ended;
    if (argc != 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    bool dies = pgas_rank() == atoi(argv[1]);
    opts.way = strcmp(argv[2], "chain") == 0   ? PGAS_GROUP_CHAIN
               : strcmp(argv[2], "verbs") == 0 ? PGAS_GROUP_VERBS
                                               : PGAS_GROUP_CALLS;
    if (pgas_group_create(NULL, &opts, &group) != PGAS_OK ||
        pgas_group_info(group, &info) != PGAS_OK)
        return 4;
    words = info.region;
    pgas_barrier(NULL);
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int n_bad = pgas_rank() == 0 ? be_client() : be_replica(dies);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    n_bad += expect(pgas_group_destroy(group), PGAS_OK, "destroy");
    n_bad += expect(pgas_finalize(), PGAS_ERR_PEER, "finalize");
    printf("%s %d after %d s\n", n_bad == 0 ? "survived" : "failed", atoi(argv[1]),
           (int)(ended.tv_sec - begun.tv_sec));
    fflush(stdout);
    _exit(n_bad);
}
