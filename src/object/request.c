/* Requests for objects, and combining: see pgas/object.h.
 *
 * A call carries one or more requests for one object; its answer carries their results. A thread
 * that finds no other one sending to the object marks the object's list as taken, and sends its own
 * request. Meanwhile threads with requests for the same object push them onto the list. When the
 * list is free again, one of these threads takes all of them, and sends them, oldest first, in as
 * few calls as PGAS_CALL_MAX allows. A hash of the object's name selects one of N_LISTS lists. A
 * thread that finds the list taken for another object does not wait: it sends its request. */
#include "object/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
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
    pgasi_object_request_t head;
    pgas_status_t status;
    bool done;
} request_t;

pgasi_object_stats_t pgasi_object_stats;

/* ---- one call ---- */

/* The number of requests that fit one call: from the first on, and all for the same object. */
static uint32_t measure(const request_t *r, size_t *bytes_p, size_t *answer_p)
{
    size_t bytes = sizeof(pgasi_object_call_t), answer = 0;
    uint32_t n = 0;
    for (const request_t *at = r; at && at->object == r->object; at = at->next, n++) {
        size_t more = sizeof at->head + pgasi_object_padded(at->head.bytes);
        size_t back = sizeof(pgasi_object_result_t) + pgasi_object_padded(at->head.result_bytes);
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
    pgasi_object_call_t head = { r->object, n, (uint32_t)answer_bytes };
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    for (; n > 0; n--, r = r->next) {
        memcpy(to, &r->head, sizeof r->head);
        to += sizeof r->head;
        if (r->head.bytes)
            memcpy(to, r->args, r->head.bytes);
        to += pgasi_object_padded(r->head.bytes);
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
        pgasi_object_result_t h = { status, 0 };
        if (status == PGAS_OK) {
            memcpy(&h, answer, sizeof h);
            if (h.status == PGAS_OK && r->head.result_bytes)
                memcpy(r->result, answer + sizeof h, r->head.result_bytes);
            answer += sizeof h + pgasi_object_padded(r->head.result_bytes);
        }
        finish(r, (pgas_status_t)h.status);
        r = next;
    }
    return r;
}

/* Makes one call for the first requests of the list. @return the rest of the list */
static request_t *send_some(request_t *r)
{
    _Alignas(8) char small[PGASI_OBJECT_ON_STACK];
    size_t bytes, answer_bytes;
    uint32_t n = measure(r, &bytes, &answer_bytes);
    char *both = bytes + answer_bytes <= sizeof small ? small : malloc(bytes + answer_bytes);
    if (!both)
        return unpack(r, n, PGAS_ERR_NO_MEMORY, NULL);
    memset(both, 0, bytes);
    pack(r, n, both, answer_bytes);
    __atomic_add_fetch(&pgasi_object_stats.n_calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&pgasi_object_stats.n_requests, n, __ATOMIC_RELAXED);
    pgas_status_t status = pgasi_ask(pgasi_named_rank(r->object), PGASI_DESC_OBJECT, both, bytes,
                                     both + bytes, answer_bytes);
    request_t *rest = unpack(r, n, status, both + bytes);
    if (both != small)
        free(both);
    return rest;
}

/* ---- combining ---- */

typedef struct {
    PGASI_ALIGNED(64) request_t *newest;
    pgas_object_t taken; /* a thread is sending requests for this object; 0: none is */
} list_t;

static list_t lists[N_LISTS];

static void push_request(list_t *l, request_t *r)
{
    r->next = __atomic_load_n(&l->newest, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&l->newest, &r->next, r, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
    __atomic_add_fetch(&pgasi_object_stats.n_pushed, 1, __ATOMIC_RELEASE);
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

/* Marks the list as taken for an object. @return 0, or the object for which it is taken */
static pgas_object_t take(list_t *l, pgas_object_t object)
{
    pgas_object_t taken = 0;
    __atomic_compare_exchange_n(&l->taken, &taken, object, false, __ATOMIC_ACQUIRE,
                                __ATOMIC_RELAXED);
    return taken;
}

static void give_back(list_t *l)
{
    __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

/* Queues a request and waits until it is done. This thread sends the queue if the list is free. */
static void combine(list_t *l, request_t *r)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    push_request(l, r);
    while (!__atomic_load_n(&r->done, __ATOMIC_ACQUIRE)) {
        if (take(l, r->object) != 0) {
            pgasi_wait_step(&w);
            continue;
        }
        pgasi_wait_end(&w);
        w = (pgasi_wait_t)PGASI_WAIT_INIT;
        for (request_t *some = take_all(l); some;)
            some = send_some(some);
        give_back(l);
    }
    pgasi_wait_end(&w);
}

static void send_request(request_t *r)
{
    list_t *l = &lists[pgasi_hash_u64(r->object) % N_LISTS];
    pgas_object_t taken = take(l, r->object);
    if (taken == r->object) {
        combine(l, r);
        return;
    }
    send_some(r);
    if (taken == 0)
        give_back(l);
}

/* ---- public ---- */

static pgas_status_t check(const request_t *r)
{
    size_t most = pgasi_param.call_max - 32;
    if (!r->object || pgasi_named_rank(r->object) >= pgasi_boot.n_ranks)
        return PGAS_ERR_INVALID;
    if ((!r->args && r->head.bytes) || (!r->result && r->head.result_bytes))
        return PGAS_ERR_INVALID;
    if (r->head.bytes > most || r->head.result_bytes > most)
        return PGAS_ERR_LIMIT;
    return pgasi_method_is_known(r->head.method) ? PGAS_OK : PGAS_ERR_NOT_FOUND;
}

pgas_status_t pgas_object_call(pgas_object_t object, pgas_method_t method, const void *args,
                               size_t bytes, void *result, size_t result_bytes)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    size_t most = UINT32_MAX;
    request_t r = { .object = object, .args = args, .result = result };
    r.head = (pgasi_object_request_t){ (uint32_t)PGASI_MIN(bytes, most),
                                       (uint32_t)PGASI_MIN(result_bytes, most), method,
                                       (uint16_t)pgasi_self.slot, 0 };
    status = check(&r);
    if (status != PGAS_OK)
        return status;
    if (pgasi_self.in_handler)
        return pgasi_named_rank(object) == pgasi_boot.rank
                   ? pgasi_object_run(object, &r.head, args, result)
                   : PGAS_ERR_CONTEXT;
    send_request(&r);
    return r.status;
}

void pgasi_requests_start(void)
{
    pgasi_object_stats = (pgasi_object_stats_t){ 0, 0, 0 };
}
