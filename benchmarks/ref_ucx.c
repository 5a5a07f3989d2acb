/* Raw UCX: one worker, and the plain non-blocking calls in the order in which the UCP examples use
 * them. UCX allocates the memory itself, so that shared memory is mapped at the peer.
 *
 * The configuration is read with the library's own prefix, so that PGAS_UCX_TLS chooses the
 * transports of both. Ranks make progress of their worker while they wait for each other, because
 * transports without remote memory access need it. */
#include "benchmarks/ref.h"
#include "benchmarks/ref_array.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define AM_ID       1
#define TESTS_APART 200 /* rounds of progress between two polls of MPI */
#define ADDRESS_MAX 4096
#define BLOCK_BYTES 4096
#define KEY_MAX     1024

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_mem_h memory;
static char *mine;                  /* the window */
static char *private_base;          /* ordinary memory: the other side of transfers */
static ucp_ep_h *ep;                /* by rank; NULL until used */
static ucp_rkey_h *key;             /* by rank */
static uint64_t *remote;            /* address of the window, by rank */
static char *addresses;             /* ADDRESS_MAX each */
static char *keys;                  /* KEY_MAX each */
static volatile uint64_t n_arrived; /* active messages */
static MPI_Comm comm = MPI_COMM_NULL;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK)
        bench_die("%s: %s", what, ucs_status_string(status));
}

/* Operations either completed at once (NULL), failed, or gave a request. */
static void wait_for(ucs_status_ptr_t request)
{
    if (!request)
        return;
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "UCX operation");
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
}

/* ---- set-up ---- */

static ucs_status_t message_arrived(void *arg, const void *header, size_t header_bytes, void *data,
                                    size_t bytes, const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_bytes;
    (void)data;
    (void)bytes;
    (void)param;
    n_arrived++;
    return UCS_OK;
}

static bool open_worker(void)
{
    ucp_config_t *config;
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                            .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 |
                                        UCP_FEATURE_AM };
    ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                          .thread_mode = UCS_THREAD_MODE_SINGLE };
    ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                     UCP_AM_HANDLER_PARAM_FIELD_CB,
                                       .id = AM_ID,
                                       .cb = message_arrived };
    if (ucp_config_read("PGAS", NULL, &config) != UCS_OK)
        return false;
    ucs_status_t status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status != UCS_OK)
        return false;
    check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
    return true;
}

static void allocate_window(void)
{
    ucp_mem_map_params_t params = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                  UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                    .length = BENCH_WINDOW_BYTES,
                                    .flags = UCP_MEM_MAP_ALLOCATE };
    ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };
    check(ucp_mem_map(context, &params, &memory), "ucp_mem_map");
    check(ucp_mem_query(memory, &attr), "ucp_mem_query");
    mine = attr.address;
    memset(mine, 0, BENCH_WINDOW_BYTES);
}

static void exchange(const void *data, size_t bytes, char *all, size_t room)
{
    char *padded = calloc(1, room);
    if (!padded || bytes > room)
        bench_die("UCX: %zu bytes of address or key, only %zu foreseen", bytes, room);
    memcpy(padded, data, bytes);
    MPI_Allgather(padded, (int)room, MPI_BYTE, all, (int)room, MPI_BYTE, comm);
    free(padded);
}

static void exchange_names(void)
{
    ucp_address_t *address;
    size_t bytes;
    void *packed;
    uint64_t here = (uint64_t)(uintptr_t)mine;
    check(ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
    exchange(address, bytes, addresses, ADDRESS_MAX);
    ucp_worker_release_address(worker, address);
    check(ucp_rkey_pack(context, memory, &packed, &bytes), "ucp_rkey_pack");
    exchange(packed, bytes, keys, KEY_MAX);
    ucp_rkey_buffer_release(packed);
    MPI_Allgather(&here, 1, MPI_UINT64_T, remote, 1, MPI_UINT64_T, comm);
}

static void connect_to(int peer)
{
    if (ep[peer])
        return;
    const void *address = addresses + (size_t)peer * ADDRESS_MAX;
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                               .address = address };
    check(ucp_ep_create(worker, &params, &ep[peer]), "ucp_ep_create");
    check(ucp_ep_rkey_unpack(ep[peer], keys + (size_t)peer * KEY_MAX, &key[peer]),
          "ucp_ep_rkey_unpack");
}

