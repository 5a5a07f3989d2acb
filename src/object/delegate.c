/* Delegation and combining: see pgas/delegate.h.
 *
 * A call carries requests for one object, one or many; its answer carries their results. With
 * combining, threads push what they want onto a list and one of them, the first that finds the
 * list's mark free, takes the whole list, oldest first, and sends it in as few calls as
 * PGAS_CALL_MAX allows; the others wait. Lists are chosen by a hash of the object's name, so
 * objects seldom wait for each other. */
#include "object/delegate.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "object/named.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "call/sync.h"
#include "mem/thread.h"

#define N_LISTS  64
#define ON_STACK 1024

/* A call: this, then each request with its arguments, padded to 8. The answer: each result head
 * with its result. */
typedef struct {
    pgas_object_t object;
    uint32_t n, answer_bytes;
} call_head_t;

typedef struct {
    uint32_t bytes, result_bytes;
    uint16_t op;
    uint16_t slot; /* of who asked */
    uint32_t unused;
} request_head_t;

typedef struct {
    int32_t status;
    uint32_t unused;
} result_head_t;

PGASI_STATIC_ASSERT(sizeof(call_head_t) + sizeof(request_head_t) <= 32, "pgas/delegate.h says 32");

typedef struct request {
    struct request *next;
    pgas_object_t object;
    const void *args;
    void *result;
    request_head_t head;
    pgas_status_t status;
    bool done;
} request_t;

pgasi_delegate_stats_t pgasi_delegate_stats;

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* ---- the owner ---- */

typedef struct {
    void *object;
    pthread_mutex_t running;
    int n_users; /* that have found it; with the lock of the table held */
} object_t;

/* An operation stands in a handler's context. */
typedef struct op {
    struct op *next;
    pgas_op_fn_t fn;
} op_t;

static pgasi_named_t objects = PGASI_NAMED_INIT;
static op_t *ops;
/* The objects whose operations the thread runs, the innermost first. */
typedef struct inside {
    const struct inside *outer;
    const object_t *object;
} inside_t;
static __thread const inside_t *inside __attribute__((tls_model("initial-exec")));

static bool is_inside(const object_t *o)
{
    const inside_t *at = inside;
    while (at && at->object != o)
        at = at->outer;
    return at;
}

/* Called by number as if it were a handler: there is no object to run it on. */
static void on_op(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
}

static pgas_op_fn_t op_of(uint32_t number)
{
    if (number - 1u >= pgasi_n_handlers || pgasi_handlers[number].fn != on_op)
        return NULL;
    return ((const op_t *)pgasi_handlers[number].context)->fn;
}

static object_t *object_enter(pgas_object_t name, pgas_status_t *status_p)
{
    pthread_mutex_lock(&objects.lock);
    object_t *o = pgasi_named_find(&objects, name);
    bool again = o && is_inside(o);
    if (o && !again)
        o->n_users++;
    pthread_mutex_unlock(&objects.lock);
    *status_p = !o ? PGAS_ERR_NOT_FOUND : again ? PGAS_ERR_DEADLOCK : PGAS_OK;
    if (*status_p != PGAS_OK)
        return NULL;
    pthread_mutex_lock(&o->running);
    return o;
}

static void object_leave(object_t *o)
{
    pthread_mutex_unlock(&o->running);
    pthread_mutex_lock(&objects.lock);
    o->n_users--;
    pthread_mutex_unlock(&objects.lock);
}

static pgas_status_t run(object_t *o, const request_head_t *r, const void *args, void *result,
                         pgas_thread_t source)
{
    pgas_op_fn_t fn = op_of(r->op);
    if (!fn)
        return PGAS_ERR_NOT_FOUND;
    inside_t mine = { inside, o };
    inside = &mine;
    fn(o->object, args, r->bytes, result, r->result_bytes, source);
    inside = mine.outer;
    return PGAS_OK;
}

