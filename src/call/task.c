/* Handler threads: see task.h.
 *
 * The pool is shaped for handlers that wait now and then, some hundred at a time. It uses threads
 * of the operating system rather than stacks of its own. So a handler is ordinary code for
 * debuggers, sanitizers and thread-local memory.
 *
 * One lock protects two queues: calls that need the run token, and other tasks. A thread whose
 * handler begins to wait gives the run token away. A thread whose wait has ended gets it first,
 * otherwise the next call gets it. */
#include "call/task.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
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

static struct {
    pthread_mutex_t lock; /* protects all fields but n_ever and n_pending */
    pthread_cond_t work, back;
    queue_t calls, others; /* tasks that need the run token, and the others */
    bool token_held;       /* a thread holds the run token */
    bool stopping;         /* idle threads end */
    bool stopped;          /* no thread takes a task any more */
    int n_threads;
    int n_idle; /* threads that wait for work */
    int n_away; /* threads whose handler waits, without the run token */
    int n_back; /* threads whose handler has waited, and which now wait for the run token */
    int n_ever; /* threads that were started */
    uint64_t n_pending;
    pthread_t *threads;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER,
           .work = PTHREAD_COND_INITIALIZER,
           .back = PTHREAD_COND_INITIALIZER };

static void *thread_main(void *unused);

/* ---- with the lock ---- */

static bool has_work(void)
{
    return pool.others.first || (pool.calls.first && !pool.token_held && pool.n_back == 0);
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

/* Wakes or starts a thread for the next task that may run. */
static void wake_or_start(void)
{
    if (!pool.token_held && pool.n_back > 0)
        pthread_cond_signal(&pool.back);
    if (!has_work())
        return;
    if (pool.n_idle > 0) {
        pthread_cond_signal(&pool.work);
    } else if (pool.n_threads < pgasi_param.handler_threads && !pool.stopping) {
        static int warned;
        int error = pthread_create(&pool.threads[pool.n_threads], NULL, thread_main, NULL);
        if (error == 0)
            __atomic_store_n(&pool.n_ever, ++pool.n_threads, __ATOMIC_RELAXED);
        else
            pgasi_warn_once(
                &warned, "task",
                "cannot start handler thread %d of PGAS_HANDLER_THREADS=%d (%s): calls wait for "
                "the other threads; raise the limit of processes (ulimit -u)",
                pool.n_threads + 1, pgasi_param.handler_threads, strerror(error));
    } else if (pool.n_away == pool.n_threads) {
        static int warned;
        pgasi_warn_once(
            &warned, "task",
            "all PGAS_HANDLER_THREADS=%d handler threads wait, and further calls need one of them: "
            "if a handler waits for such a call, neither ever ends; raise the variable",
            pool.n_threads);
    }
}

/* ---- running ---- */

static void pass_token(bool away)
{
    pthread_mutex_lock(&pool.lock);
    if (away) {
        pool.token_held = false;
        pool.n_away++;
        wake_or_start();
    } else {
        pool.n_away--;
        pool.n_back++;
        while (pool.token_held)
            pthread_cond_wait(&pool.back, &pool.lock);
        pool.n_back--;
        pool.token_held = true;
    }
    pthread_mutex_unlock(&pool.lock);
}

static void run(task_t *t, bool with_token)
{
    pgasi_thread_hooks.on_block = with_token ? pass_token : NULL;
    pgasi_self.in_task = with_token || !t->fn || t->call.spawn;
    if (t->fn) {
        t->fn(t->arg);
    } else {
        pgasi_call_t before = pgasi_call_begin(t->call.source, t->call.handler, t->call.wire);
        t->call.entry->fn(t->args, t->bytes, t->call.source, t->call.entry->context);
        pgasi_call_end(before, PGAS_OK);
    }
    pgasi_call_forget();
    pgasi_self.n_attached = 1; /* The handler may have attached the thread without detaching it. */
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
    pthread_mutex_lock(&pool.lock);
    while (!pool.stopping || has_work()) {
        if (!has_work()) {
            pool.n_idle++;
            pthread_cond_wait(&pool.work, &pool.lock);
            pool.n_idle--;
            continue;
        }
        bool with_token = !pool.others.first;
        task_t *t = take(with_token ? &pool.calls : &pool.others);
        pool.token_held |= with_token;
        wake_or_start();
        pthread_mutex_unlock(&pool.lock);
        run(t, with_token);
        __atomic_fetch_sub(&pool.n_pending, 1, __ATOMIC_RELEASE);
        pgasi_wake(pgasi_boot.node_rank);
        pthread_mutex_lock(&pool.lock);
        if (with_token)
            pool.token_held = false;
        wake_or_start();
    }
    pthread_mutex_unlock(&pool.lock);
    pgasi_thread_detach();
    return NULL;
}

/* The task arrived after the end of the job: its sender did not wait for the end. */
static void drop(task_t *t)
{
    __atomic_fetch_sub(&pool.n_pending, 1, __ATOMIC_RELEASE);
    if (pgasi_first_dropped())
        PGASI_ERROR("task",
                    "a call of rank %d for a handler that may wait arrived after the end of the "
                    "job and is dropped",
                    pgas_thread_rank(t->call.source));
    free(t);
}

static void submit(task_t *t, queue_t *q)
{
    __atomic_fetch_add(&pool.n_pending, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&pool.lock);
    bool late = pool.stopped;
    if (!late) {
        put(q, t);
        wake_or_start();
    }
    pthread_mutex_unlock(&pool.lock);
    if (late)
        drop(t);
}

static pgas_status_t submit_fn(void (*fn)(void *arg), void *arg, bool spawn, queue_t *q)
{
    task_t *t = calloc(1, sizeof *t);
    if (!t)
        return PGAS_ERR_NO_MEMORY;
    t->fn = fn;
    t->arg = arg;
    t->call.spawn = spawn;
    submit(t, q);
    return PGAS_OK;
}

pgas_status_t pgasi_task_submit(void (*fn)(void *arg), void *arg)
{
    return submit_fn(fn, arg, false, &pool.others);
}

pgas_status_t pgasi_task_submit_call(void (*fn)(void *arg), void *arg, bool spawn)
{
    return submit_fn(fn, arg, spawn, spawn ? &pool.others : &pool.calls);
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
    submit(t, call->spawn ? &pool.others : &pool.calls);
}

uint64_t pgasi_tasks_pending(void)
{
    return __atomic_load_n(&pool.n_pending, __ATOMIC_ACQUIRE);
}

int pgasi_tasks_threads(void)
{
    return __atomic_load_n(&pool.n_ever, __ATOMIC_RELAXED);
}

pgas_status_t pgasi_tasks_start(void)
{
    pool.stopping = pool.stopped = pool.token_held = false;
    pool.n_threads = pool.n_idle = pool.n_away = pool.n_back = pool.n_ever = 0;
    pool.n_pending = 0;
    pool.calls.end = &pool.calls.first;
    pool.others.end = &pool.others.first;
    pool.threads = calloc((size_t)pgasi_param.handler_threads, sizeof *pool.threads);
    return pool.threads ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_tasks_stop(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.stopping = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.n_threads; i++)
        pthread_join(pool.threads[i], NULL);
    pthread_mutex_lock(&pool.lock);
    pool.stopped = true;
    pool.n_threads = 0;
    pthread_mutex_unlock(&pool.lock);
    while (pool.calls.first)
        drop(take(&pool.calls));
    while (pool.others.first)
        drop(take(&pool.others));
    free(pool.threads);
    pool.threads = NULL;
}
