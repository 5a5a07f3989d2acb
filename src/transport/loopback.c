/* The transport of a rank to itself: for jobs of one rank and for tests. Everything completes at
 * once, except active messages: they wait in a bounded queue until context 0 progresses. Keys carry
 * their range, and every access is checked against it. Other ranks are refused. */
#include "transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/hash.h"

#define KEY_MAGIC          0x4c4f4f50u
#define QUEUE_MESSAGES_MAX 4096
#define QUEUE_BYTES_MAX    (64u << 20)
#define BATCH_MAX          64 /* messages that one progress call handles */

typedef struct message {
    struct message *next;
    unsigned char header[PGASI_TP_AM_HEADER_MAX];
    size_t header_bytes;
    void *data;
    size_t bytes;
} message_t;

typedef struct loop {
    pgasi_tp_t super;
    pgasi_tp_opts_t opts;
    struct ctx *service;
    pthread_mutex_t lock; /* protects the queue */
    message_t *first, **last;
    size_t n_messages, n_bytes;
    int warned_too_large;
} loop_t;

typedef struct ctx {
    pgasi_tp_ctx_t super;
    loop_t *tp;
    int event_fd;
} ctx_t;

typedef struct {
    void *addr;
    size_t bytes;
    bool allocated;
} mem_t;

typedef struct {
    uint32_t magic;
    int32_t rank;
    uint64_t base, bytes;
    uint64_t check;
} packed_key_t;

typedef struct {
    pgasi_tp_key_t super;
    int peer;
    uint64_t base, bytes;
} loop_key_t;

static const pgasi_tp_ops_t table;
static const uint32_t address_magic = 0x4c4f4f41u;

static loop_t *tp_of(pgasi_tp_t *tp)
{
    return (loop_t *)(void *)tp;
}

static ctx_t *ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (ctx_t *)(void *)ctx;
}

static const loop_key_t *key_of(const pgasi_tp_key_t *key)
{
    return (const loop_key_t *)(const void *)key;
}

static pgas_status_t loop_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    if (opts->n_ranks < 1 || opts->rank < 0 || opts->rank >= opts->n_ranks || !opts->am_fn)
        return PGAS_ERR_INVALID;
    loop_t *tp = calloc(1, sizeof *tp);
    if (!tp)
        return PGAS_ERR_NO_MEMORY;
    tp->super.ops = &table;
    tp->opts = *opts;
    tp->last = &tp->first;
    pthread_mutex_init(&tp->lock, NULL);
    *tp_p = &tp->super;
    return PGAS_OK;
}

static void free_message(message_t *message)
{
    free(message->data);
    free(message);
}

static void loop_close(pgasi_tp_t *tp_base)
{
    loop_t *tp = tp_of(tp_base);
    for (message_t *at = tp->first, *next; at != NULL; at = next) {
        next = at->next;
        free_message(at);
    }
    pthread_mutex_destroy(&tp->lock);
    free(tp);
}

static void loop_query(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p)
{
    (void)tp;
    *attr_p = (pgasi_tp_attr_t){
        .name = "loopback",
        .detail = "this rank only",
        .caps = PGASI_TP_PUT | PGASI_TP_GET | PGASI_TP_AMO | PGASI_TP_AM | PGASI_TP_MEM_ALLOC |
                PGASI_TP_WAKEUP,
        .am_inline_max = SIZE_MAX,
        .ctx_bytes = sizeof(ctx_t),
        .peer_bytes = 0,
    };
}

static pgas_status_t loop_address(pgasi_tp_t *tp, const void **addr_p, size_t *bytes_p)
{
    (void)tp;
    *addr_p = &address_magic;
    *bytes_p = sizeof address_magic;
    return PGAS_OK;
}

static pgas_status_t loop_set_peers(pgasi_tp_t *tp, const void *(*addr_of)(void *arg, int rank),
                                    void *arg)
{
    (void)tp, (void)addr_of, (void)arg;
    return PGAS_OK;
}

