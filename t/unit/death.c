/* what: When a rank dies and the others continue (PGAS_ON_PEER_DEATH=continue), each call that it
 *       has not answered lowers its counter once, with PGAS_ERR_PEER. Calls to it are refused at
 *       once on every path. No thread waits for its full ring. Each death is reported once.
 * source: pgas/call.h */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "call/sync.h"
#include "call/token.h"
#include "mem/thread.h"
#include "t/handlers.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define RANKS 10

static pgas_handler_t nop, die, pour;
static int log_file;
static pgas_status_t poured;

/* Runs in a thread that waits: there is no service thread. */
static void on_die(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes;
    (void)source;
    (void)context;
    pgasi_peer_died(*(const int *)args);
}

/* Sends to a rank that is full until the handler's queue is, too. */
static void on_pour(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t data[8] = { 0 };
    (void)bytes;
    (void)source;
    (void)context;
    poured = PGAS_OK;
    while (poured == PGAS_OK)
        poured = pgas_call(*(const int *)args, nop, data, sizeof data, NULL);
}

/* As if the rank had answered. */
static void answer(int rank, uint32_t token)
{
    uint64_t words[2] = { pgasi_desc_header(PGASI_DESC_ACK, 8, 0), token };
    pgasi_recv_lock();
    pgasi_self.in_handler++;
    pgasi_descs_run((const char *)words, pgasi_desc_room(words[0]), rank);
    pgasi_self.in_handler--;
    pgasi_recv_unlock();
}

/* The token of the latest call to a rank that names the counter. */
static uint32_t token_of(const pgas_sync_t *sync, int rank)
{
    uint32_t token = 0;
    for (uint32_t i = 0; i < pgasi_tokens.n_ever; i++) {
        const pgasi_token_entry_t *e = &pgasi_tokens.entries[i];
        if (e->token && e->sync == sync && e->rank == rank)
            token = e->token;
    }
    return token;
}

static void fill_ring(int rank)
{
    uint64_t data[8] = { 0 };
    while (pgas_call_to(pgas_on_rank(rank), nop, data, sizeof data,
                        PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) == PGAS_OK) {
    }
}

/* The rank dies when a thread next waits. */
static void dies_in_a_wait(int rank)
{
    pgas_call(0, die, &rank, sizeof rank, NULL);
}

static void completions_come(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT, other = PGAS_SYNC_INIT, later = PGAS_SYNC_INIT;
    int n_bad = pgas_call(0, nop, NULL, 0, &sync) != PGAS_OK ||
                pgas_call(2, nop, NULL, 0, &sync) != PGAS_OK;
    for (int i = 0; i < 3; i++)
        n_bad += pgas_call(1, nop, NULL, 0, &sync) != PGAS_OK;
    n_bad += pgas_call(2, nop, NULL, 0, &other) != PGAS_OK;
    uint32_t first = token_of(&sync, 1);
    answer(1, first);
    ok(n_bad == 0 && sync.count == 4 && first, "five calls, one is answered");
    uint32_t dead = token_of(&sync, 1);
    pgasi_peer_died(1);
    ok(pgas_sync_wait(&sync, 100000) == PGAS_ERR_TIMEOUT && sync.count == 1 && other.count == 1 &&
           !token_of(&sync, 1),
       "the dead rank's outstanding calls end, and no others");
    answer(1, first);
    answer(1, dead);
    is_int((int)sync.count, 1, "an answer that it sent before does not count again");
    answer(2, token_of(&sync, 2));
    ok(pgas_sync_wait(&sync, -1) == PGAS_ERR_PEER, "and the counter says PEER");
    n_bad = pgas_call(0, nop, NULL, 0, &later) != PGAS_OK ||
            pgas_call(2, nop, NULL, 0, &later) != PGAS_OK ||
            pgas_sync_wait(&later, 0) != PGAS_ERR_TIMEOUT;
    dead = token_of(&later, 2);
    pgasi_hooks.sync_forget(&later); /* while a call is outstanding */
    n_bad += token_of(&later, 2) != 0;
    answer(2, dead);
    pgasi_peer_died(2);
    n_bad += pgas_sync_wait(&later, 100000) != PGAS_ERR_TIMEOUT || later.count < 1 || later.error;
    is_int(n_bad, 0, "neither answers nor deaths lower a counter that has been given up");
}

