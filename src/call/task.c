/* Handler threads: see task.h.
 *
 * Shaped for handlers that wait now and then, some hundred at a time: threads of the operating
 * system rather than stacks of our own, so that a handler is ordinary code for debuggers,
 * sanitizers and thread-local memory. Two queues under one lock: calls that need the baton, and the
 * rest. Whoever takes up waiting passes the baton to one who waits no longer, else to the next
 * call. */
#include "call/task.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "msg/send_queue.h"
#include "call/call.h"
#include "call/sync.h"
#include "mem/thread.h"

typedef struct task {
    struct task *next;
    void (*fn)(void *arg);
    void *arg;
    pgasi_task_call_t call;
    size_t bytes;
    _Alignas(16) char args[];
} task_t;

typedef struct {
    task_t *first, **end;
} queue_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, back = PTHREAD_COND_INITIALIZER;
static queue_t calls, others;
static bool baton_held, stopping;
static bool stopped;                          /* nobody takes up anything any more */
static int n_idle, n_back, n_threads, n_away; /* away: in a wait, without the baton */
static int n_ever;                            /* threads that were started */
static uint64_t n_pending;
static pthread_t *threads;

static void *thread_main(void *unused);

/* ---- lock held ---- */

static bool has_work(void)
{
    return others.first || (calls.first && !baton_held && n_back == 0);
}

static void put(queue_t *q, task_t *t)
{
    t->next = NULL;
    *q->end = t;
    q->end = &t->next;
}

static task_t *take(queue_t *q)
{
    task_t *t = q->first;
    q->first = t->next;
    if (!t->next)
        q->end = &q->first;
    return t;
}

/* Sees to it that somebody takes up what may be taken up. */
static void call_somebody(void)
{
    if (!baton_held && n_back > 0)
        pthread_cond_signal(&back);
    if (!has_work())
        return;
    if (n_idle > 0) {
        pthread_cond_signal(&work);
    } else if (n_threads < pgasi_param.handler_threads && !stopping) {
        static int warned;
        int error = pthread_create(&threads[n_threads], NULL, thread_main, NULL);
        if (error == 0)
            __atomic_store_n(&n_ever, ++n_threads, __ATOMIC_RELAXED);
        else
            pgasi_warn_once(
                &warned, "task",
                "cannot start handler thread %d of PGAS_HANDLER_THREADS=%d (%s): calls wait for "
                "the others; raise the limit of processes (ulimit -u)",
                n_threads + 1, pgasi_param.handler_threads, strerror(error));
    } else if (n_away == n_threads) {
        static int warned;
        pgasi_warn_once(
            &warned, "task",
            "all PGAS_HANDLER_THREADS=%d handlers wait, and calls wait for them to end: if they "
            "wait for such calls, that is for ever; raise it",
            n_threads);
    }
}

/* ---- running ---- */

static void pass_baton(bool away)
{
    pthread_mutex_lock(&lock);
    if (away) {
        baton_held = false;
        n_away++;
        call_somebody();
    } else {
        n_away--;
        n_back++;
        while (baton_held)
            pthread_cond_wait(&back, &lock);
        n_back--;
        baton_held = true;
    }
    pthread_mutex_unlock(&lock);
}

static void run(task_t *t, bool with_baton)
{
    pgasi_thread_hooks.on_block = with_baton ? pass_baton : NULL;
    pgasi_self.in_task = with_baton || !t->fn;
    if (t->fn) {
        t->fn(t->arg);
    } else {
        pgasi_call_t before = pgasi_call_begin(t->call.source, t->call.handler, t->call.wire);
        t->call.entry->fn(t->args, t->bytes, t->call.source, t->call.entry->context);
        pgasi_call_end(before, PGAS_OK);
    }
    pgasi_call_forget();
    pgasi_self.n_attached = 1; /* whatever the handler has attached and not undone */
    pgasi_self.in_task = false;
    pgasi_thread_hooks.on_block = NULL;
    free(t);
}

