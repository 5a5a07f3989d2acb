/* Messages of many elements: see many.h.
 *
 * A message is a head and the indices of its elements in the owner's heap, then the values of a
 * put or an update. The owner carries it out as one batch, and answers gets and puts. A record
 * keeps what the answer needs: where its values go, and the counter of the program. Updates have no
 * answer; pgas_quiesce waits for them as for calls. */
#include "many/many.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "base/sync.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/sync.h"
#include "mem/segment.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "pgas/atomic.h"
#include "pgas/rma.h"

#define MESSAGE_MAX 16384 /* bytes of a message or an answer at most */
#define ELEM_MAX    512   /* bytes of an element that travels in messages */
#define RECORDS_MAX 256   /* answers that a rank awaits at one time; then it waits for one */

typedef pgasi_many_head_t head_t;

typedef struct {
    pgas_status_t status; /* of the owner */
    uint32_t spare;
    char values[];
} answer_t;

/* One message whose answer is awaited. */
typedef struct {
    pgas_sync_t arrived;
    pgas_sync_t *user; /* NULL: none */
    char *to;          /* GET: the first element of the operation */
    size_t elem_bytes;
    int rank;
    uint32_t n;
    answer_t *answer;
    uint32_t place[]; /* [n], then the answer */
} record_t;

static uint32_t n_records; /* that await an answer */

/* ---- at the owner ---- */

static bool is_sane(const head_t *h, size_t bytes)
{
    size_t values = h->has_values ? h->elem_bytes : 0;
    size_t answer = h->kind == PGASI_MANY_GET ? h->n * h->elem_bytes : 0;
    return h->kind <= PGASI_MANY_UPDATE && h->n > 0 && h->n <= PGASI_MANY_MOST &&
           h->elem_bytes > 0 && h->elem_bytes <= ELEM_MAX &&
           sizeof(answer_t) + answer <= MESSAGE_MAX &&
           bytes == sizeof *h + h->n * sizeof(uint32_t) + h->n * values;
}

pgas_status_t pgasi_many_carry_out(pgasi_many_t *m, int rank, const uint32_t *index, size_t n)
{
    uint64_t heap = pgasi_segments[0].bytes;
    unsigned shift = (unsigned)__builtin_ctzll(m->elem_bytes);
    m->base = pgas_gptr_local(pgas_gptr_make(rank, PGASI_HEAP_OFFSET), 1);
    m->n_units = heap < m->elem_bytes ? 0 : ((heap - m->elem_bytes) >> shift) + 1;
    return m->base && m->batch(m, index, 0, n) == n ? PGAS_OK : PGAS_ERR_RANGE;
}

static void on_message(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    union {
        answer_t answer;
        char bytes[MESSAGE_MAX];
    } reply;
    head_t h;
    pgasi_many_t m;
    (void)context;
    memcpy(&h, args, PGASI_MIN(bytes, sizeof h));
    if (bytes < sizeof h || !is_sane(&h, bytes))
        return;
    const uint32_t *index = (const uint32_t *)(const void *)((const char *)args + sizeof h);
    if (!pgasi_many_init(&m, (pgasi_many_kind_t)h.kind, h.op, (pgas_type_t)h.type, h.elem_bytes,
                         h.has_values ? (const char *)(index + h.n) : NULL))
        return;
    m.to = reply.answer.values;
    reply.answer.status = pgasi_many_carry_out(&m, pgasi_boot.rank, index, h.n);
    if (h.kind != PGASI_MANY_UPDATE)
        pgasi_reply(&reply, sizeof(answer_t) + (h.kind == PGASI_MANY_GET ? h.n * h.elem_bytes : 0));
    else if (reply.answer.status != PGAS_OK)
        PGASI_ERROR("many", "rank %d updates places outside of this rank's heap: ignored",
                    pgas_thread_rank(source));
}

/* ---- messages ---- */

/* Copies the values of an answer to their places. */
static void spread(char *to, const uint32_t *place, const char *values, size_t elem_bytes, size_t n)
{
    if (elem_bytes == sizeof(uint64_t))
        for (size_t i = 0; i < n; i++)
            memcpy(to + place[i] * sizeof(uint64_t), values + i * sizeof(uint64_t),
                   sizeof(uint64_t));
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + place[i] * elem_bytes, values + i * elem_bytes, elem_bytes);
}

/* The answer of a message is here, or will never come. */
static void answered(pgas_sync_t *sync, void *arg)
{
    record_t *r = arg;
    pgas_sync_info_t info = { .size = sizeof info };
    pgas_sync_info(sync, &info);
    pgas_status_t status = info.status != PGAS_OK ? info.status : r->answer->status;
    if (status == PGAS_OK && r->to)
        spread(r->to, r->place, r->answer->values, r->elem_bytes, r->n);
    if (r->user)
        pgasi_sync_lower(r->user, status, r->rank, r->to ? PGAS_OPERATION_GET : PGAS_OPERATION_PUT,
                         0);
    free(r);
    __atomic_sub_fetch(&n_records, 1, __ATOMIC_RELEASE);
}