static pgas_status_t loop_ctx_open(pgasi_tp_t *tp_base, int index, pgasi_tp_ctx_t **ctx_p)
{
    loop_t *tp = tp_of(tp_base);
    if (index < 0)
        return PGAS_ERR_RANGE;
    if (index == 0 && tp->service)
        return PGAS_ERR_EXISTS;
    ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return PGAS_ERR_NO_MEMORY;
    ctx->super.ops = &table;
    ctx->tp = tp;
    ctx->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ctx->event_fd < 0) {
        free(ctx);
        return PGAS_ERR_IO;
    }
    if (index == 0)
        tp->service = ctx;
    *ctx_p = &ctx->super;
    return PGAS_OK;
}

static void loop_ctx_close(pgasi_tp_ctx_t *tp_ctx)
{
    ctx_t *ctx = ctx_of(tp_ctx);
    if (ctx->tp->service == ctx)
        ctx->tp->service = NULL;
    close(ctx->event_fd);
    free(ctx);
}

static pgas_status_t keep_memory(void *addr, size_t bytes, bool allocated, pgasi_tp_mem_t **mem_p)
{
    mem_t *mem = malloc(sizeof *mem);
    if (!mem)
        return PGAS_ERR_NO_MEMORY;
    *mem = (mem_t){ .addr = addr, .bytes = bytes, .allocated = allocated };
    *mem_p = (pgasi_tp_mem_t *)(void *)mem;
    return PGAS_OK;
}

static pgas_status_t loop_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                    void **addr_p)
{
    (void)tp;
    if (bytes == 0)
        return PGAS_ERR_INVALID;
    void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addr == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = keep_memory(addr, bytes, true, mem_p);
    if (status != PGAS_OK) {
        munmap(addr, bytes);
        return status;
    }
    *addr_p = addr;
    return PGAS_OK;
}

static pgas_status_t loop_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                       pgasi_tp_mem_t **mem_p)
{
    (void)tp;
    return !addr || bytes == 0 ? PGAS_ERR_INVALID : keep_memory(addr, bytes, false, mem_p);
}

static void loop_mem_release(pgasi_tp_t *tp, pgasi_tp_mem_t *tp_mem)
{
    mem_t *mem = (mem_t *)(void *)tp_mem;
    (void)tp;
    if (mem && mem->allocated)
        munmap(mem->addr, mem->bytes);
    free(mem);
}

static uint64_t key_check(const packed_key_t *key)
{
    return pgasi_hash_bytes(key, offsetof(packed_key_t, check), 0);
}

static pgas_status_t loop_key_pack(pgasi_tp_t *tp, pgasi_tp_mem_t *tp_mem, void *buffer,
                                   size_t *bytes_io)
{
    const mem_t *mem = (const mem_t *)(void *)tp_mem;
    packed_key_t key = { .magic = KEY_MAGIC,
                         .rank = tp_of(tp)->opts.rank,
                         .base = (uint64_t)(uintptr_t)mem->addr,
                         .bytes = mem->bytes };
    if (*bytes_io < sizeof key)
        return PGAS_ERR_LIMIT;
    key.check = key_check(&key);
    memcpy(buffer, &key, sizeof key);
    *bytes_io = sizeof key;
    return PGAS_OK;
}

/* Only this rank can be reached. */
static pgas_status_t check_peer(const ctx_t *ctx, int peer)
{
    if (peer < 0 || peer >= ctx->tp->opts.n_ranks)
        return PGAS_ERR_RANGE;
    return peer == ctx->tp->opts.rank ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
}

static pgas_status_t loop_key_unpack(pgasi_tp_ctx_t *tp_ctx, int peer, const void *buffer,
                                     size_t bytes, pgasi_tp_key_t **key_p)
{
    packed_key_t packed;
    pgas_status_t status = check_peer(ctx_of(tp_ctx), peer);
    if (status != PGAS_OK)
        return status;
    if (bytes < sizeof packed)
        return PGAS_ERR_FORMAT;
    memcpy(&packed, buffer, sizeof packed);
    if (packed.magic != KEY_MAGIC || packed.check != key_check(&packed) || packed.rank != peer)
        return PGAS_ERR_FORMAT;
    loop_key_t *key = malloc(sizeof *key);
    if (!key)
        return PGAS_ERR_NO_MEMORY;
    *key = (loop_key_t){
        .super.ops = &table, .peer = peer, .base = packed.base, .bytes = packed.bytes
    };
    *key_p = &key->super;
    return PGAS_OK;
}