static void refused_at_once(int rank)
{
    uint64_t x = 0, reply;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_agg_t *agg;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    for (int i = 0; i < 3; i++)
        n_bad += pgas_call(rank, nop, &x, 8, NULL) != PGAS_OK ||
                 pgas_call(0, nop, &x, 8, NULL) != PGAS_OK;
    n_bad += pgas_agg_call(agg, rank, nop, &x, 8) != PGAS_OK ||
             pgas_agg_flush(agg, rank, NULL) != PGAS_OK;
    pgasi_peer_died(rank);
    n_bad += pgas_call(rank, nop, &x, 8, NULL) != PGAS_ERR_PEER;
    is_int(n_bad, 0, "after the death the next inline call is refused");
    n_bad = pgas_call_to(pgas_on_rank(rank), nop, &x, 8, PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) !=
            PGAS_ERR_PEER;
    n_bad += pgas_call(rank, nop, &x, 4, NULL) != PGAS_ERR_PEER ||
             pgas_call_to(pgas_on_rank(rank), nop, &x, 4,
                          PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) != PGAS_ERR_PEER;
    n_bad +=
        pgas_call(rank, nop, &x, 4, &sync) != PGAS_ERR_PEER || sync.count != 0 || sync.error != 0;
    n_bad += pgas_call_return(rank, nop, &x, 8, &reply, 8) != PGAS_ERR_PEER;
    n_bad +=
        pgas_call_return_nb(rank, nop, &x, 8, &reply, 8, &sync) != PGAS_ERR_PEER || sync.count != 0;
    n_bad += pgas_agg_call(agg, rank, nop, &x, 8) != PGAS_ERR_PEER;
    n_bad += pgas_agg_flush(agg, PGAS_ALL, NULL) != PGAS_OK || pgas_agg_destroy(agg) != PGAS_OK;
    is_int(n_bad, 0, "calls of other kinds as well, which leave the counter as it is");
    n_bad = pgas_call(0, nop, &x, 8, &sync) != PGAS_OK || pgas_sync_wait(&sync, -1) != PGAS_OK;
    n_bad += pgas_call(0, nop, &x, 8, NULL) != PGAS_OK;
    is_int(n_bad, 0, "while others take calls");
}

static void full_ring(int rank)
{
    uint64_t data[8] = { 0 };
    pgas_agg_t *agg;
    pgas_status_t status = PGAS_OK;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    fill_ring(rank);
    dies_in_a_wait(rank);
    while (status == PGAS_OK)
        status = pgas_agg_call(agg, rank, nop, data, sizeof data);
    ok(n_bad == 0 && status == PGAS_ERR_PEER,
       "a thread that waits for room gets the death's status");
    ok(pgas_agg_flush(agg, PGAS_ALL, NULL) == PGAS_OK && pgas_agg_destroy(agg) == PGAS_OK,
       "and what waited is dropped");
}

static void full_ring_and_a_reply(int rank)
{
    uint64_t data[8] = { 0 }, reply;
    pgas_sync_t sync = PGAS_SYNC_INIT, other = PGAS_SYNC_INIT;
    int n_bad = 0, n_same = 0;
    fill_ring(rank);
    dies_in_a_wait(rank);
    pgas_status_t status =
        pgas_call_return_nb(rank, nop, data, sizeof data, &reply, sizeof reply, &sync);
    n_bad += status == PGAS_OK ? sync.count != 0 || pgas_sync_wait(&sync, -1) != PGAS_ERR_PEER
                               : status != PGAS_ERR_PEER || sync.count != 0 || sync.error != 0;
    is_int(n_bad, 0, "a call that waits for room ends once: by its status or by its counter");
    uint32_t token[3];
    for (int i = 0; i < 3; i++) {
        pgasi_token_for_t what = { &other, 9, nop, NULL, 0 };
        n_same += pgasi_token_take(&what, &token[i]) != PGAS_OK;
        for (int k = 0; k < i; k++)
            n_same += token[k] == token[i];
    }
    for (int i = 0; i < 3; i++)
        n_same += !pgasi_token_give(token[i]);
    is_int(n_same, 0, "later calls have tokens of their own");
}

