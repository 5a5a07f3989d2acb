/* Objects at their owner: methods, and the requests that arrive. See pgas/object.h.
 *
 * All methods run under the receive lock, like handlers for any thread of the rank. Each object
 * also has a lock of its own. */
#include "object/objects.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "boot/boot.h"
#include "call/handler.h"
#include "call/sync.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/serve.h"
#include "object/named.h"

typedef struct {
    void *object;
    pthread_mutex_t running;
    int n_users; /* threads that have found it; under the lock of the table */
} object_t;

/* A method: the context of a registered handler. */
typedef struct method {
    struct method *next;
    pgas_method_fn_t fn;
    bool typed; /* requests must have the sizes below */
    size_t arg_bytes, result_bytes;
} method_t;

static struct {
    pgasi_named_t objects;
    method_t *methods; /* never shrinks */
} owner = { .objects = PGASI_NAMED_INIT(PGASI_NAMED_OBJECT) };

/* The objects whose methods the thread runs, the innermost first. */
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

/* ---- methods ---- */

/* A program may call a method as if it were a handler. Then there is no object to run it on. */
static void on_method(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
}

static const method_t *method_of(uint32_t number)
{
    if (number - 1u >= pgasi_n_handlers || pgasi_handlers[number].fn != on_method)
        return NULL;
    return pgasi_handlers[number].context;
}

bool pgasi_method_is_known(uint32_t method)
{
    return method_of(method);
}

/* The entry of a function, new if there is none. NULL: no memory. */
static method_t *method_with(const method_t *wanted)
{
    method_t *m = owner.methods;
    while (m && m->fn != wanted->fn)
        m = m->next;
    if (m || !(m = malloc(sizeof *m)))
        return m;
    *m = *wanted;
    m->next = owner.methods;
    owner.methods = m;
    return m;
}

pgas_status_t pgas_method_register_sized(const char *name, pgas_method_fn_t fn, size_t arg_bytes,
                                         size_t result_bytes, pgas_method_t *method_p)
{
    if (!fn)
        return PGAS_ERR_INVALID;
    method_t *m =
        method_with(&(method_t){ NULL, fn, arg_bytes != PGAS_METHOD_ANY, arg_bytes, result_bytes });
    return m ? pgas_handler_register(name, on_method, m, NULL, method_p) : PGAS_ERR_NO_MEMORY;
}

/* ---- objects ---- */

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
    pthread_mutex_lock(&owner.objects.lock);
    status = pgasi_named_add(&owner.objects, pgasi_boot.rank, o, name_p);
    pthread_mutex_unlock(&owner.objects.lock);
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
    if (name == 0)
        return PGAS_OK;
    if (pgasi_named_rank(name) != pgasi_boot.rank)
        return PGAS_ERR_RANGE;
    pthread_mutex_lock(&owner.objects.lock);
    object_t *o = pgasi_named_find(&owner.objects, name);
    bool again = o && is_inside(o);
    if (o && !again)
        pgasi_named_remove(&owner.objects, name);
    while (o && !again && o->n_users > 0) {
        pthread_mutex_unlock(&owner.objects.lock);
        sched_yield();
        pthread_mutex_lock(&owner.objects.lock);
    }
    pthread_mutex_unlock(&owner.objects.lock);
    if (!o || again)
        return o ? PGAS_ERR_DEADLOCK : PGAS_ERR_NOT_FOUND;
    release_object(o);
    return PGAS_OK;
}

/* ---- requests ---- */

static object_t *object_enter(pgas_object_t name, pgas_status_t *status_p)
{
    pthread_mutex_lock(&owner.objects.lock);
    object_t *o = pgasi_named_find(&owner.objects, name);
    bool again = o && is_inside(o);
    if (o && !again)
        o->n_users++;
    pthread_mutex_unlock(&owner.objects.lock);
    if (!o || again) {
        *status_p = o ? PGAS_ERR_DEADLOCK : PGAS_ERR_NOT_FOUND;
        return NULL;
    }
    *status_p = PGAS_OK;
    pthread_mutex_lock(&o->running);
    return o;
}

static void object_leave(object_t *o)
{
    pthread_mutex_unlock(&o->running);
    pthread_mutex_lock(&owner.objects.lock);
    o->n_users--;
    pthread_mutex_unlock(&owner.objects.lock);
}

static pgas_status_t run(object_t *o, const pgasi_object_request_t *r, const void *args,
                         void *result, pgas_thread_t source)
{
    const method_t *m = method_of(r->method);
    if (!m)
        return PGAS_ERR_NOT_FOUND;
    if (m->typed && (r->bytes != m->arg_bytes || r->result_bytes != m->result_bytes))
        return PGAS_ERR_MISMATCH;
    inside_t mine = { inside, o };
    inside = &mine;
    m->fn(o->object, args, r->bytes, result, r->result_bytes, source);
    inside = mine.outer;
    return PGAS_OK;
}

/* Runs the requests of a call. A request that exceeds the call, or the answer, ends it. */
static void run_all(const pgasi_object_call_t *head, const char *at, const char *end, char *answer,
                    int rank)
{
    pgas_status_t found;
    object_t *o = object_enter(head->object, &found);
    char *answer_end = answer + head->answer_bytes;
    for (uint32_t i = 0; i < head->n; i++) {
        pgasi_object_request_t r;
        if ((size_t)(end - at) < sizeof r)
            break;
        memcpy(&r, at, sizeof r);
        at += sizeof r;
        size_t left = (size_t)(answer_end - answer);
        if (r.bytes > (size_t)(end - at) || left < sizeof(pgasi_object_result_t) ||
            r.result_bytes > left - sizeof(pgasi_object_result_t))
            break;
        pgasi_object_result_t h = { found, 0 };
        if (o)
            h.status = run(o, &r, at, answer + sizeof h,
                           pgas_thread_make(rank, r.slot & PGAS_SLOT_SERVICE));
        memcpy(answer, &h, sizeof h);
        answer += PGASI_MIN(sizeof h + pgasi_object_padded(r.result_bytes), left);
        at += PGASI_MIN(pgasi_object_padded(r.bytes), (size_t)(end - at));
    }
    if (o)
        object_leave(o);
}

static void on_requests(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    _Alignas(8) char small[PGASI_OBJECT_ON_STACK];
    (void)context;
    pgasi_object_call_t head;
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

/* Takes the receive lock before the object's lock. So a thread that has an object never waits for
 * the receive lock, whose holder may wait for the object. */
pgas_status_t pgasi_object_run(pgas_object_t object, const pgasi_object_request_t *r,
                               const void *args, void *result)
{
    pgas_status_t status;
    bool served = pgasi_is_serving();
    pgasi_path_state_t before;
    if (!served)
        before = pgasi_serve_begin();
    object_t *o = object_enter(object, &status);
    if (o) {
        if (r->result_bytes)
            memset(result, 0, r->result_bytes);
        status = run(o, r, args, result, pgas_thread_self());
        object_leave(o);
    }
    if (!served)
        pgasi_serve_end(before);
    return status;
}

/* ---- start and stop ---- */

void pgasi_objects_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_OBJECT, on_requests);
}

void pgasi_objects_stop(void)
{
    pgasi_named_clear(&owner.objects, release_object);
}
