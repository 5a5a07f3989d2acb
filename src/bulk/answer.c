/* Answers: the source sends the data for which a target asks, directly from the buffers. It does so
 * where messages are faster than gets (pgasi_far_bulk_max). See bulk.h.
 *
 * An answer is a range of a buffer. The source sends its messages in order while the transport has
 * room. Rounds of progress send the others. The transport may repeat a message until the target has
 * acknowledged it. So an offer ends after the messages of its answers are complete. A report of the
 * target that it has all data completes them, too. The receive lock protects all of this. */
#include <string.h>

#include "base/checks.h"
#include "base/pool.h"
#include "boot/boot.h"
#include "bulk/bulk.h"
#include "mem/ctx.h"
#include "msg/descriptor.h"
#include "msg/send_queue.h"

typedef struct answer {
    pgasi_tp_comp_t comp;                  /* of all its messages */
    struct answer *next;                   /* in the list of those that have messages left */
    struct answer *open_next, **open_back; /* in the list of all */
    int rank;
    pgasi_bulk_ask_t ask;
    const char *from;
    uint64_t sent;
    uint32_t n_open; /* messages that the transport has not completed */
    bool ended;      /* no further message is sent */
    bool failed;
} answer_t;

static struct {
    answer_t *first, **end; /* those that have messages left */
    answer_t *open;
    uint64_t n_open; /* messages of all answers */
    pgasi_pool_t pool;
} answers;

/* Reports to the target that the data do not come. */
static void report(const pgasi_bulk_ask_t *ask, int rank, pgas_status_t status)
{
    pgasi_bulk_data_t d = { 0, ask->number, ask->part, status };
    pgasi_sendq_answer(rank, PGASI_DESC_BUFFER_DATA, &d, sizeof d, NULL, 0);
}

/* Ends an answer whose messages are all complete. */
static void complete(answer_t *a)
{
    if (!a->ended || a->n_open)
        return;
    if (a->failed && !pgasi_boot_is_dead(a->rank))
        report(&a->ask, a->rank, PGAS_ERR_TRANSPORT);
    *a->open_back = a->open_next;
    if (a->open_next)
        a->open_next->open_back = a->open_back;
    pgasi_offer_release(a->ask.offer);
    pgasi_pool_release(&answers.pool, a);
}

static void sent(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    answer_t *a = PGASI_CONTAINER_OF(comp, answer_t, comp);
    pgasi_ctx_count(pgasi_ctxs[PGASI_CTX_SERVICE], -1);
    a->n_open--;
    a->failed = a->failed || status != PGAS_OK;
    answers.n_open--;
    if (answers.first)
        pgasi_bulk_want_poll();
    complete(a);
}

/* Sends messages while the transport has room. @return false: it has no room */
static bool send_messages(answer_t *a)
{
    while (a->sent < a->ask.bytes && !a->failed) {
        pgasi_bulk_data_t d = { a->ask.offset + a->sent, a->ask.number, a->ask.part, PGAS_OK };
        uint64_t bytes = PGASI_MIN(a->ask.bytes - a->sent, pgasi_far_bulk_max());
        pgasi_far_head_t head;
        memcpy(&head, &d, sizeof head);
        pgas_status_t status =
            pgasi_far_send_data(a->rank, &head, a->from + a->sent, bytes, &a->comp);
        if (status == PGAS_ERR_AGAIN)
            return false;
        a->failed = status < PGAS_OK;
        a->n_open += status == PGAS_INPROGRESS;
        answers.n_open += status == PGAS_INPROGRESS;
        a->sent += bytes;
    }
    return true;
}

bool pgasi_answers_progress(void)
{
    while (answers.first) {
        answer_t *a = answers.first;
        if (!send_messages(a))
            return answers.n_open == 0; /* otherwise `sent` requests the next round */
        answers.first = a->next;
        if (!answers.first)
            answers.end = &answers.first;
        a->ended = true;
        complete(a);
    }
    return false;
}

bool pgasi_answers_from(int rank)
{
    return pgasi_far_bulk_max() && pgasi_boot.local_of[rank] < 0;
}

void pgasi_answer_begin(const pgasi_bulk_ask_t *ask, int rank, const char *from)
{
    answer_t *a = pgasi_pool_acquire(&answers.pool);
    if (!a) {
        report(ask, rank, PGAS_ERR_NO_MEMORY);
        pgasi_offer_release(ask->offer);
        return;
    }
    *a = (answer_t){ .comp = { .fn = sent, .in_place = true },
                     .open_next = answers.open,
                     .open_back = &answers.open,
                     .rank = rank,
                     .ask = *ask,
                     .from = from };
    answers.open = a;
    if (a->open_next)
        a->open_next->open_back = &a->open_next;
    *answers.end = a;
    answers.end = &a->next;
    if (pgasi_answers_progress())
        pgasi_bulk_want_poll();
}

void pgasi_answers_arrived(uint32_t offer)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    for (answer_t *a = answers.open, *next; a; a = next) {
        next = a->open_next;
        if (a->ask.offer != offer || !a->ended)
            continue;
        uint32_t n = ctx->tp->ops->am_arrived(ctx->tp, a->rank, &a->comp);
        pgasi_ctx_count(ctx, -(int)n);
        a->n_open -= n;
        answers.n_open -= n;
        if (answers.first)
            pgasi_bulk_want_poll();
        complete(a);
    }
}

void pgasi_answers_peer_died(int rank)
{
    for (answer_t *a = answers.first; a; a = a->next)
        if (a->rank == rank)
            a->failed = true;
}

void pgasi_answers_start(void)
{
    answers.first = answers.open = NULL;
    answers.n_open = 0;
    answers.end = &answers.first;
    pgasi_pool_init(&answers.pool, sizeof(answer_t), 0, 64, 0);
}

/* The contexts have stopped, so no message is under way. */
void pgasi_answers_stop(void)
{
    pgasi_pool_fini(&answers.pool);
    answers.first = answers.open = NULL;
}
