/* Elements of other ranks: gathered by rank into messages of up to PER_MESSAGE elements, which the
 * owner carries out as one batch. See many.h.
 *
 * A message is a head and the indices of its elements in the owner's heap, then the values of a
 * put or an update. The owner answers gets and puts. A record keeps what the answer needs: where
 * its values go, and the counter of the program. Updates have no answer; pgas_quiesce waits for
 * them as for calls. */
#include "many/many.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "base/sync.h"
#include "call/sync.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "msg/serve.h"
#include "pgas/atomic.h"
#include "pgas/rma.h"

#define PER_MESSAGE   512  /* elements of a message at most */
#define MESSAGE_MAX   6208 /* its bytes: a head, indices and values of 8 bytes */
#define ELEM_MAX      512  /* bytes of an element that travels in messages */
#define BUCKETS_BYTES ((size_t)1 << 20)
#define RECORDS_MAX   256 /* answers that a rank awaits at one time; then it waits for one */

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
    return h->n > 0 && h->n <= PER_MESSAGE && h->elem_bytes > 0 && h->elem_bytes <= ELEM_MAX &&
           bytes == sizeof *h + h->n * sizeof(uint32_t) + h->n * values;
}

/* Carries out a message. values: of a put or an update; results: of a get. */
static pgas_status_t carry_out(const head_t *h, const uint32_t *index, const char *values,
                               char *results)
{
    pgas_gptr_t heap = pgas_gptr_make(pgasi_boot.rank, PGASI_HEAP_OFFSET), ptrs[PER_MESSAGE];
    unsigned shift = (unsigned)__builtin_ctzll(h->elem_bytes);
    pgasi_many_t m;
    if (!pgasi_many_init(&m, (pgasi_many_kind_t)h->kind, h->op, (pgas_type_t)h->type, h->elem_bytes,
                         h->has_values ? values : NULL))
        return PGAS_ERR_UNSUPPORTED;
    m.to = results;
    for (size_t i = 0; i < h->n; i++)
        ptrs[i] = heap + ((uint64_t)index[i] << shift);
    return m.near(&m, ptrs, 0, h->n) == h->n ? PGAS_OK : PGAS_ERR_RANGE;
}

static void on_message(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    union {
        answer_t answer;
        char bytes[sizeof(answer_t) + MESSAGE_MAX];
    } reply;
    head_t h;
    (void)context;
    memcpy(&h, args, PGASI_MIN(bytes, sizeof h));
    if (bytes < sizeof h || !is_sane(&h, bytes))
        return;
    const uint32_t *index = (const uint32_t *)(const void *)((const char *)args + sizeof h);
    reply.answer.status = carry_out(&h, index, (const char *)(index + h.n), reply.answer.values);
    if (h.kind != PGASI_MANY_UPDATE)
        pgasi_reply(&reply, sizeof(answer_t) + (h.kind == PGASI_MANY_GET ? h.n * h.elem_bytes : 0));
    else if (reply.answer.status != PGAS_OK)
        PGASI_ERROR("many", "rank %d updates places outside of this rank's heap: ignored",
                    pgas_thread_rank(source));
}

/* ---- messages ---- */

