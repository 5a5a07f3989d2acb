/* Delegation and combining: see pgas/delegate.h.
 *
 * A call carries one or more requests for one object; its answer carries their results. With
 * combining, threads push their requests onto a list. The first thread that finds the list's flag
 * clear takes the whole list, and sends it, oldest first, in as few calls as PGAS_CALL_MAX allows.
 * The other threads wait. A hash of the object's name selects one of N_LISTS lists, so objects
 * seldom wait for each other. */
#include "object/delegate.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/sync.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "object/named.h"
#include "object/objects.h"

#define N_LISTS 64

typedef struct request {
    struct request *next;
    pgas_object_t object;
    const void *args;
    void *result;
    pgasi_delegate_request_t head;
    pgas_status_t status;
    bool done;
} request_t;

pgasi_delegate_stats_t pgasi_delegate_stats;

/* ---- one call ---- */

/* The number of requests that fit one call: from the first on, and all for the same object. */
static uint32_t measure(const request_t *r, size_t *bytes_p, size_t *answer_p)
{
    size_t bytes = sizeof(pgasi_delegate_call_t), answer = 0;
    uint32_t n = 0;
    for (const request_t *at = r; at && at->object == r->object; at = at->next, n++) {
        size_t more = sizeof at->head + pgasi_delegate_padded(at->head.bytes);
        size_t back =
            sizeof(pgasi_delegate_result_t) + pgasi_delegate_padded(at->head.result_bytes);
        if (n && (bytes + more > pgasi_param.call_max || answer + back > pgasi_param.call_max))
            break;
        bytes += more;
        answer += back;
    }
    *bytes_p = bytes;
    *answer_p = answer;
    return n;
}

static void pack(const request_t *r, uint32_t n, char *to, size_t answer_bytes)
{
    pgasi_delegate_call_t head = { r->object, n, (uint32_t)answer_bytes };
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    for (; n > 0; n--, r = r->next) {
        memcpy(to, &r->head, sizeof r->head);
        to += sizeof r->head;
        if (r->head.bytes)
            memcpy(to, r->args, r->head.bytes);
        to += pgasi_delegate_padded(r->head.bytes);
    }
}

static void finish(request_t *r, pgas_status_t status)
{
    r->status = status;
    __atomic_store_n(&r->done, true, __ATOMIC_RELEASE); /* from now on its thread may reuse it */
}

static request_t *unpack(request_t *r, uint32_t n, pgas_status_t status, const char *answer)
{
    for (; n > 0; n--) {
        request_t *next = r->next;
        pgasi_delegate_result_t h = { status, 0 };
        if (status == PGAS_OK) {
            memcpy(&h, answer, sizeof h);
            if (h.status == PGAS_OK && r->head.result_bytes)
                memcpy(r->result, answer + sizeof h, r->head.result_bytes);
            answer += sizeof h + pgasi_delegate_padded(r->head.result_bytes);
        }
        finish(r, (pgas_status_t)h.status);
        r = next;
    }
    return r;
}

/* Makes one call for the first requests of the list. @return the rest of the list */
static request_t *send_some(request_t *r)
{
    _Alignas(8) char small[PGASI_DELEGATE_ON_STACK];
    size_t bytes, answer_bytes;
    uint32_t n = measure(r, &bytes, &answer_bytes);
    char *both = bytes + answer_bytes <= sizeof small ? small : malloc(bytes + answer_bytes);
    if (!both)
        return unpack(r, n, PGAS_ERR_NO_MEMORY, NULL);
    memset(both, 0, bytes);
    pack(r, n, both, answer_bytes);
    __atomic_add_fetch(&pgasi_delegate_stats.n_calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&pgasi_delegate_stats.n_requests, n, __ATOMIC_RELAXED);
    pgas_status_t status = pgasi_ask(pgasi_named_rank(r->object), PGASI_DESC_DELEGATE, both, bytes,
                                     both + bytes, answer_bytes);
    request_t *rest = unpack(r, n, status, both + bytes);
    if (both != small)
        free(both);
    return rest;
}

/* ---- combining ---- */

typedef struct {
    PGASI_ALIGNED(64) request_t *newest;
    int taken; /* a thread is sending the requests that it has taken */
} list_t;

static list_t lists[N_LISTS];