bool ref_ucx_open(void)
{
    int n_ranks, good, all_good;
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    good = open_worker();
    MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm);
    if (!all_good)
        return false;
    ep = calloc((size_t)n_ranks, sizeof *ep);
    key = calloc((size_t)n_ranks, sizeof *key);
    remote = calloc((size_t)n_ranks, sizeof *remote);
    addresses = calloc((size_t)n_ranks, ADDRESS_MAX);
    keys = calloc((size_t)n_ranks, KEY_MAX);
    private_base = bench_buffer(BENCH_WINDOW_BYTES);
    if (!ep || !key || !remote || !addresses || !keys)
        bench_die("out of memory");
    allocate_window();
    exchange_names();
    return true;
}

void ref_ucx_close(void)
{
    int n_ranks;
    ucp_request_param_t param = { 0 };
    MPI_Comm_size(comm, &n_ranks);
    ref_ucx_meet();
    for (int r = 0; r < n_ranks; r++) {
        if (ep[r]) {
            ucp_rkey_destroy(key[r]);
            wait_for(ucp_ep_close_nbx(ep[r], &param));
        }
    }
    ref_ucx_meet();
    ucp_mem_unmap(context, memory);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    free(ep);
    free(key);
    free(remote);
    free(addresses);
    free(keys);
    free(private_base);
    MPI_Comm_free(&comm);
}

void ref_ucx_meet(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(comm, &request);
    while (!done) {
        for (int i = 0; i < TESTS_APART; i++)
            ucp_worker_progress(worker);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}

/* Reads the names of the transports from UCX's description of the endpoint. */
const char *ref_ucx_path(int peer)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream;
    const char *path = "ucx-net";
    if (!ref_open(BENCH_UCX))
        return path;
    connect_to(peer);
    ref_ucx_meet();
    stream = open_memstream(&text, &bytes);
    if (!stream)
        return path;
    ucp_ep_print_info(ep[peer], stream);
    fclose(stream);
    if (strstr(text, "posix/") || strstr(text, "sysv/") || strstr(text, "cma/"))
        path = "ucx-shm";
    else if (strstr(text, "tcp/"))
        path = "ucx-tcp";
    free(text);
    return path;
}

/* ---- one-sided ---- */

static const ucp_request_param_t plain = { 0 };

static void flush_peer(int peer)
{
    wait_for(ucp_ep_flush_nbx(ep[peer], &plain));
}

static size_t small_offset(uint64_t i, size_t bytes)
{
    return bytes < BENCH_STRIDE_MASK ? bench_walk(i, bytes) : 0;
}

double ref_ucx_put(const bench_run_t *run)
{
    int peer = run->peer;
    if (!run->active)
        return 0;
    connect_to(peer);
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        wait_for(ucp_put_nbx(ep[peer], private_base, run->bytes,
                             remote[peer] + small_offset(i, run->bytes), key[peer], &plain));
        flush_peer(peer);
    }
    return bench_since(begin);
}

double ref_ucx_get(const bench_run_t *run)
{
    int peer = run->peer;
    if (!run->active)
        return 0;
    connect_to(peer);
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++)
        wait_for(ucp_get_nbx(ep[peer], private_base, run->bytes,
                             remote[peer] + small_offset(i, run->bytes), key[peer], &plain));
    return bench_since(begin);
}

static void wait_window(ucs_status_ptr_t *request, int n)
{
    for (int i = 0; i < n; i++)
        wait_for(request[i]);
}

static double windows(const bench_run_t *run, bool put)
{
    ucs_status_ptr_t request[BENCH_WINDOW_OPS];
    int peer = run->peer, n = 0;
    uint64_t slots = bench_slots(run->bytes), slot = 0;
    if (!run->active)
        return 0;
    connect_to(peer);
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t at = slot * run->bytes;
        request[n++] = put ? ucp_put_nbx(ep[peer], private_base + at, run->bytes, remote[peer] + at,
                                         key[peer], &plain)
                           : ucp_get_nbx(ep[peer], private_base + at, run->bytes, remote[peer] + at,
                                         key[peer], &plain);
        slot = slot + 1 < slots ? slot + 1 : 0;
        if (n == BENCH_WINDOW_OPS || i + 1 == run->iters) {
            wait_window(request, n);
            n = 0;
            if (put)
                flush_peer(peer);
        }
    }
    return bench_since(begin);
}

/* As windows, but over all of the peer's memory, so that it is not in the peer's caches. The local
 * memory is the same again and again. */