/* The requests of a call; what does not fit in it, or in the answer, ends it. */
static void run_all(const call_head_t *head, const char *at, const char *end, char *answer,
                    int rank)
{
    pgas_status_t found;
    object_t *o = object_enter(head->object, &found);
    char *answer_end = answer + head->answer_bytes;
    for (uint32_t i = 0; i < head->n; i++) {
        request_head_t r;
        if ((size_t)(end - at) < sizeof r)
            break;
        memcpy(&r, at, sizeof r);
        at += sizeof r;
        size_t left = (size_t)(answer_end - answer);
        if (r.bytes > (size_t)(end - at) || left < sizeof(result_head_t) ||
            r.result_bytes > left - sizeof(result_head_t))
            break;
        result_head_t h = { found, 0 };
        if (o)
            h.status = run(o, &r, at, answer + sizeof h,
                           pgas_thread_make(rank, r.slot & PGAS_SLOT_SERVICE));
        memcpy(answer, &h, sizeof h);
        answer += PGASI_MIN(sizeof h + padded(r.result_bytes), left);
        at += PGASI_MIN(padded(r.bytes), (size_t)(end - at));
    }
    if (o)
        object_leave(o);
}

static void on_delegate(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    _Alignas(8) char small[ON_STACK];
    (void)context;
    call_head_t head;
    if (bytes < sizeof head)
        return;
    memcpy(&head, args, sizeof head);
    if (head.answer_bytes > pgasi_param.call_max)
        return;
    char *answer = head.answer_bytes <= sizeof small ? small : malloc(head.answer_bytes);
    if (!answer)
        return; /* the caller gets PGAS_ERR_MISMATCH */
    memset(answer, 0, head.answer_bytes);
    run_all(&head, (const char *)args + sizeof head, (const char *)args + bytes, answer,
            pgas_thread_rank(source));
    pgasi_reply(answer, head.answer_bytes);
    if (answer != small)
        free(answer);
}

/* ---- who asks ---- */