static void push_request(list_t *l, request_t *r)
{
    r->next = __atomic_load_n(&l->newest, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&l->newest, &r->next, r, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
    __atomic_add_fetch(&pgasi_delegate_stats.n_pushed, 1, __ATOMIC_RELEASE);
}

/* Takes the whole list. Requests for one object are together, oldest first. */
static request_t *take_all(list_t *l)
{
    request_t *newest = __atomic_exchange_n(&l->newest, NULL, __ATOMIC_ACQUIRE), *oldest = NULL,
              *sorted = NULL;
    while (newest) {
        request_t *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    for (request_t **end = &sorted; oldest;) {
        pgas_object_t object = oldest->object;
        for (request_t **at = &oldest; *at;) {
            request_t *r = *at;
            if (r->object != object) {
                at = &r->next;
                continue;
            }
            *at = r->next;
            r->next = NULL;
            *end = r;
            end = &r->next;
        }
    }
    return sorted;
}

static void combine(request_t *r)
{
    list_t *l = &lists[pgasi_hash_u64(r->object) % N_LISTS];
    pgasi_wait_t w = PGASI_WAIT_INIT;
    push_request(l, r);
    while (!__atomic_load_n(&r->done, __ATOMIC_ACQUIRE)) {
        int clear = 0;
        if (!__atomic_compare_exchange_n(&l->taken, &clear, 1, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED)) {
            pgasi_wait_step(&w);
            continue;
        }
        pgasi_wait_end(&w);
        w = (pgasi_wait_t)PGASI_WAIT_INIT;
        for (request_t *some = take_all(l); some;)
            some = send_some(some);
        __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
        pgasi_wake(pgasi_boot.node_rank);
    }
    pgasi_wait_end(&w);
}

/* ---- public ---- */

static pgas_status_t check(const request_t *r, const pgas_delegate_opts_t *o)
{
    size_t most = pgasi_param.call_max - 32;
    if ((unsigned)o->way > PGAS_DELEGATE_HTM || !r->object ||
        pgasi_named_rank(r->object) >= pgasi_boot.n_ranks)
        return PGAS_ERR_INVALID;
    if (o->way == PGAS_DELEGATE_HTM) {
        static int logged;
        if (__atomic_exchange_n(&logged, 1, __ATOMIC_RELAXED) == 0)
            PGASI_WARN("delegate",
                       "PGAS_DELEGATE_HTM is refused: hardware transactions are switched off on "
                       "most processors, "
                       "may always abort, and do not reach other nodes; use PGAS_DELEGATE_COMBINE");
        return PGAS_ERR_UNSUPPORTED;
    }
    if ((!r->args && r->head.bytes) || (!r->result && r->head.result_bytes))
        return PGAS_ERR_INVALID;
    if (r->head.bytes > most || r->head.result_bytes > most)
        return PGAS_ERR_LIMIT;
    return pgasi_op_is_known(r->head.op) ? PGAS_OK : PGAS_ERR_NOT_FOUND;
}

pgas_status_t pgas_delegate(pgas_object_t object, pgas_handler_t op, const void *args, size_t bytes,
                            void *result, size_t result_bytes, const pgas_delegate_opts_t *opts)
{
    pgas_delegate_opts_t o = PGAS_DELEGATE_OPTS_INIT;
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!PGASI_OPTS_SANE(opts, sizeof o))
        return PGAS_ERR_INVALID;
    if (opts)
        o = *opts;
    size_t most = UINT32_MAX;
    request_t r = { .object = object, .args = args, .result = result };
    r.head = (pgasi_delegate_request_t){ (uint32_t)PGASI_MIN(bytes, most),
                                         (uint32_t)PGASI_MIN(result_bytes, most), op,
                                         (uint16_t)pgasi_self.slot, 0 };
    status = check(&r, &o);
    if (status != PGAS_OK)
        return status;
    if (pgasi_self.in_handler)
        return pgasi_named_rank(object) == pgasi_boot.rank
                   ? pgasi_object_run(object, &r.head, args, result)
                   : PGAS_ERR_CONTEXT;
    if (o.way == PGAS_DELEGATE_COMBINE)
        combine(&r);
    else
        send_some(&r);
    return r.status;
}

void pgasi_delegate_start(void)
{
    pgasi_delegate_stats = (pgasi_delegate_stats_t){ 0, 0, 0 };
}