/* The answer of a message is here, or will never come. */
static void answered(pgas_sync_t *sync, void *arg)
{
    record_t *r = arg;
    pgas_sync_info_t info = { .size = sizeof info };
    pgas_sync_info(sync, &info);
    pgas_status_t status = info.status != PGAS_OK ? info.status : r->answer->status;
    if (status == PGAS_OK && r->to)
        for (uint32_t i = 0; i < r->n; i++)
            memcpy(r->to + r->place[i] * r->elem_bytes, r->answer->values + i * r->elem_bytes,
                   r->elem_bytes);
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

pgas_status_t pgasi_many_far_send(pgasi_many_far_t *far, int rank)
{
    const pgasi_many_t *m = far->m;
    char *bucket = far->buckets + (size_t)rank * far->bytes;
    head_t *head = (head_t *)(void *)bucket;
    uint32_t *index = (uint32_t *)(void *)(head + 1);
    char *behind = (char *)(index + head->n);
    size_t values = head->has_values ? head->n * m->elem_bytes : 0;
    size_t bytes = (size_t)(behind - bucket) + values;
    pgas_status_t status;
    if (values && behind != bucket + far->values_at)
        memmove(behind, bucket + far->values_at, values);
    status = m->kind == PGASI_MANY_UPDATE
                 ? pgasi_sendq_call(rank, PGASI_DESC_MANY, bucket, bytes, NULL, PGAS_FULL_WAIT)
                 : ask(m, rank, head, bytes, (const uint32_t *)(void *)(bucket + far->values_at));
    head->n = 0;
    /* Ranks that update each other's words fill each other's channels. Each drains its own between
     * two messages, while the messages are still in a cache. */
    if (m->kind == PGASI_MANY_UPDATE)
        pgasi_progress();
    return status;
}

/* ---- elements that travel alone ---- */

static pgas_status_t transfer(pgasi_many_far_t *far, pgas_gptr_t ptr, size_t place)
{
    const pgasi_many_t *m = far->m;
    size_t at = place * m->elem_bytes;
    uint64_t value = 0, old;
    switch (m->kind) {
    case PGASI_MANY_GET:
        return pgas_get_nb(m->to + at, ptr, m->elem_bytes, m->sync);
    case PGASI_MANY_PUT:
        far->must_flush = true;
        return pgas_put(ptr, m->from + at, m->elem_bytes);
    case PGASI_MANY_UPDATE:
        memcpy(&value, m->from + place * m->step, m->elem_bytes);
        return pgas_fetch_op_far(ptr, value, &old, m->op, m->type);
    }
    return PGAS_ERR_INTERNAL;
}

/* ---- buckets ---- */

/* The elements of a message, so that neither it nor its answer exceeds PGAS_CALL_MAX. */
static uint32_t per_message(const pgasi_many_t *m)
{
    size_t room = PGASI_MIN(pgasi_param.call_max, MESSAGE_MAX) - sizeof(head_t);
    size_t each = m->elem_bytes + (m->kind == PGASI_MANY_GET ? 0 : sizeof(uint32_t));
    if (m->kind != PGASI_MANY_GET && !m->step)
        each = sizeof(uint32_t);
    return (uint32_t)PGASI_MIN(room / PGASI_MAX(each, sizeof(uint32_t)), PER_MESSAGE);
}

void pgasi_many_far_begin(pgasi_many_far_t *far, const pgasi_many_t *m, size_t n)
{
    uint32_t each = per_message(m);
    size_t value_bytes = m->kind == PGASI_MANY_GET ? sizeof(uint32_t) : m->step;
    size_t n_ranks = (size_t)pgasi_boot.n_ranks;
    size_t room = PGASI_MAX(BUCKETS_BYTES / n_ranks / (sizeof(uint32_t) + value_bytes), 8);
    *far = (pgasi_many_far_t){ .m = m, .shift = (unsigned)__builtin_ctzll(m->elem_bytes) };
    if (each == 0 || m->elem_bytes > ELEM_MAX)
        return;
    far->limit = PGASI_MIN(pgasi_param.heap_size, UINT64_C(1) << 32 << far->shift);
    far->per_rank = PGASI_MIN(each, (uint32_t)PGASI_MIN(room, n));
    far->values_at = (uint32_t)(sizeof(head_t) + far->per_rank * sizeof(uint32_t));
    far->bytes = (uint32_t)PGASI_ALIGN_UP(far->values_at + far->per_rank * value_bytes, 64);
}

pgas_status_t pgasi_many_far_open(pgasi_many_far_t *far)
{
    const pgasi_many_t *m = far->m;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK || far->limit == 0)
        return status;
    far->buckets = malloc((size_t)pgasi_boot.n_ranks * far->bytes);
    if (!far->buckets)
        return PGAS_ERR_NO_MEMORY;
    far->n_ranks = (uint32_t)pgasi_boot.n_ranks;
    for (uint32_t rank = 0; rank < far->n_ranks; rank++)
        *(head_t *)(void *)(far->buckets + (size_t)rank * far->bytes) =
            (head_t){ (uint8_t)m->kind,
                      (uint8_t)m->op,
                      (uint8_t)m->type,
                      m->kind != PGASI_MANY_GET && m->step,
                      0,
                      (uint16_t)m->elem_bytes };
    return PGAS_OK;
}

pgas_status_t pgasi_many_far_add_slow(pgasi_many_far_t *far, pgas_gptr_t ptr, size_t place)
{
    uint64_t inside = pgas_gptr_offset(ptr) - PGASI_HEAP_OFFSET;
    bool fits = pgas_gptr_rank(ptr) < pgasi_boot.n_ranks && inside < far->limit &&
                (inside & ((UINT64_C(1) << far->shift) - 1)) == 0;
    if (!fits)
        return transfer(far, ptr, place);
    pgas_status_t status = pgasi_many_far_open(far);
    return status != PGAS_OK ? status : pgasi_many_far_add(far, ptr, place);
}

pgas_status_t pgasi_many_far_end(pgasi_many_far_t *far)
{
    pgas_status_t status = PGAS_OK;
    for (uint32_t rank = 0; rank < far->n_ranks && status == PGAS_OK; rank++)
        if (((const head_t *)(const void *)(far->buckets + (size_t)rank * far->bytes))->n)
            status = pgasi_many_far_send(far, (int)rank);
    free(far->buckets);
    return far->must_flush && status == PGAS_OK ? pgas_flush_all() : status;
}

void pgasi_many_start(void)
{
    n_records = 0;
    pgasi_handler_set_internal(PGASI_DESC_MANY, on_message);
}