static double walk(const bench_run_t *run, bool put)
{
    static uint64_t next;
    ucs_status_ptr_t request[BENCH_WINDOW_OPS];
    int peer = run->peer < 0 ? 1 : run->peer, n = 0;
    uint64_t slots = BENCH_WINDOW_BYTES / run->bytes;
    if (run->peer < 0 ? run->rank != 0 : !run->active)
        return 0;
    connect_to(peer);
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        char *here = private_base + (size_t)n * run->bytes;
        uint64_t there = remote[peer] + next++ % slots * run->bytes;
        request[n++] = put ? ucp_put_nbx(ep[peer], here, run->bytes, there, key[peer], &plain)
                           : ucp_get_nbx(ep[peer], here, run->bytes, there, key[peer], &plain);
        if (n == BENCH_WINDOW_OPS || i + 1 == run->iters) {
            wait_window(request, n);
            n = 0;
        }
    }
    if (put)
        flush_peer(peer);
    return bench_since(begin);
}

double ref_ucx_get_walk(const bench_run_t *run)
{
    return walk(run, false);
}

double ref_ucx_put_walk(const bench_run_t *run)
{
    return walk(run, true);
}

/* Rank 0 works with rank 1 where ranks have no peers. */
static bench_run_t first_pair(const bench_run_t *run)
{
    bench_run_t pair = *run;
    pair.active = run->rank == 0;
    pair.peer = 1 - run->rank;
    return pair;
}

double ref_ucx_get_first(const bench_run_t *run)
{
    bench_run_t pair = first_pair(run);
    return ref_ucx_get(&pair);
}

double ref_ucx_put_window(const bench_run_t *run)
{
    return windows(run, true);
}

double ref_ucx_put_blocks(const bench_run_t *run)
{
    bench_run_t blocks = *run;
    blocks.bytes = BLOCK_BYTES;
    blocks.iters = (run->iters * run->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    return windows(&blocks, true);
}

double ref_ucx_get_window(const bench_run_t *run)
{
    return windows(run, false);
}

/* ---- rings over puts ---- */

/* As the rings of ref_memory.c, in the receiver's window, filled by puts from one buffer. The
 * receiver reads the messages: on shared memory a put that no thread reads moves no data between
 * processors. A slot has one message, or as many as fit into 4 KiB, and then its number, which
 * publishes it. The sender builds no messages, only numbers. The reader's position is in the
 * writer's window. */
#define RING_BYTES (256u << 10) /* as the window of puts */
#define READ_PLACE (2 * RING_BYTES)

/* The parameters of a run, the same at both ends. */
typedef struct {
    int peer;
    size_t bytes, step;             /* of a message, of a slot */
    uint64_t per_slot, room, iters; /* messages in a slot, slots of the ring, slots of the run */
} put_ring_t;

/* The source is not changed until the other end has answered. */
static void put(int peer, const void *from, size_t place, size_t bytes)
{
    ucs_status_ptr_t request =
        ucp_put_nbx(ep[peer], from, bytes, remote[peer] + place, key[peer], &plain);
    if (UCS_PTR_IS_ERR(request))
        check(UCS_PTR_STATUS(request), "ucp_put_nbx");
    if (request)
        ucp_request_free(request);
}

static void await_word(const void *word, uint64_t least)
{
    for (uint32_t spins = 0; __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE) < least;)
        if (++spins % 16 == 0)
            ucp_worker_progress(worker);
}

static void put_slots(const put_ring_t *r)
{
    uint64_t slot = 0;
    for (uint64_t i = 0; i < r->iters; i++) {
        char *from = private_base + slot * r->step;
        if (i >= r->room)
            await_word(mine + READ_PLACE, i - r->room + 1);
        *(uint64_t *)(void *)(from + r->step - sizeof i) = i + 1;
        put(r->peer, from, slot * r->step, r->step);
        slot = slot + 1 < r->room ? slot + 1 : 0;
    }
    await_word(mine + READ_PLACE, r->iters);
}

static void read_slots(const put_ring_t *r)
{
    /* each is sent from memory that is not used again before the writer has gone round the ring */
    static uint64_t told[64];
    uint64_t slot = 0, sum = 0, turn = 0;
    for (uint64_t i = 0; i < r->iters; i++) {
        const char *at = mine + slot * r->step;
        await_word(at + r->step - sizeof i, i + 1);
        for (uint64_t k = 0; k < r->per_slot; k++)
            sum += *(const uint64_t *)(const void *)(at + k * r->bytes);
        slot = slot + 1 < r->room ? slot + 1 : 0;
        if (i + 1 - told[turn % 64] >= r->room / 8 || i + 1 == r->iters) {
            told[++turn % 64] = i + 1;
            put(r->peer, &told[turn % 64], READ_PLACE, sizeof told[0]);
        }
    }
    told[0] = 0;
    bench_use(sum);
}