static void *thread_main(void *unused)
{
    (void)unused;
    pgas_status_t status = pgasi_thread_attach_high();
    if (status != PGAS_OK)
        pgasi_fatal("task", "a handler thread cannot attach: %s", pgas_status_text(status));
    pthread_mutex_lock(&lock);
    while (!stopping || has_work()) {
        if (!has_work()) {
            n_idle++;
            pthread_cond_wait(&work, &lock);
            n_idle--;
            continue;
        }
        bool with_baton = !others.first;
        task_t *t = take(with_baton ? &calls : &others);
        baton_held |= with_baton;
        call_somebody();
        pthread_mutex_unlock(&lock);
        run(t, with_baton);
        __atomic_fetch_sub(&n_pending, 1, __ATOMIC_RELEASE);
        pgasi_wake(pgasi_boot.node_rank);
        pthread_mutex_lock(&lock);
        if (with_baton)
            baton_held = false;
        call_somebody();
    }
    pthread_mutex_unlock(&lock);
    pgasi_thread_detach();
    return NULL;
}

/* It came when the job was over, from somebody who did not wait for the end. */
static void drop(task_t *t)
{
    __atomic_fetch_sub(&n_pending, 1, __ATOMIC_RELEASE);
    if (pgasi_first_dropped())
        PGASI_ERROR(
            "task",
            "a call of rank %d for a handler that may wait came after the end of the job: dropped",
            pgas_thread_rank(t->call.source));
    free(t);
}

static void submit(task_t *t, queue_t *q)
{
    __atomic_fetch_add(&n_pending, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&lock);
    bool late = stopped;
    if (!late) {
        put(q, t);
        call_somebody();
    }
    pthread_mutex_unlock(&lock);
    if (late)
        drop(t);
}

static pgas_status_t submit_fn(void (*fn)(void *arg), void *arg, queue_t *q)
{
    task_t *t = calloc(1, sizeof *t);
    if (!t)
        return PGAS_ERR_NO_MEMORY;
    t->fn = fn;
    t->arg = arg;
    submit(t, q);
    return PGAS_OK;
}

pgas_status_t pgasi_task_submit(void (*fn)(void *arg), void *arg)
{
    return submit_fn(fn, arg, &others);
}

pgas_status_t pgasi_task_submit_call(void (*fn)(void *arg), void *arg)
{
    return submit_fn(fn, arg, &calls);
}

void pgasi_task_call(const pgasi_task_call_t *call, const void *args, size_t bytes)
{
    task_t *t = malloc(sizeof *t + bytes);
    if (!t)
        pgasi_fatal("task", "no memory for a call of %zu bytes", bytes);
    memset(t, 0, sizeof *t);
    t->call = *call;
    t->bytes = bytes;
    if (bytes)
        memcpy(t->args, args, bytes);
    submit(t, call->spawn ? &others : &calls);
}

uint64_t pgasi_tasks_pending(void)
{
    return __atomic_load_n(&n_pending, __ATOMIC_ACQUIRE);
}

int pgasi_tasks_threads(void)
{
    return __atomic_load_n(&n_ever, __ATOMIC_RELAXED);
}

pgas_status_t pgasi_tasks_start(void)
{
    stopping = stopped = baton_held = false;
    n_idle = n_back = n_threads = n_away = n_ever = 0;
    n_pending = 0;
    calls.end = &calls.first;
    others.end = &others.first;
    threads = calloc((size_t)pgasi_param.handler_threads, sizeof *threads);
    return threads ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_tasks_stop(void)
{
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_lock(&lock);
    stopped = true;
    n_threads = 0;
    pthread_mutex_unlock(&lock);
    while (calls.first)
        drop(take(&calls));
    while (others.first)
        drop(take(&others));
    free(threads);
    threads = NULL;
}
