/* One rank of this job is killed while calls with archives are read: the program of
 * t/spmd/call_args_kill.t, no test by itself.
 *   call_args_victim RANK HOW   HOW is fetch: it dies while it reads the others' memory; answer: in
 *                               a handler, before it replies; caller: while others reply to it
 * The others continue if PGAS_ON_PEER_DEATH says so. They report the results of their calls, and
 * whether they have all memory back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/call_archive.h"
#include "pgas/pgas.h"

#define BYTES    ((size_t)1200000) /* read in several steps */
#define N_FLIGHT 6
#define DEADLY   20 /* events of the victim until it dies */

static pgas_handler_t take, give, hang;
static int victim, n_seen;
static uint64_t n_replied, n_done;
static bool kills_in_handler;
static char memory[BYTES];

static int expect(pgas_status_t status, pgas_status_t want, const char *what)
{
    if (status == want)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

static void put_all(pgas_archive_t *out)
{
    pgas_rma_object_t *object;
    pgas_archive_put(out, &victim, sizeof victim);
    pgas_archive_put_vector(out, memory, BYTES, 1);
    if (pgas_rma_object_create(BYTES / 2, &object) == PGAS_OK) {
        pgas_archive_put_object(out, object, BYTES / 2);
        pgas_rma_object_destroy(object);
    }
}

static void on_take(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    if (kills_in_handler && ++n_seen == DEADLY)
        raise(SIGKILL);
}

static void count_done(void *arg)
{
    __atomic_fetch_add((uint64_t *)arg, 1, __ATOMIC_RELEASE);
}

static void on_give(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    on_take(args, bytes, source, context);
    put_all(&out);
    if (pgas_reply_args(&out, count_done, &n_done) == PGAS_OK)
        __atomic_fetch_add(&n_replied, 1, __ATOMIC_RELAXED);
    pgas_archive_free(&out);
}

/* Blocking: its caller learns of the death. */
static void on_hang(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_sync_t never = PGAS_SYNC_INIT;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    never.count = 1;
    pgas_sync_wait(&never, -1);
}

/* ---- the three ways ---- */

static int fetch(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    pgas_sync_t local[N_FLIGHT], done[N_FLIGHT];
    pgas_status_t status = PGAS_OK, locally = PGAS_OK;
    int n_bad = 0;
    memset(local, 0, sizeof local);
    memset(done, 0, sizeof done);
    for (int n = 0; status == PGAS_OK; n++) {
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &done[n % N_FLIGHT];
        opts.local = &local[n % N_FLIGHT];
        put_all(&out);
        status = pgas_call_args(pgas_on_rank(victim), take, &out, &opts);
        if (status == PGAS_OK && n >= N_FLIGHT - 1)
            status = pgas_sync_wait(&done[(n + 1) % N_FLIGHT], -1);
    }
    n_bad += expect(status, PGAS_ERR_PEER, "a call");
    for (int i = 0; i < N_FLIGHT; i++) {
        locally = pgas_sync_wait(&local[i], -1);
        n_bad += locally != PGAS_OK && expect(locally, PGAS_ERR_PEER, "local completion");
        status = pgas_sync_wait(&done[i], -1);
        n_bad += status != PGAS_OK && expect(status, PGAS_ERR_PEER, "completion");
    }
    pgas_archive_free(&out);
    return n_bad;
}

static int answer(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK) {
        put_all(&out);
        status = pgas_call_args_return(pgas_on_rank(victim), give, &out, &in);
        pgas_archive_free(&in);
    }
    pgas_archive_free(&out);
    return expect(status, PGAS_ERR_PEER, "a call with a reply");
}

static void ask_until_death(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in[N_FLIGHT];
    pgas_sync_t done[N_FLIGHT];
    memset(done, 0, sizeof done);
    for (int n = 0;; n++) {
        int i = n % N_FLIGHT;
        if (n >= N_FLIGHT) {
            pgas_sync_wait(&done[i], -1);
            pgas_archive_free(&in[i]);
        }
        if (n == DEADLY)
            raise(SIGKILL);
        put_all(&out);
        pgas_call_args_return_nb(pgas_on_rank((victim + 1 + n % 2) % pgas_n_ranks()), give, &out,
                                 NULL, &in[i], &done[i]);
    }
}

static int caller(void)
{
    pgas_sync_t dead = PGAS_SYNC_INIT;
    if (pgas_rank() == victim)
        ask_until_death();
    pgas_status_t status = pgas_call(victim, hang, NULL, 0, &dead);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&dead, -1);
    /* the guard of the script ends this loop if a reply never ends */
    while (__atomic_load_n(&n_done, __ATOMIC_ACQUIRE) != n_replied)
        pgas_progress();
    return expect(status, PGAS_ERR_PEER, "a call that hangs");
}

/* Reads of a dead rank's memory end soon, not at once. */
static int has_all_back(void)
{
    pgas_rma_info_t info = { .size = sizeof info };
    do {
        pgas_progress();
        if (pgas_rma_info(&info) != PGAS_OK)
            return 1;
    } while (info.n_objects);
    return 0;
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    struct timespec begun, ended;
    blocks.blocks = true;
    pgas_handler_register("t.take", on_take, NULL, NULL, &take);
    pgas_handler_register("t.give", on_give, NULL, NULL, &give);
    pgas_handler_register("t.hang", on_hang, NULL, &blocks, &hang);
    if (argc != 3 || pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    victim = atoi(argv[1]);
    bool dies = pgas_rank() == victim;
    kills_in_handler = dies && strcmp(argv[2], "caller") != 0;
    pgas_barrier(NULL);
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    while (kills_in_handler || victim >= pgas_n_ranks())
        pgas_progress();
    int n_bad = 0;
    if (strcmp(argv[2], "fetch") == 0)
        n_bad = fetch();
    else
        n_bad = strcmp(argv[2], "answer") == 0 ? answer() : caller();
    n_bad += has_all_back();
    clock_gettime(CLOCK_MONOTONIC, &ended);
    n_bad += expect(pgas_finalize(), PGAS_ERR_PEER, "finalize");
    printf("%s %d after %d s\n", n_bad == 0 ? "survived" : "failed", pgas_rank(),
           (int)(ended.tv_sec - begun.tv_sec));
    fflush(stdout);
    _exit(n_bad);
}