/* Called after a meeting. No put to this end is under way then, so it clears its own window. */
static double ring_over_puts(const bench_run_t *run, uint64_t per_slot)
{
    size_t step = ((per_slot * run->bytes + 7) & ~(size_t)7) + sizeof(uint64_t);
    put_ring_t ring = { run->peer, run->bytes,        step,
                        per_slot,  RING_BYTES / step, (run->iters + per_slot - 1) / per_slot };
    uint64_t begin;
    double elapsed;
    if (run->bytes % 8 != 0 || run->bytes > BLOCK_BYTES)
        bench_die("rings over puts: messages of 8 to %u bytes, in words", BLOCK_BYTES);
    connect_to(run->peer);
    begin = bench_now();
    if (run->active)
        put_slots(&ring);
    else
        read_slots(&ring);
    elapsed = bench_since(begin);
    memset(mine, 0, READ_PLACE + sizeof(uint64_t));
    return run->active ? elapsed : 0;
}

double ref_ucx_ring_slots(const bench_run_t *run)
{
    return ring_over_puts(run, 1);
}

double ref_ucx_ring_blocks(const bench_run_t *run)
{
    return ring_over_puts(run, BLOCK_BYTES / run->bytes);
}

/* Fetching operations are complete when they return, the others when flushed. */
double ref_ucx_atomic(const bench_run_t *run)
{
    static const ucp_atomic_op_t op[BENCH_AMO_KINDS] = {
        [BENCH_FADD64] = UCP_ATOMIC_OP_ADD,    [BENCH_ADD64] = UCP_ATOMIC_OP_ADD,
        [BENCH_XOR64] = UCP_ATOMIC_OP_XOR,     [BENCH_SWAP64] = UCP_ATOMIC_OP_SWAP,
        [BENCH_CSWAP64] = UCP_ATOMIC_OP_CSWAP, [BENCH_FADD32] = UCP_ATOMIC_OP_ADD
    };
    bool fetch = run->arg != BENCH_ADD64 && run->arg != BENCH_XOR64;
    int peer = run->peer;
    uint64_t value, old = 0;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                                  .datatype = ucp_dt_make_contig(bench_amo_bytes(run->arg)) };
    if (!run->active)
        return 0;
    if (fetch) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = &old;
    }
    connect_to(peer);
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        value = i;
        wait_for(
            ucp_atomic_op_nbx(ep[peer], op[run->arg], &value, 1, remote[peer], key[peer], &param));
        if (!fetch)
            flush_peer(peer);
    }
    return bench_since(begin);
}

/* ---- active messages ---- */

static const ucp_request_param_t eager = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                           .flags = UCP_AM_SEND_FLAG_EAGER };

static ucs_status_ptr_t send_message(int peer, size_t bytes)
{
    return ucp_am_send_nbx(ep[peer], AM_ID, NULL, 0, private_base, bytes, &eager);
}

static void await_messages(uint64_t n)
{
    while (n_arrived != n)
        ucp_worker_progress(worker);
}

double ref_ucx_am(const bench_run_t *run)
{
    uint64_t base = n_arrived, begin;
    connect_to(run->peer);
    ref_ucx_meet();
    begin = bench_now();
    for (uint64_t i = 1; i <= run->iters; i++) {
        if (run->active)
            wait_for(send_message(run->peer, run->bytes));
        await_messages(base + i);
        if (!run->active)
            wait_for(send_message(run->peer, run->bytes));
    }
    return run->active ? bench_since(begin) : 0;
}

double ref_ucx_am_twice(const bench_run_t *run)
{
    bench_run_t pair = first_pair(run);
    pair.iters *= 2;
    if (run->rank < 2)
        return ref_ucx_am(&pair);
    ref_ucx_meet(); /* as the others */
    return 0;
}

static void send_stream(const bench_run_t *run)
{
    ucs_status_ptr_t request[BENCH_WINDOW_OPS];
    int n = 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        request[n] = send_message(run->peer, run->bytes);
        if (request[n] && ++n == BENCH_WINDOW_OPS) {
            wait_window(request, n);
            n = 0;
        }
    }
    wait_window(request, n);
}

double ref_ucx_am_rate(const bench_run_t *run)
{
    uint64_t base = n_arrived, begin;
    connect_to(run->peer);
    ref_ucx_meet();
    begin = bench_now();
    if (run->active) {
        send_stream(run);
        await_messages(base + 1);
    } else {
        await_messages(base + run->iters);
        wait_for(send_message(run->peer, 1));
    }
    return run->active ? bench_since(begin) : 0;
}