static void loop_key_release(pgasi_tp_key_t *key)
{
    free(key);
}

static pgas_status_t check_access(const ctx_t *ctx, int peer, const loop_key_t *key, uint64_t addr,
                                  size_t bytes)
{
    pgas_status_t status = check_peer(ctx, peer);
    if (status != PGAS_OK)
        return status;
    return bytes > key->bytes || addr - key->base > key->bytes - bytes ? PGAS_ERR_RANGE : PGAS_OK;
}

static pgas_status_t loop_key_map(pgasi_tp_key_t *key, uint64_t remote_addr, void **addr_p)
{
    if (remote_addr - key_of(key)->base >= key_of(key)->bytes)
        return PGAS_ERR_RANGE;
    *addr_p = (void *)(uintptr_t)remote_addr;
    return PGAS_OK;
}

static pgas_status_t loop_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, const void *src, size_t bytes,
                              pgasi_tp_comp_t *comp)
{
    pgas_status_t status = check_access(ctx_of(ctx), peer, key_of(key), remote_addr, bytes);
    (void)comp;
    if (status == PGAS_OK && bytes > 0)
        memmove((void *)(uintptr_t)remote_addr, src, bytes);
    return status;
}

static pgas_status_t loop_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgas_status_t status = check_access(ctx_of(ctx), peer, key_of(key), remote_addr, bytes);
    (void)comp;
    if (status == PGAS_OK && bytes > 0)
        memmove(dst, (const void *)(uintptr_t)remote_addr, bytes);
    return status;
}

static pgas_status_t loop_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                              uint64_t remote_addr, pgasi_amo_t op, size_t bytes, uint64_t operand,
                              uint64_t compare, void *result, pgasi_tp_comp_t *comp)
{
    pgas_status_t status = check_access(ctx_of(ctx), peer, key_of(key), remote_addr, bytes);
    void *word = (void *)(uintptr_t)remote_addr;
    (void)comp;
    if (status != PGAS_OK)
        return status;
    if (!pgasi_amo_is_valid(op, bytes, remote_addr, result))
        return PGAS_ERR_INVALID;
    pgasi_amo_store(result, bytes, pgasi_amo_apply(word, op, bytes, operand, compare));
    return PGAS_OK;
}

static pgas_status_t loop_wake(pgasi_tp_ctx_t *ctx)
{
    uint64_t one = 1;
    ssize_t n = write(ctx_of(ctx)->event_fd, &one, sizeof one);
    return n == sizeof one || errno == EAGAIN ? PGAS_OK : PGAS_ERR_IO;
}

static message_t *make_message(const void *header, size_t header_bytes, const void *data,
                               size_t bytes)
{
    message_t *message = calloc(1, sizeof *message);
    if (!message)
        return NULL;
    message->data = malloc(PGASI_MAX(bytes, 1));
    if (!message->data) {
        free(message);
        return NULL;
    }
    message->header_bytes = header_bytes;
    message->bytes = bytes;
    if (header_bytes > 0)
        memcpy(message->header, header, header_bytes);
    if (bytes > 0)
        memcpy(message->data, data, bytes);
    return message;
}

static pgas_status_t loop_am(pgasi_tp_ctx_t *tp_ctx, int peer, const void *header,
                             size_t header_bytes, const void *data, size_t bytes,
                             pgasi_tp_comp_t *comp)
{
    loop_t *tp = ctx_of(tp_ctx)->tp;
    pgas_status_t status = check_peer(ctx_of(tp_ctx), peer);
    (void)comp;
    if (status != PGAS_OK)
        return status;
    if (header_bytes > PGASI_TP_AM_HEADER_MAX)
        return PGAS_ERR_LIMIT;
    if (bytes > tp->opts.am_data_max) {
        pgasi_warn_once(&tp->warned_too_large, "loopback",
                        "dropped a message of %zu bytes (limit %zu)", bytes, tp->opts.am_data_max);
        return PGAS_OK;
    }
    message_t *message = make_message(header, header_bytes, data, bytes);
    if (!message)
        return PGAS_ERR_NO_MEMORY;
    pthread_mutex_lock(&tp->lock);
    bool full = tp->n_messages >= QUEUE_MESSAGES_MAX ||
                (tp->n_messages > 0 && tp->n_bytes + bytes > QUEUE_BYTES_MAX);
    bool was_empty = !tp->first;
    if (!full) {
        *tp->last = message;
        tp->last = &message->next;
        tp->n_messages++;
        tp->n_bytes += bytes;
    }
    pthread_mutex_unlock(&tp->lock);
    if (full) {
        free_message(message);
        return PGAS_ERR_AGAIN;
    }
    return was_empty && tp->service ? loop_wake(&tp->service->super) : PGAS_OK;
}

