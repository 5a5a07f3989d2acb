/* pgas_init and pgas_finalize: folders start from the bottom up and stop from the top down.
 *
 * Every stage ends with an agreement of all ranks. So an error on one rank is the same error on
 * all, and each rank stops the stages that it has started. */
#include <pthread.h>

#include "base/log.h"
#include "base/param.h"
#include "bcast/bcast.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "bulk/bulk.h"
#include "call/agg.h"
#include "call/call.h"
#include "call/consumer.h"
#include "call/handler.h"
#include "call/progress.h"
#include "call/service.h"
#include "call/route.h"
#include "call/sync.h"
#include "call/task.h"
#include "init/account.h"
#include "many/many.h"
#include "mem/segment.h"
#include "mem/sync_host.h"
#include "mem/thread.h"
#include "msg/channel_memory.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "object/start.h"
#include "pgas/pgas.h"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_inits;

static pgas_status_t guard(void)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK && (pgasi_self.in_task || (pgasi_boot.funneled && pgasi_self.slot != 0)))
        status = PGAS_ERR_CONTEXT;
    return status;
}

static void sendqs_stop(void)
{
    for (int i = 0; i < pgasi_n_ctxs; i++)
        if (pgasi_ctxs[i])
            pgasi_sendq_destroy(pgasi_ctxs[i]->sendq);
}

static void thread_comes(void)
{
    int ep = pgasi_ep_of_slot(pgasi_self.slot);
    pgasi_self.ep = ep < 0 ? 0 : ep;
    if (pgasi_self.ep) {
        pgasi_ep_set_left(ep, false);
        pgasi_recvq_place(pgasi_self.slot);
    }
}

/* Calls that have arrived for the thread still run. */
static pgas_status_t thread_leaves(void)
{
    int ep = pgasi_self.ep;
    pgasi_call_forget();
    if (ep && pgasi_ep_used(ep))
        pgasi_ep_drain_out(ep);
    if (ep && !pgasi_consumers_run(pgasi_self.slot))
        pgasi_ep_set_left(ep, true);
    pgas_call_path.epoch = 0;
    pgas_call_path.context = 0;
    return pgasi_call_complete();
}

static pgas_status_t call_start(void)
{
    pgasi_quiesce = (pgasi_quiesce_t){ 0, 0 }; /* queues begin to count anew, too */
    pgas_status_t status = pgasi_sync_start();
    if (status == PGAS_OK)
        status = pgasi_far_start();
    if (status == PGAS_OK)
        status = pgasi_far_arrivals_start();
    if (status == PGAS_OK)
        status = pgasi_bulk_start();
    if (status == PGAS_OK)
        status = pgasi_bcast_start();
    if (status == PGAS_OK)
        status = pgasi_object_start();
    pgasi_sync_set_handlers();
    pgasi_handlers_start();
    pgasi_agg_start();
    pgasi_many_start();
    pgasi_ctl_start();
    pgasi_hooks.message_arrived = pgasi_far_arrived;
    pgasi_hooks.peer_lost = pgasi_peer_lost;
    pgasi_hooks.peer_suspect = pgasi_watch_suspect;
    pgasi_hooks.thread_attached[PGASI_LAYER_CALL] = thread_comes;
    pgasi_hooks.thread_detaching[PGASI_LAYER_CALL] = thread_leaves;
    return pgasi_boot_agree(status);
}

static void call_stop(void)
{
    pgasi_bulk_stop();
    pgasi_route_stop();
    pgasi_object_stop();
    pgasi_bcast_stop();
    pgasi_far_arrivals_stop();
    pgasi_far_stop();
    pgasi_sync_stop();
}

