/* Connections between live ranks are lost.
 *   what:   A rank shuts its TCP sockets down at random. Calls still run once and in order, and
 *           puts and gets have the right contents. An atomic that succeeds counts once, and any
 *           other reports an error. A put that must not be repeated reports an error, too, if it
 *           may have arrived. No rank counts as dead.
 *   np:     2 3
 *   nodes:  1
 *   env:    PGAS_TRANSPORT=ucx | PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic
 *   tls:    tcp,self
 *   log:    ucx: warn: the connection of context [0-9]+ to rank [0-9]+ was lost
 *   source: pgas/call.h, pgas/rma.h; README of the UCX and verbs backends */
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/param.h"
#include "base/rng.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "t/spmd/job.h"

enum { N_ROUNDS = 24, N_CALLS = 40, SMALL = 100, LARGE = 300000, SOCKETS_MAX = 1024 };

static pgas_handler_t seen;
static uint64_t n_seen[JOB_RANKS_MAX];
static int n_wrong, n_cut;
static int old_fds[SOCKETS_MAX], n_old;
static ino_t seen_sockets[2][SOCKETS_MAX]; /* at the end of the last two rounds */
static int n_seen_sockets[2];

static void on_seen(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    int rank = pgas_thread_rank(source);
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += bytes < sizeof number || number != n_seen[rank];
    n_seen[rank]++;
}

static bool is_tcp(int fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.ss_family == AF_INET;
}

/* Connected TCP sockets of this process, but for those that were there before the library. */
static int connections(int fds[SOCKETS_MAX])
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && n < SOCKETS_MAX; e = readdir(dir)) {
        int fd = atoi(e->d_name);
        bool old = false;
        for (int i = 0; i < n_old; i++)
            old |= old_fds[i] == fd;
        if (!old && is_tcp(fd))
            fds[n++] = fd;
    }
    if (dir)
        closedir(dir);
    return n;
}

static ino_t inode_of(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

static void remember_sockets(void)
{
    int fds[SOCKETS_MAX];
    memcpy(seen_sockets[1], seen_sockets[0], sizeof seen_sockets[0]);
    n_seen_sockets[1] = n_seen_sockets[0];
    n_seen_sockets[0] = connections(fds);
    for (int i = 0; i < n_seen_sockets[0]; i++)
        seen_sockets[0][i] = inode_of(fds[i]);
}

static bool is_seen(ino_t inode, int which)
{
    for (int i = 0; i < n_seen_sockets[which]; i++)
        if (seen_sockets[which][i] == inode)
            return true;
    return false;
}

/* Shut down a connection that is older than a round. UCX 1.13 ends the process if a connection is
 * lost while UCX establishes it. */
static void cut(pgasi_rng_t *rng)
{
    int fds[SOCKETS_MAX], n = connections(fds), n_old_ones = 0;
    for (int i = 0; i < n; i++)
        if (is_seen(inode_of(fds[i]), 0) && is_seen(inode_of(fds[i]), 1))
            fds[n_old_ones++] = fds[i];
    if (n_old_ones > 0)
        n_cut += shutdown(fds[pgasi_rng_below(rng, (uint64_t)n_old_ones)], SHUT_RDWR) == 0;
}

static unsigned char byte_of(int rank, int round, size_t i)
{
    return (unsigned char)((size_t)rank * 31 + (size_t)(round + 1) * 7 + i * 13 + i / 251);
}

/* Writes to the peer and reads it back. False: a wrong byte, or a status. */
static bool move(pgas_gptr_t cell, size_t bytes, int round, unsigned char *buffer)
{
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = byte_of(me, round, i);
    bool good = pgas_put(cell, buffer, bytes) == PGAS_OK;
    good &= pgas_flush(pgas_gptr_rank(cell)) == PGAS_OK;
    memset(buffer, 0, bytes);
    good &= pgas_get(buffer, cell, bytes) == PGAS_OK;
    for (size_t i = 0; good && i < bytes; i++)
        good &= buffer[i] == byte_of(me, round, i);
    return good;
}

/* ---- a put that is not repeated ---- */

static struct {
    pgasi_tp_comp_t comp;
    pgas_status_t status;
    int n;
} once = { .comp = { .once = true } };

static void once_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    (void)comp;
    once.status = status;
    once.n++;
    pgasi_ctx_count(pgasi_self.ctx, -1);
}

static void cut_all(void)
{
    int fds[SOCKETS_MAX], n = connections(fds);
    for (int i = 0; i < n; i++)
        if (is_seen(inode_of(fds[i]), 0) && is_seen(inode_of(fds[i]), 1))
            shutdown(fds[i], SHUT_RDWR);
}

/* The connection is lost, and no round of progress has noticed that before the put. Over verbs no
 * put is repeated. */