/* As if another thread had seen the death, and ended the rank's outstanding completions, before the
 * waiting thread polls. */
static int settled_rank;

static void dies_and_is_settled(void)
{
    pgasi_hooks.look_around = NULL;
    pgasi_peer_died(settled_rank);
    pgas_progress();
}

static void settled_before_it_is_seen(int rank, bool reply_wanted)
{
    uint64_t data[8] = { 0 }, reply;
    void (*former)(void) = pgasi_hooks.look_around;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    fill_ring(rank);
    settled_rank = rank;
    pgasi_hooks.look_around = dies_and_is_settled;
    if (reply_wanted)
        n_bad += pgas_call_return_nb(rank, nop, data, sizeof data, &reply, sizeof reply, &sync) !=
                 PGAS_OK;
    else
        n_bad += pgas_call(rank, nop, data, sizeof data, &sync) != PGAS_OK;
    ok(n_bad == 0 && sync.count == 0 && pgas_sync_wait(&sync, -1) == PGAS_ERR_PEER,
       "a call %swhose counter completed while it waited for room is not refused as well",
       reply_wanted ? "with a reply " : "");
    pgasi_hooks.look_around = former;
}

static void handlers_queue(int rank)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = pgas_call(0, pour, &rank, sizeof rank, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || poured != PGAS_ERR_AGAIN;
    pgasi_peer_died(rank);
    while (pgasi_sendq_held(pgasi_ctxs[PGASI_CTX_SERVICE]->sendq))
        pgas_progress();
    is_int(n_bad, 0, "what handlers queued for it is dropped");
    n_bad = pgas_call(0, pour, &rank, sizeof rank, NULL) != PGAS_OK;
    pgas_progress();
    ok(n_bad == 0 && poured == PGAS_ERR_PEER, "and they get PEER");
}

/* For a counter in the heap, which no rank lowers directly in such a job, and whose function makes
 * a call. */
static pgas_sync_t onward;
static int n_zero;

static void on_zero(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    n_zero++;
    pgas_call(0, *(const pgas_handler_t *)arg, NULL, 0, &onward);
    pgas_sync_done(&onward, 1);
}

static void names_and_functions(int rank)
{
    pgas_gptr_t at = PGAS_NULL;
    pgas_sync_info_t e = { .size = sizeof e };
    int n_bad = pgas_alloc(sizeof(pgas_sync_t), &at) != PGAS_OK;
    pgas_sync_t *sync = pgas_gptr_local(at, sizeof *sync), replied = PGAS_SYNC_INIT;
    pgas_sync_t spawned = PGAS_SYNC_INIT;
    pgas_sync_t with_fn = PGAS_SYNC_INIT_FN(on_zero, &nop);
    uint64_t reply;
    *sync = (pgas_sync_t)PGAS_SYNC_INIT;
    pgas_sync_add(&onward, 1);
    n_bad += pgas_call(rank, pour, NULL, 0, sync) != PGAS_OK ||
             pgas_call(rank, pour, NULL, 0, sync) != PGAS_OK;
    n_bad += pgas_call(0, nop, NULL, 0, sync) != PGAS_OK;
    n_bad += pgas_call(rank, nop, NULL, 0, &with_fn) != PGAS_OK ||
             pgas_call(rank, nop, NULL, 0, &with_fn) != PGAS_OK;
    n_bad += pgas_call_return_nb(rank, die, NULL, 0, &reply, sizeof reply, &replied) != PGAS_OK;
    n_bad += pgas_call_to(pgas_on_rank(rank), nop, NULL, 0,
                          PGAS_CALL_OPTS(.sync = &spawned, .spawn = true)) != PGAS_OK;
    pgasi_peer_died(rank);
    n_bad +=
        pgas_sync_wait(sync, -1) != PGAS_ERR_PEER || pgas_sync_wait(&replied, -1) != PGAS_ERR_PEER;
    n_bad += pgas_sync_wait(&spawned, -1) != PGAS_ERR_PEER ||
             pgas_sync_info(&spawned, &e) != PGAS_OK || e.handler != nop;
    n_bad += pgas_sync_info(sync, &e) != PGAS_OK || e.status != PGAS_ERR_PEER || e.rank != rank ||
             e.handler != pour || e.operation != PGAS_OPERATION_CALL;
    n_bad += pgas_sync_info(&replied, &e) != PGAS_OK || e.status != PGAS_ERR_PEER ||
             e.rank != rank || e.handler != die;
    is_int(n_bad, 0, "the counter names the dead rank and the handler that it was to run");
    ok(pgas_sync_wait(&onward, -1) == PGAS_OK && n_zero == 1 && with_fn.count == 0,
       "its function runs once, and may call");
}