/* How many of the list fit one call: those of the first's object, up to one of another. */
static uint32_t measure(const request_t *r, size_t *bytes_p, size_t *answer_p)
{
    size_t bytes = sizeof(call_head_t), answer = 0;
    uint32_t n = 0;
    for (const request_t *at = r; at && at->object == r->object; at = at->next, n++) {
        size_t more = sizeof at->head + padded(at->head.bytes);
        size_t back = sizeof(result_head_t) + padded(at->head.result_bytes);
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
    call_head_t head = { r->object, n, (uint32_t)answer_bytes };
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    for (; n > 0; n--, r = r->next) {
        memcpy(to, &r->head, sizeof r->head);
        to += sizeof r->head;
        if (r->head.bytes)
            memcpy(to, r->args, r->head.bytes);
        to += padded(r->head.bytes);
    }
}

static void finish(request_t *r, pgas_status_t status)
{
    r->status = status;
    __atomic_store_n(&r->done, true, __ATOMIC_RELEASE); /* its memory is its thread's from now on */
}

static request_t *unpack(request_t *r, uint32_t n, pgas_status_t status, const char *answer)
{
    for (; n > 0; n--) {
        request_t *next = r->next;
        result_head_t h = { status, 0 };
        if (status == PGAS_OK) {
            memcpy(&h, answer, sizeof h);
            if (h.status == PGAS_OK && r->head.result_bytes)
                memcpy(r->result, answer + sizeof h, r->head.result_bytes);
            answer += sizeof h + padded(r->head.result_bytes);
        }
        finish(r, (pgas_status_t)h.status);
        r = next;
    }
    return r;
}

/* One call for the first requests of the list; returns the rest. */
static request_t *send_some(request_t *r)
{
    _Alignas(8) char small[ON_STACK];
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
    int taken; /* somebody is sending what was on the list */
} list_t;

static list_t lists[N_LISTS];

static void lay_down(list_t *l, request_t *r)
{
    r->next = __atomic_load_n(&l->newest, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&l->newest, &r->next, r, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
    __atomic_add_fetch(&pgasi_delegate_stats.n_laid_down, 1, __ATOMIC_RELEASE);
}

/* All that lies there: those of one object together, oldest first. */
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
    lay_down(l, r);
    while (!__atomic_load_n(&r->done, __ATOMIC_ACQUIRE)) {
        int free_mark = 0;
        if (!__atomic_compare_exchange_n(&l->taken, &free_mark, 1, false, __ATOMIC_ACQUIRE,
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

pgas_status_t pgas_op_register(const char *name, pgas_op_fn_t fn, pgas_handler_t *op_p)
{
    if (!fn)
        return PGAS_ERR_INVALID;
    op_t *op = ops;
    while (op && op->fn != fn)
        op = op->next;
    bool fresh = !op;
    if (fresh && !(op = malloc(sizeof *op)))
        return PGAS_ERR_NO_MEMORY;
    op->fn = fn;
    pgas_status_t status = pgas_handler_register(name, on_op, op, op_p);
    if (status != PGAS_OK) {
        if (fresh)
            free(op);
    } else if (fresh) {
        op->next = ops;
        ops = op;
    }
    return status;
}

pgas_status_t pgas_object_create(void *object, pgas_object_t *name_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!object || !name_p)
        return PGAS_ERR_INVALID;
    object_t *o = calloc(1, sizeof *o);
    if (!o)
        return PGAS_ERR_NO_MEMORY;
    o->object = object;
    pthread_mutex_init(&o->running, NULL);
    pthread_mutex_lock(&objects.lock);
    status = pgasi_named_add(&objects, pgasi_boot.rank, o, name_p);
    pthread_mutex_unlock(&objects.lock);
    if (status != PGAS_OK)
        free(o);
    return status;
}

static void release_object(void *thing)
{
    object_t *o = thing;
    pthread_mutex_destroy(&o->running);
    free(o);
}

pgas_status_t pgas_object_destroy(pgas_object_t name)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (name && pgasi_named_rank(name) != pgasi_boot.rank)
        return PGAS_ERR_RANGE;
    pthread_mutex_lock(&objects.lock);
    object_t *o = pgasi_named_find(&objects, name);
    bool again = o && is_inside(o);
    if (o && !again)
        pgasi_named_remove(&objects, name);
    while (o && !again && o->n_users > 0) {
        pthread_mutex_unlock(&objects.lock);
        sched_yield();
        pthread_mutex_lock(&objects.lock);
    }
    pthread_mutex_unlock(&objects.lock);
    if (!o || again)
        return o ? PGAS_ERR_DEADLOCK : PGAS_ERR_NOT_FOUND;
    release_object(o);
    return PGAS_OK;
}

/* In a handler. All operations run as handlers do that run for any thread: one that holds an object
 * never waits for the receive lock, which others hold that wait for the object. */
static pgas_status_t run_here(const request_t *r)
{
    pgas_status_t status;
    bool served = pgasi_is_serving();
    pgasi_path_state_t before;
    if (!served)
        before = pgasi_serve_begin();
    object_t *o = object_enter(r->object, &status);
    if (o) {
        if (r->head.result_bytes)
            memset(r->result, 0, r->head.result_bytes);
        status = run(o, &r->head, r->args, r->result, pgas_thread_self());
        object_leave(o);
    }
    if (!served)
        pgasi_serve_end(before);
    return status;
}

static pgas_status_t check(const request_t *r, const pgas_delegate_opts_t *o)
{
    size_t most = pgasi_param.call_max - 32;
    if ((unsigned)o->way > PGAS_DELEGATE_HTM || !r->object ||
        pgasi_named_rank(r->object) >= pgasi_boot.n_ranks)
        return PGAS_ERR_INVALID;
    if (o->way == PGAS_DELEGATE_HTM) {
        static int told;
        if (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED) == 0)
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
    return op_of(r->head.op) ? PGAS_OK : PGAS_ERR_NOT_FOUND;
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
    r.head =
        (request_head_t){ (uint32_t)PGASI_MIN(bytes, most), (uint32_t)PGASI_MIN(result_bytes, most),
                          op, (uint16_t)pgasi_self.slot, 0 };
    status = check(&r, &o);
    if (status != PGAS_OK)
        return status;
    if (pgasi_self.in_handler)
        return pgasi_named_rank(object) == pgasi_boot.rank ? run_here(&r) : PGAS_ERR_CONTEXT;
    if (o.way == PGAS_DELEGATE_COMBINE)
        combine(&r);
    else
        send_some(&r);
    return r.status;
}

void pgasi_delegate_start(void)
{
    pgasi_delegate_stats = (pgasi_delegate_stats_t){ 0, 0, 0 };
    pgasi_handler_set_internal(PGASI_DESC_DELEGATE, on_delegate);
}

void pgasi_delegate_stop(void)
{
    pgasi_named_clear(&objects, release_object);
}