static bool put_once(pgas_gptr_t cell, unsigned char *buffer)
{
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    pgasi_tp_key_t *key;
    uint64_t address, end = pgasi_now_ns() + 20 * PGASI_NS_PER_S;
    int to = pgas_gptr_rank(cell);
    once.comp.fn = once_done;
    pgasi_ctx_lock(ctx);
    cut_all();
    pgas_status_t status = pgasi_heap_reach(ctx, to, pgas_gptr_offset(cell), SMALL, &key, &address);
    if (status == PGAS_OK)
        status = ctx->tp->ops->put(ctx->tp, to, key, address, buffer, SMALL, &once.comp);
    if (status == PGAS_INPROGRESS)
        pgasi_ctx_count(ctx, 1);
    pgasi_ctx_unlock(ctx);
    while (status == PGAS_INPROGRESS && !once.n && pgasi_now_ns() < end)
        pgas_progress();
    if (pgasi_param.transport != 0) /* the first of its values is ucx */
        return status == PGAS_OK || once.n == 1;
    return status == PGAS_INPROGRESS && once.n == 1 && once.status == PGAS_ERR_TRANSPORT;
}

int main(int argc, char **argv)
{
    pgas_gptr_t mine = PGAS_NULL, cells[JOB_RANKS_MAX], word = PGAS_NULL, words[JOB_RANKS_MAX];
    static uint64_t n_sent[JOB_RANKS_MAX];
    uint64_t n_added = 0, n_doubtful = 0, all[2], sums[2];
    int n_bad_calls = 0, n_bad_moves = 0, n_bad_status = 0;
    pgasi_rng_t rng;
    unsigned char *buffer = job_alloc(LARGE);
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(9);
    n_old = connections(old_fds);
    pgas_handler_register("t.seen", on_seen, NULL, NULL, &seen);
    job_start(NULL);
    pgasi_rng_seed(&rng, spmd_seed(77) + (uint64_t)me);
    bool good = pgas_alloc((size_t)n_ranks * LARGE, &mine) == PGAS_OK &&
                pgas_alloc(sizeof(uint64_t), &word) == PGAS_OK;
    spmd_ok(good, "memory");
    job_gather(mine, cells);
    job_gather(word, words);
    *(uint64_t *)pgas_gptr_local(word, sizeof word) = 0;
    pgas_barrier(NULL);
    for (int round = -2; round < N_ROUNDS; round++) { /* the first two connect all ranks */
        bool cuts = round >= 0 && round / 2 % n_ranks == me;
        if (cuts && round % 2 == 0)
            cut(&rng); /* while nothing is under way */
        for (int i = 0; i < N_CALLS * n_ranks; i++) {
            int to = i % n_ranks;
            if (cuts && round % 2 == 1 && i == N_CALLS)
                cut(&rng); /* while calls are */
            if (to != me)
                n_bad_calls +=
                    pgas_call(to, seen, &n_sent[to], sizeof n_sent[to], NULL) != PGAS_OK ||
                    !++n_sent[to];
        }
        n_bad_calls += pgas_quiesce() != PGAS_OK;
        for (int k = 1; k < n_ranks; k++) {
            int to = (me + k) % n_ranks;
            uint64_t old;
            n_bad_moves += !move(cells[to] + (uint64_t)me * LARGE, round % 5 == 4 ? LARGE : SMALL,
                                 round, buffer);
            pgas_status_t status = pgas_fetch_op_u64(words[to], PGAS_ADD, 1, &old);
            n_added += status == PGAS_OK;
            n_doubtful += status == PGAS_ERR_TRANSPORT;
            n_bad_status += status != PGAS_OK && status != PGAS_ERR_TRANSPORT;
        }
        pgas_barrier(NULL);
        remember_sockets();
    }
    spmd_ok(pgas_quiesce() == PGAS_OK, "quiescence");
    pgas_barrier(NULL);
    uint64_t expected[JOB_RANKS_MAX], got_all[JOB_RANKS_MAX * JOB_RANKS_MAX];
    pgas_allgather(NULL, n_sent, got_all, sizeof n_sent[0] * (size_t)n_ranks);
    int n_missing = 0;
    for (int r = 0; r < n_ranks; r++) {
        expected[r] = got_all[r * n_ranks + me];
        n_missing += r != me && n_seen[r] != expected[r];
    }
    spmd_ok(n_bad_calls == 0 && n_missing == 0 && n_wrong == 0,
            "every call runs once and in order");
    spmd_is_int(n_bad_moves, 0, "gets return the bytes that were put");
    all[0] = n_added;
    all[1] = n_doubtful;
    pgas_allreduce(NULL, all, sums, 2, PGAS_U64, PGAS_ADD);
    uint64_t here = *(uint64_t *)pgas_gptr_local(word, sizeof word), total = 0;
    pgas_allreduce(NULL, &here, &total, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad_status == 0 && total >= sums[0] && total <= sums[0] + sums[1],
            "atomics count once, or say that they may not have");
    int cuts = 0;
    pgas_allreduce(NULL, &n_cut, &cuts, 1, PGAS_I32, PGAS_ADD);
    spmd_ok(cuts > 0, "connections were cut");
    for (int round = 0; round < 3; round++) { /* connections are old enough again */
        n_bad_moves += me == 0 && !move(cells[1], SMALL, round, buffer);
        remember_sockets();
        pgas_barrier(NULL);
    }
    bool good_once = me > 0 || put_once(cells[1], buffer);
    pgas_barrier(NULL);
    spmd_ok(good_once && (me > 0 || move(cells[1], SMALL, 0, buffer)),
            "a put that must not be repeated reports that it may be lost");
    if (me == 0)
        printf("# %d cuts, %d atomics in doubt\n", cuts, (int)sums[1]);
    free(buffer);
    return job_end();
}
