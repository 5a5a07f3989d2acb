/* kvsd_job: the common work of all ranks. Clients of any rank ask for snapshots. Rank 0 numbers
 * them and sends the number to all ranks. It also decides when the job ends. So all ranks make the
 * same snapshots in one order, before they end.
 *
 *  A thread of its own makes a snapshot, while the rank continues to serve clients. */
#include <errno.h>
#include <fcntl.h>
#include <pgas/call.h>
#include <pgas/agg.h>
#include <pgas/handler.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "kvsd.h"

enum { END_NOT, END_WITH_SNAPSHOT, END_WITHOUT };

typedef struct {
    uint64_t n_saves;
    int32_t end;
} agreed_t;

static struct {
    atomic_int wakeup_fd;
    atomic_int signalled;
    _Atomic uint64_t n_asked;  /* rank 0: snapshots that it has numbered */
    _Atomic int asked_end;     /* rank 0 */
    _Atomic uint64_t n_agreed; /* this rank shall make so many */
    _Atomic int end;
    _Atomic uint64_t n_done;
    _Atomic int last_status;
    _Atomic int64_t last_s;
} job = { .wakeup_fd = -1 };

static pthread_t saver;
static bool saver_runs;
static uint64_t n_started;
static bool sent_end;

/* Ends epoll_wait. A signal handler may call it. */
static void wake_up(void)
{
    uint64_t one = 1;
    int error = errno, fd = atomic_load(&job.wakeup_fd);
    ssize_t n = fd >= 0 ? write(fd, &one, sizeof one) : 0;
    (void)n;
    errno = error;
}

/* ---- calls ---- */

PGAS_HANDLER(kvsd_agree, agreed_t)
{
    (void)source;
    if (arg->n_saves > atomic_load(&job.n_agreed))
        atomic_store(&job.n_agreed, arg->n_saves);
    if (arg->end != END_NOT)
        atomic_store(&job.end, arg->end);
    wake_up();
}

/* Rank 0 sends its decisions to all ranks. */
static void announce(void)
{
    agreed_t agreed = { atomic_load(&job.n_asked), atomic_load(&job.asked_end) };
    for (int rank = 0; rank < pgas_n_ranks(); rank++)
        pgas_call_kvsd_agree(rank, &agreed, NULL);
}

/* @return the number of the snapshot; 0 if the job ends */
PGAS_HANDLER_RETURN(kvsd_ask_save, int32_t, uint64_t)
{
    (void)source;
    (void)arg;
    if (atomic_load(&job.asked_end) != END_NOT)
        return 0;
    uint64_t number = atomic_fetch_add(&job.n_asked, 1) + 1;
    announce();
    return number;
}

PGAS_HANDLER(kvsd_ask_end, int32_t)
{
    (void)source;
    if (atomic_load(&job.asked_end) != END_NOT)
        return;
    atomic_store(&job.asked_end, *arg);
    announce();
}

uint64_t kvsd_job_ask_save(void)
{
    int32_t nothing = 0;
    uint64_t number = 0;
    if (pgas_call_return_kvsd_ask_save(0, &nothing, &number) != PGAS_OK)
        return 0;
    return number;
}

void kvsd_job_ask_stop(bool with_snapshot)
{
    int32_t how = with_snapshot ? END_WITH_SNAPSHOT : END_WITHOUT;
    pgas_call_kvsd_ask_end(0, &how, NULL);
}

/* ---- signals ---- */

static void on_signal(int number)
{
    (void)number;
    atomic_store(&job.signalled, 1);
    wake_up();
}

bool kvsd_job_init(kvsd_server_t *server)
{
    struct sigaction ends = { .sa_handler = on_signal }, ignored = { .sa_handler = SIG_IGN };
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->wakeup_fd };
    server->wakeup_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    atomic_store(&job.wakeup_fd, server->wakeup_fd);
    sigemptyset(&ends.sa_mask);
    sigemptyset(&ignored.sa_mask);
    sigaction(SIGTERM, &ends, NULL);
    sigaction(SIGINT, &ends, NULL);
    sigaction(SIGUSR1, &ends, NULL); /* mpirun passes it on */
    sigaction(SIGPIPE, &ignored, NULL);
    return server->wakeup_fd >= 0 &&
           epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->wakeup_fd, &event) == 0;
}

void kvsd_job_fini(kvsd_server_t *server)
{
    atomic_store(&job.wakeup_fd, -1);
    close(server->wakeup_fd);
}

/* ---- snapshots ---- */

static void *make_snapshot(void *arg)
{
    pgas_status_t status = pgas_thread_attach();
    if (status == PGAS_OK) {
        status = pgas_kvs_save(arg, NULL);
        pgas_thread_detach();
    }
    atomic_store(&job.last_status, status);
    if (status == PGAS_OK)
        atomic_store(&job.last_s, kvsd_clock_ms() / 1000);
    atomic_fetch_add(&job.n_done, 1);
    wake_up();
    return NULL;
}

static void start_snapshot(kvsd_server_t *server)
{
    n_started++;
    saver_runs = pthread_create(&saver, NULL, make_snapshot, server->kvs) == 0;
    if (!saver_runs)
        pgas_abort(1, "pgas_kvsd: no thread for a snapshot can be created");
}

/* Replies to clients that waited for the snapshot. */
static void wake_clients(kvsd_server_t *server, uint64_t n_done)
{
    for (int i = 0; i < server->n_clients; i++) {
        kvsd_client_t *client = server->clients[i];
        if (client->save_number == 0 || client->save_number > n_done)
            continue;
        client->save_number = 0;
        if (atomic_load(&job.last_status) == PGAS_OK)
            resp_ok(&client->out);
        else
            resp_error(&client->out, "ERR the snapshot failed: %s",
                       pgas_status_text((pgas_status_t)atomic_load(&job.last_status)));
        kvsd_make_ready(client);
        kvsd_send(client);
    }
}

static void end_snapshot(kvsd_server_t *server)
{
    pthread_join(saver, NULL);
    saver_runs = false;
    wake_clients(server, atomic_load(&job.n_done));
}

bool kvsd_job_step(kvsd_server_t *server)
{
    if (atomic_load(&job.signalled) && !sent_end) {
        sent_end = true;
        kvsd_job_ask_stop(true);
    }
    if (saver_runs && atomic_load(&job.n_done) == n_started)
        end_snapshot(server);
    if (!saver_runs && atomic_load(&job.n_agreed) > n_started)
        start_snapshot(server);
    return atomic_load(&job.end) == END_NOT;
}

bool kvsd_job_end(kvsd_server_t *server)
{
    for (;;) {
        if (saver_runs)
            end_snapshot(server);
        if (atomic_load(&job.n_agreed) == n_started)
            break;
        start_snapshot(server);
    }
    return atomic_load(&job.end) == END_WITH_SNAPSHOT;
}

kvsd_save_info_t kvsd_job_saves(void)
{
    uint64_t n_done = atomic_load(&job.n_done), n_asked = atomic_load(&job.n_agreed);
    return (kvsd_save_info_t){
        .n_asked = n_asked,
        .n_done = n_done,
        .running = n_done < n_asked,
        .last_status = (pgas_status_t)atomic_load(&job.last_status),
        .last_s = atomic_load(&job.last_s),
    };
}
