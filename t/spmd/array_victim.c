/* One rank of this job is killed while all use an array: the program of t/spmd/array_kill.t, no
 * test by itself.
 *   array_victim RANK HOW      HOW is traffic: in the middle of accesses; pin: with a chunk pinned
 *                              that the others want; lock: with a lock that the others wait for
 * The others continue if PGAS_ON_PEER_DEATH says so, and report the results of their calls. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/array.h"
#include "pgas/pgas.h"

#define CHUNK  16
#define DEADLY 3000 /* accesses of a rank until it dies */

static pgas_array_t *array;
static uint64_t n_elems, state;

static uint64_t draw(uint64_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % n;
}

static int expect(pgas_status_t status, pgas_status_t want, const char *what)
{
    if (status == want)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

static pgas_status_t one_access(void)
{
    uint64_t i = draw(n_elems), value = 0, one = 1;
    pgas_array_pin_t pin;
    pgas_status_t status;
    switch (draw(6)) {
    case 0:
        return pgas_array_get_u64(array, i, &value);
    case 1:
        return pgas_array_set_u64(array, i, 1);
    case 2:
        return pgas_array_apply_u64(array, i, PGAS_ADD, 1);
    case 3:
        return pgas_array_fetch_op(array, i, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &value);
    case 4:
        status = pgas_array_pin(array, i, (pgas_array_mode_t)draw(2), 0, &pin);
        return status == PGAS_OK ? pgas_array_unpin(&pin) : status;
    default:
        status = pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1);
        return status == PGAS_OK ? pgas_array_unlock(array, i) : status;
    }
}

/* Until the library says that a rank has died. */
static int traffic(bool dies)
{
    pgas_status_t status = PGAS_OK;
    for (int n = 0; status == PGAS_OK; n++) {
        if (dies && n == DEADLY)
            raise(SIGKILL);
        status = one_access();
    }
    return expect(status, PGAS_ERR_PEER, "an access");
}

/* The victim keeps the chunks or locks that the others want. It dies when the first has asked, or
 * soon after. In any case they wait for it, before or after its death. */
static int keeps(bool dies, bool locks)
{
    uint64_t i = n_elems / 2, value;
    pgas_array_pin_t pin;
    int n_bad = 0;
    if (dies && locks)
        n_bad +=
            expect(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1), PGAS_OK, "the victim's lock");
    if (dies && !locks)
        n_bad += expect(pgas_array_pin(array, i, PGAS_ARRAY_WRITE, 0, &pin), PGAS_OK,
                        "the victim's pin");
    pgas_barrier(NULL);
    for (int n = 0; dies && n < DEADLY; n++)
        pgas_progress();
    if (dies)
        raise(SIGKILL);
    if (locks)
        return n_bad +
               expect(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1), PGAS_ERR_PEER, "a lock");
    pgas_sync_t here = PGAS_SYNC_INIT;
    if (pgas_array_prefetch(array, i, 1, PGAS_ARRAY_READ, 0, &here) == PGAS_OK && here.count > 0)
        n_bad += expect(pgas_sync_wait(&here, -1), PGAS_ERR_PEER, "a prefetch of a pinned chunk");
    pgas_status_t status = pgas_array_get_u64(array, i, &value);
    /* until the home notices */
    bool may_be_at_hand = pgas_node() == pgas_node_of(pgas_array_home(array, i));
    while (status == PGAS_OK && may_be_at_hand)
        status = pgas_array_get_u64(array, draw(n_elems), &value);
    return n_bad + expect(status, PGAS_ERR_PEER, "an access to a chunk that was pinned");
}

/* The array can only be ended, and the library too. */
static int after(void)
{
    pgas_status_t status = pgas_array_destroy(array);
    int n_bad = status != PGAS_OK && expect(status, PGAS_ERR_PEER, "destroy");
    pgas_array_t *next = NULL;
    n_bad += expect(pgas_array_create(NULL, 8, 100, NULL, &next), PGAS_ERR_PEER, "create");
    return n_bad + expect(pgas_finalize(), PGAS_ERR_PEER, "finalize");
}

int main(int argc, char **argv)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    struct timespec begun, ended;
    if (argc != 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    bool dies = pgas_rank() == atoi(argv[1]);
    n_elems = (uint64_t)pgas_n_ranks() * CHUNK * 8;
    opts.chunk_elems = CHUNK;
    opts.cache_bytes = 4 * CHUNK * 8;
    state = (uint64_t)pgas_rank() + 1;
    if (pgas_array_create(NULL, 8, n_elems, &opts, &array) != PGAS_OK)
        return 4;
    for (int n = 0; n < 100; n++)
        if (expect(one_access(), PGAS_OK, "an access of all") > 0)
            return 5;
    pgas_barrier(NULL);
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int n_bad =
        strcmp(argv[2], "traffic") == 0 ? traffic(dies) : keeps(dies, strcmp(argv[2], "lock") == 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    n_bad += after();
    printf("%s %d after %d s\n", n_bad == 0 ? "survived" : "failed", pgas_rank(),
           (int)(ended.tv_sec - begun.tv_sec));
    fflush(stdout);
    _exit(n_bad);
}