/* From now on peers may send requests, so all other stages must have started. */
static pgas_status_t serve_start(void)
{
    pgas_status_t status = pgasi_boot_agree(pgasi_thread_start());
    if (status != PGAS_OK)
        return status;
    pgasi_running = true;
    pgas_call_run =
        (pgas_call_run_t){ pgasi_epoch, (uint32_t)pgasi_boot.n_ranks, pgasi_n_handlers };
    pgasi_hooks.progress = pgasi_progress;
    pgasi_hooks.before_sleep = pgasi_progress_before_sleep;
    pgasi_hooks.woken = pgasi_progress_when_woken;
    pgasi_hooks.may_enter = guard;
    pgasi_sync_host_start();
    status = pgasi_tasks_start();
    status = pgasi_boot_agree(status == PGAS_OK ? pgasi_service_start() : status);
    if (status != PGAS_OK)
        return status;
    pgasi_watch_set_hook(pgasi_peer_died);
    pgasi_watch_run();
    return PGAS_OK;
}

/* Ends the library's threads that make calls while peers still serve, because these threads wait
 * until their calls have left. A thread of the program that is detaching waits, too. */
static void callers_stop(void)
{
    pgasi_thread_close_gate();
    pgasi_consumers_stop_all();
    pgasi_tasks_stop();
}

static void serve_stop(void)
{
    pgasi_service_stop();
    pgasi_watch_set_hook(NULL);
    pgasi_sync_host_stop();
    pgasi_hooks.progress = NULL;
    pgasi_hooks.before_sleep = NULL;
    pgasi_hooks.woken = NULL;
    pgasi_hooks.may_enter = NULL;
    pgasi_running = false;
    memset(&pgas_call_run, 0, sizeof pgas_call_run);
    pgasi_thread_stop();
}

/* Whether the program was compiled with the headers of this library. If not, its options may have
 * another layout. */
static bool fits(unsigned interface_number)
{
    return interface_number == PGAS_INTERFACE;
}

/* Other ranks may have passed valid options. */
static pgas_status_t agree_on_opts(const pgas_init_opts_t *opts, unsigned interface_number)
{
    pgas_status_t status = PGAS_OK;
    if (!fits(interface_number)) {
        PGASI_ERROR("boot",
                    "the program was compiled with headers of interface %u, but libpgas %s has "
                    "interface %u: compile the program again, or link the libpgas of its headers",
                    interface_number, PGAS_VERSION_TEXT, (unsigned)PGAS_INTERFACE);
        status = PGAS_ERR_MISMATCH;
    } else if (!PGASI_OPTS_SANE(opts, sizeof *opts)) {
        PGASI_ERROR("boot", "pgas_init_opts_t has a size of %zu, not %zu: use PGAS_INIT_OPTS_INIT",
                    opts->size, sizeof *opts);
        status = PGAS_ERR_INVALID;
    }
    return pgasi_boot_agree(status);
}

static pgas_status_t start_all(const MPI_Comm *comm, const pgas_init_opts_t *opts,
                               unsigned interface_number)
{
    bool readable = fits(interface_number) && opts && PGASI_OPTS_SANE(opts, sizeof *opts);
    pgas_status_t status = pgasi_boot_start(comm, readable ? opts->params : NULL);
    if (status != PGAS_OK)
        return status;
    status = agree_on_opts(opts, interface_number);
    if (status == PGAS_OK)
        status = pgasi_ctxs_check();
    if (status != PGAS_OK)
        goto stop_boot;
    status = call_start();
    if (status != PGAS_OK)
        goto stop_calls;
    status = pgasi_ctxs_start();
    if (status != PGAS_OK)
        goto stop_calls;
    /* after MPI_Init and the transport: our handlers run first, then call those of MPI and UCX */
    pgasi_log_install_backtrace();
    status = pgasi_chanmem_plan();
    if (status == PGAS_OK)
        status = pgasi_account_check(); /* the transport now knows how much memory it takes */
    if (status == PGAS_OK)
        status = pgasi_recvqs_start();
    if (status != PGAS_OK)
        goto stop_ctxs;
    status = pgasi_mem_start();
    if (status != PGAS_OK)
        goto stop_recvqs;
    status = pgasi_chanmem_start();
    if (status == PGAS_OK)
        status = pgasi_handlers_agree();
    if (status == PGAS_OK)
        status = serve_start();
    if (status == PGAS_OK)
        return PGAS_OK;
    if (pgasi_running) {
        callers_stop();
        serve_stop();
    }
    sendqs_stop();
    pgasi_handlers_stop();
    pgasi_chanmem_stop();
    pgasi_mem_stop();
stop_recvqs:
    pgasi_recvqs_stop();
stop_ctxs:
    pgasi_ctxs_stop();
stop_calls:
    call_stop();
stop_boot:
    pgasi_boot_stop();
    return status;
}