static message_t *take_message(loop_t *tp)
{
    pthread_mutex_lock(&tp->lock);
    message_t *message = tp->first;
    if (message) {
        tp->first = message->next;
        tp->last = !tp->first ? &tp->first : tp->last;
        tp->n_messages--;
        tp->n_bytes -= message->bytes;
    }
    pthread_mutex_unlock(&tp->lock);
    return message;
}

static int loop_progress(pgasi_tp_ctx_t *tp_ctx)
{
    loop_t *tp = ctx_of(tp_ctx)->tp;
    int n = 0;
    if (ctx_of(tp_ctx) != tp->service)
        return 0;
    for (message_t *message; n < BATCH_MAX && (message = take_message(tp)); n++) {
        const pgasi_tp_am_t am = { .header = message->header,
                                   .header_bytes = message->header_bytes,
                                   .data = message->data,
                                   .data_bytes = message->bytes,
                                   .source = tp->opts.rank };
        if (tp->opts.am_fn(tp->opts.arg, &am))
            message->data = NULL; /* the handler owns it until am_release */
        free_message(message);
    }
    return n;
}

static void loop_am_release(pgasi_tp_ctx_t *ctx, void *data)
{
    (void)ctx;
    free(data);
}

static pgas_status_t loop_fence(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return PGAS_OK;
}

static pgas_status_t loop_flush(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_comp_t *comp)
{
    (void)comp;
    return peer == PGASI_TP_ALL_PEERS ? PGAS_OK : check_peer(ctx_of(ctx), peer);
}

static pgas_status_t loop_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p)
{
    *fd_p = ctx_of(ctx)->event_fd;
    return PGAS_OK;
}

/* Reads the descriptor. If it was readable, or messages wait, the caller must poll again before it
 * sleeps. */
static pgas_status_t loop_arm(pgasi_tp_ctx_t *tp_ctx)
{
    ctx_t *ctx = ctx_of(tp_ctx);
    uint64_t count;
    bool was_woken = read(ctx->event_fd, &count, sizeof count) == sizeof count;
    pthread_mutex_lock(&ctx->tp->lock);
    bool waits = ctx == ctx->tp->service && ctx->tp->first;
    pthread_mutex_unlock(&ctx->tp->lock);
    return was_woken || waits ? PGAS_ERR_BUSY : PGAS_OK;
}

static const pgasi_tp_ops_t table = {
    .open = loop_open,
    .close = loop_close,
    .query = loop_query,
    .address = loop_address,
    .set_peers = loop_set_peers,
    .ctx_open = loop_ctx_open,
    .ctx_close = loop_ctx_close,
    .mem_alloc = loop_mem_alloc,
    .mem_register = loop_mem_register,
    .mem_release = loop_mem_release,
    .key_pack = loop_key_pack,
    .key_unpack = loop_key_unpack,
    .key_map = loop_key_map,
    .key_release = loop_key_release,
    .put = loop_put,
    .get = loop_get,
    .amo = loop_amo,
    .am = loop_am,
    .fence = loop_fence,
    .flush = loop_flush,
    .progress = loop_progress,
    .event_fd = loop_event_fd,
    .arm = loop_arm,
    .wake = loop_wake,
    .am_release = loop_am_release,
};

const pgasi_tp_ops_t *pgasi_loopback_ops(void)
{
    return &table;
}
