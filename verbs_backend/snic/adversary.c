/* The adversary keeps copies of entries as they were at the doorbell (PREFETCH), and late events:
 * effects that have been decided and are not visible yet (DELAY).
 *
 * Late events are in a list, in the order in which they were made. Each belongs to a stream. Events
 * of one stream happen in order; events of different streams happen in a random order. The lock of
 * the thread that runs the device guards all of it. */
#include "verbs_backend/snic/inside.h"

#include <stdlib.h>
#include <string.h>
#include "base/rng.h"

#define LATE_MAX      512
#define LATE_OF_ENTRY 4 /* events that one entry may add */

/** All late events of a device, oldest first. */
typedef struct snic_late_list {
    snic_late_t *events[LATE_MAX];
    unsigned n;
} list_t;

uint64_t pgasi_snic_random(snic_view_t *view, uint64_t below)
{
    return (uint64_t)(((pgasi_u128_t)pgas_splitmix(&view->random) * below) >> 64);
}

/* ---- PREFETCH ---- */

/** A copy of a send queue. The process that runs it is not informed when the owner closes the
 *  queue. It may then find another queue in the same place. */
typedef struct snic_shadow {
    uint32_t qpn;
    size_t bytes;
    unsigned char blocks[];
} shadow_t;

const unsigned char *pgasi_snic_shadow(const snic_view_t *view, const snic_qp_t *qp,
                                       size_t ring_bytes)
{
    const shadow_t *shadow = view->shadows[qp - view->devmem->qps];
    return shadow && shadow->qpn == qp->number && shadow->bytes == ring_bytes ? shadow->blocks
                                                                              : NULL;
}

void pgasi_snic_prefetch(snic_view_t *view, const snic_qp_t *qp, uint32_t from, uint32_t to)
{
    uint32_t place = (uint32_t)(qp - view->devmem->qps),
             log = PGASI_MIN(snic_load(qp->log_sq_blocks), SNIC_LOG_QUEUE);
    uint32_t n = 1u << log, blocks = PGASI_MIN(to - from, n);
    size_t bytes = (size_t)n * PGASI_WQE_BB;
    const unsigned char *ring = snic_at(view, snic_load(qp->sq), bytes);
    shadow_t *shadow = view->shadows[place];
    if (!pgasi_snic_shadow(view, qp, bytes)) {
        free(shadow);
        view->shadows[place] = shadow = calloc(1, sizeof *shadow + bytes);
    }
    if (!ring || !shadow)
        return;
    shadow->qpn = qp->number;
    shadow->bytes = bytes;
    for (uint32_t i = to - blocks; i != to; i++)
        memcpy(shadow->blocks + (size_t)(i & (n - 1)) * PGASI_WQE_BB,
               ring + (size_t)(i & (n - 1)) * PGASI_WQE_BB, PGASI_WQE_BB);
}

/* ---- DELAY ---- */

static snic_late_t *take(list_t *list, unsigned i)
{
    snic_late_t *event = list->events[i];
    list->n--;
    memmove(&list->events[i], &list->events[i + 1], (list->n - i) * sizeof list->events[0]);
    return event;
}

static void perform(snic_view_t *view, unsigned i)
{
    snic_late_t *event = take(view->late, i);
    pgasi_snic_late_perform(view, event);
    free(event);
}

bool pgasi_snic_late_add(snic_view_t *view, const snic_late_t *event, const void *data,
                         size_t data_bytes)
{
    if (!view->late)
        view->late = calloc(1, sizeof *view->late);
    snic_late_t *copy =
        view->late && view->late->n < LATE_MAX ? malloc(sizeof *copy + data_bytes) : NULL;
    if (!copy)
        return false;
    *copy = *event;
    copy->data_bytes = data_bytes;
    if (data_bytes > 0)
        memcpy(copy->data, data, data_bytes);
    view->late->events[view->late->n++] = copy;
    return true;
}

void pgasi_snic_late_make_room(snic_view_t *view)
{
    while (pgasi_snic_late_left(view) > LATE_MAX - LATE_OF_ENTRY)
        perform(view, 0);
}

unsigned pgasi_snic_late_left(const snic_view_t *view)
{
    return view->late ? view->late->n : 0;
}

unsigned pgasi_snic_late_results(const snic_view_t *view, uint32_t qpn)
{
    unsigned n = 0;
    for (unsigned i = 0; i < pgasi_snic_late_left(view); i++)
        n += view->late->events[i]->kind == SNIC_LATE_RESULT && view->late->events[i]->qpn == qpn;
    return n;
}

static bool is_first(const list_t *list, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (list->events[k]->qpn == list->events[i]->qpn &&
            list->events[k]->stream == list->events[i]->stream)
            return false;
    return true;
}

bool pgasi_snic_late_one(snic_view_t *view)
{
    if (pgasi_snic_late_left(view) == 0)
        return false;
    unsigned i = (unsigned)pgasi_snic_random(view, view->late->n);
    while (!is_first(view->late, i)) /* the oldest of a stream is */
        i--;
    perform(view, i);
    return true;
}

unsigned pgasi_snic_late_some(snic_view_t *view)
{
    unsigned n = (unsigned)pgasi_snic_random(view, 1 + pgasi_snic_late_left(view)), done = 0;
    while (done < n && pgasi_snic_late_one(view))
        done++;
    return done;
}

void pgasi_snic_late_drain(snic_view_t *view)
{
    while (pgasi_snic_late_left(view) > 0)
        perform(view, 0);
}

snic_late_t *pgasi_snic_late_take(snic_view_t *view, uint32_t qpn, snic_stream_t stream)
{
    for (unsigned i = 0; i < pgasi_snic_late_left(view); i++)
        if (view->late->events[i]->qpn == qpn && view->late->events[i]->stream == stream)
            return take(view->late, i);
    return NULL;
}

void pgasi_snic_forget(snic_view_t *view, uint32_t qpn)
{
    uint32_t place = qpn & (SNIC_QPS - 1);
    for (int stream = 0; stream < SNIC_STREAM_SEEN; stream++) {
        snic_late_t *event;
        while ((event = pgasi_snic_late_take(view, qpn, (snic_stream_t)stream)) != NULL)
            free(event);
    }
    /* completions that WAITs of other devices do not see yet become visible now */
    for (unsigned i = 0; i < pgasi_snic_late_left(view);)
        if (view->late->events[i]->qpn == qpn)
            perform(view, i);
        else
            i++;
    free(view->shadows[place]);
    view->shadows[place] = NULL;
}

void pgasi_snic_late_free(snic_view_t *view)
{
    for (unsigned i = 0; i < pgasi_snic_late_left(view); i++)
        free(view->late->events[i]);
    free(view->late);
}