static void wait_for_records(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (__atomic_load_n(&n_records, __ATOMIC_ACQUIRE) >= RECORDS_MAX)
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
}

static record_t *record_of(const pgasi_many_t *m, int rank, const uint32_t *place, uint32_t n)
{
    size_t places = PGASI_ALIGN_UP(n * sizeof(uint32_t), 8);
    size_t values = m->kind == PGASI_MANY_GET ? n * m->elem_bytes : 0;
    record_t *r = malloc(sizeof *r + places + sizeof *r->answer + values);
    if (!r)
        return NULL;
    *r = (record_t){ .arrived = PGAS_SYNC_INIT_FN(answered, r),
                     .user = m->sync,
                     .to = m->to,
                     .elem_bytes = m->elem_bytes,
                     .rank = rank,
                     .n = n,
                     .answer = (answer_t *)(void *)((char *)r->place + places) };
    if (m->kind == PGASI_MANY_GET)
        memcpy(r->place, place, n * sizeof *place);
    return r;
}

/* Sends a get or a put, whose owner answers. */
static pgas_status_t ask(const pgasi_many_t *m, int rank, const head_t *head, size_t bytes,
                         const uint32_t *place)
{
    wait_for_records();
    record_t *r = record_of(m, rank, place, head->n);
    if (!r)
        return PGAS_ERR_NO_MEMORY;
    size_t reply = sizeof(answer_t) + (m->kind == PGASI_MANY_GET ? head->n * m->elem_bytes : 0);
    __atomic_add_fetch(&n_records, 1, __ATOMIC_RELAXED);
    int64_t before = m->sync ? pgasi_sync_raise(m->sync) : 0;
    pgas_status_t status =
        pgasi_ask_nb(rank, PGASI_DESC_MANY, head, bytes, r->answer, reply, &r->arrived);
    if (status == PGAS_OK)
        return PGAS_OK;
    if (m->sync)
        pgasi_sync_refuse(m->sync, before);
    __atomic_sub_fetch(&n_records, 1, __ATOMIC_RELEASE);
    free(r);
    return status;
}

pgas_status_t pgasi_many_send(const pgasi_many_t *m, int rank, const pgasi_many_bucket_t *bucket,
                              size_t bytes, const uint32_t *places)
{
    if (m->kind != PGASI_MANY_UPDATE)
        return ask(m, rank, &bucket->head, bytes, places);
    return pgasi_sendq_call(rank, PGASI_DESC_MANY, bucket, bytes, NULL, PGAS_FULL_WAIT);
}

/* The bytes of a message. Over TCP, messages of 16 KiB have 1.2 to 1.5 times the rate of messages
 * of 8 KiB. A transport takes twice the largest call (pgasi_far_message_max), and a channel half a
 * chunk. */
static size_t message_bytes(void)
{
    size_t most = PGASI_MIN(2 * pgasi_param.call_max, pgasi_chunk_bytes / 2 - 64);
    return PGASI_MIN(most, MESSAGE_MAX);
}

uint32_t pgasi_many_per_message(const pgasi_many_t *m)
{
    size_t message = message_bytes() - sizeof(head_t), answer = message_bytes() - sizeof(answer_t);
    size_t sent = sizeof(uint32_t) + (m->kind == PGASI_MANY_GET ? 0 : m->step), n = message / sent;
    if (m->elem_bytes > ELEM_MAX)
        return 0;
    if (m->kind == PGASI_MANY_GET)
        n = PGASI_MIN(n, answer / m->elem_bytes);
    return (uint32_t)PGASI_MIN(n, PGASI_MANY_MOST);
}

/* ---- elements that travel alone ---- */

pgas_status_t pgasi_many_transfer(const pgasi_many_t *m, pgas_gptr_t ptr, size_t place)
{
    size_t at = place * m->elem_bytes;
    uint64_t value = 0, old;
    switch (m->kind) {
    case PGASI_MANY_GET:
        return pgas_get_nb(m->to + at, ptr, m->elem_bytes, m->sync);
    case PGASI_MANY_PUT:
        return pgas_put(ptr, m->from + at, m->elem_bytes);
    case PGASI_MANY_UPDATE:
        memcpy(&value, m->from + place * m->step, m->elem_bytes);
        return pgas_fetch_op_far(ptr, value, &old, m->op, m->type);
    }
    return PGAS_ERR_INTERNAL;
}

void pgasi_many_start(void)
{
    n_records = 0;
    pgasi_handler_set_internal(PGASI_DESC_MANY, on_message);
}