/* A handler cannot wait for a record, and a thread that must not wait does not. */
static void records_are_limited(void)
{
    static uint32_t token[PGASI_TOKENS_MAX];
    pgas_sync_t holder = PGAS_SYNC_INIT, sync = PGAS_SYNC_INIT;
    pgasi_token_for_t what = { &holder, 0, nop, NULL, 0 };
    uint32_t n = 0;
    while (n < PGASI_TOKENS_MAX && pgasi_token_take(&what, &token[n]) == PGAS_OK)
        n++;
    ok(pgas_call_to(pgas_on_rank(0), nop, NULL, 0,
                    PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN, .sync = &sync)) == PGAS_ERR_AGAIN &&
           sync.count == 0,
       "without a free record a call is refused, and its counter is left alone");
    while (n > 0)
        pgasi_token_give(token[--n]);
    ok(pgas_call(0, nop, NULL, 0, &sync) == PGAS_OK && pgas_sync_wait(&sync, -1) == PGAS_OK,
       "then it is accepted");
}

static void reports(void)
{
    static char text[65536];
    int n_bad = 0;
    for (int r = 1; r < RANKS; r++)
        pgasi_peer_died(r);
    n_bad += pread(log_file, text, sizeof text - 1, 0) <= 0;
    for (int r = 1; r < RANKS; r++) {
        char words[32];
        snprintf(words, sizeof words, "rank %d died\n", r);
        const char *at = strstr(text, words);
        n_bad += !at || strstr(at + 1, words);
    }
    is_int(n_bad, 0, "every death is reported once");
}

int main(void)
{
    plan(23);
    log_file = memfd_create("log", MFD_CLOEXEC);
    int stderr_fd = pgasi_log_set_fd(log_file);
    pgas_handler_register("t.nop", on_nothing, NULL, NULL, &nop);
    pgas_handler_register("t.die", on_die, NULL, NULL, &die);
    pgas_handler_register("t.pour", on_pour, NULL, NULL, &pour);
    ok(lone_init(RANKS, "HEAP_SIZE=64K SERVICE_THREADS=0 ON_PEER_DEATH=continue CHUNK_SIZE=4K "
                        "CHUNKS_MAX=2 CALL_MAX=256 "
                        "BACKLOG_LIMIT=8K") == PGAS_OK,
       "init");
    records_are_limited();
    completions_come();
    refused_at_once(3);
    full_ring(4);
    full_ring_and_a_reply(5);
    handlers_queue(6);
    settled_before_it_is_seen(7, false);
    settled_before_it_is_seen(8, true);
    names_and_functions(9);
    reports();
    /* bytes that the dead rank will never take */
    lone_consumed = pgasi_sendqs_sent() - pgasi_recvq_consumed();
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    pgasi_log_set_fd(stderr_fd);
    return done();
}