pgas_status_t pgas_init_interface(const MPI_Comm *comm, const pgas_init_opts_t *opts,
                                  unsigned interface_number)
{
    if (pgasi_self.in_handler || pgasi_self.in_task)
        return PGAS_ERR_CONTEXT; /* a pgas_finalize that waits for this handler may have the lock */
    pthread_mutex_lock(&init_lock);
    pgas_status_t status = PGAS_ERR_MISMATCH;
    if (n_inits == 0)
        status = start_all(comm, opts, interface_number);
    else if (fits(interface_number))
        status = PGASI_OPTS_SANE(opts, sizeof *opts) ? PGAS_OK : PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        n_inits++;
    bool first = status == PGAS_OK && n_inits == 1;
    pthread_mutex_unlock(&init_lock);
    if (first && pgasi_param.info && pgasi_boot.rank == 0)
        pgas_info_print(stderr, NULL);
    return status;
}

/* From now on any thread serves the endpoints of attached threads, which may be busy for long.
 * Calls for slots without a thread are refused. */
static void serve_for_threads(void)
{
    for (int slot = 0; slot < pgasi_param.ctxs; slot++) {
        int ep = pgasi_ep_of_slot(slot);
        if (pgasi_slot_reserve(slot))
            pgasi_ep_set_left(ep, true);
        else
            pgasi_ep_serve_for_all(ep);
    }
}

/* After a death the live ranks serve each other until all of them are here. */
static pgas_status_t stop_all(void)
{
    pgasi_call_forget();
    serve_for_threads();
    pgasi_call_complete();
    pgasi_coll_settle(NULL);
    pgas_status_t status = pgas_quiesce();
    if (status == PGAS_ERR_PEER)
        pgasi_watch_leave();
    __atomic_store_n(&pgasi_leaving, true, __ATOMIC_RELEASE);
    callers_stop();
    pgasi_boot_barrier();
    if (pgasi_param.stats)
        pgas_stats_print(stderr);
    serve_stop();
    /* No rank frees its memory while another rank still reads it, or while messages leave from
     * it. */
    pgasi_boot_barrier();
    pgasi_ctxs_drain();
    sendqs_stop();
    pgasi_handlers_stop();
    pgasi_chanmem_stop();
    pgasi_mem_stop();
    pgasi_recvqs_stop();
    pgasi_ctxs_stop();
    call_stop();
    pgas_status_t end = pgasi_boot_stop();
    return status == PGAS_ERR_PEER ? status : end;
}

pgas_status_t pgas_finalize(void)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK && pgasi_self.slot != 0)
        status = PGAS_ERR_CONTEXT;
    if (status != PGAS_OK)
        return status;
    pthread_mutex_lock(&init_lock);
    if (--n_inits == 0)
        status = stop_all();
    pthread_mutex_unlock(&init_lock);
    return status;
}

bool pgas_initialized(void)
{
    return pgasi_running;
}

int pgas_rank(void)
{
    return pgasi_running ? pgasi_boot.rank : -1;
}

int pgas_n_ranks(void)
{
    return pgasi_running ? pgasi_boot.n_ranks : 0;
}

int pgas_n_nodes(void)
{
    return pgasi_running ? pgasi_boot.n_nodes : 0;
}

int pgas_node_of(int rank)
{
    return pgasi_running && rank >= 0 && rank < pgasi_boot.n_ranks ? pgasi_boot.node_of[rank] : -1;
}

double pgas_time(void)
{
    return (double)pgasi_now_ns() * 1e-9;
}

void pgas_abort(int code, const char *text)
{
    PGASI_ERROR("abort", "%s", text ? text : "the program ends the job");
    pgasi_boot_abort(code != 0 ? code : 1);
}

const char *pgas_version(void)
{
    return PGAS_VERSION_TEXT;
}
