/* The way calls on a replica: see calls.h.
 *
 * The handler of a message runs on any thread of the rank that serves, one at a time. It executes
 * the pieces of a session in the order of their numbers, and sends each one on when it has been
 * executed. A piece that arrives whole and in its turn is executed from the message. The others
 * wait in a slot of the session until they are whole. The service thread of the replica opens and
 * closes sessions, so a lock protects them. */
#include "group/calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "group/replica.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

#define FIRST_MAX (sizeof(pgasi_group_piece_t) + PGAS_GROUP_REPLICAS_MAX * sizeof(uint64_t))

/* A piece that is not whole yet, or not in its turn. */
typedef struct {
    unsigned char *bytes; /* NULL: nothing has come */
    uint32_t got, whole;
} slot_t;

typedef struct calls {
    struct calls *next;
    pgasi_session_t *session;
    uint64_t number;
    uint32_t n, position, slots, room; /* room: bytes of a whole message */
    bool runs;
    uint64_t executed;
    int next_rank; /* or the client's */
    uint64_t next_number;
    int event_fd; /* is readable when the session is broken */
    pgas_status_t status;
    slot_t *slot;  /* [slots] */
    uint64_t *old; /* [slots] this replica's words */
} calls_t;

static struct {
    pthread_mutex_t lock;
    calls_t *first;
    uint64_t n_made;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

void (*pgasi_calls_on_ack)(const pgasi_calls_head_t *head, const void *part, uint32_t bytes);

/* ---- numbers as addresses ---- */

void pgasi_calls_set_address(pgas_verbs_address_t *address_p, uint64_t number)
{
    memset(address_p, 0, sizeof *address_p);
    memcpy(address_p->bytes, &number, sizeof number);
}

uint64_t pgasi_calls_number(const pgas_verbs_address_t *address)
{
    uint64_t number;
    memcpy(&number, address->bytes, sizeof number);
    return number;
}

/* ---- sending ---- */

static pgas_status_t post(const pgasi_calls_message_t *m, bool in_handler, const void *head,
                          size_t head_bytes, const void *data, size_t bytes)
{
    if (in_handler)
        return pgasi_sendq_answer(m->rank, PGASI_DESC_GROUP, head, head_bytes, data, bytes);
    if (!pgasi_running) /* the program has ended the job before the group */
        return PGAS_ERR_NOT_INIT;
    return pgasi_sendq_call_pair(m->rank, PGASI_EP_ANY, true, PGASI_DESC_GROUP, head, head_bytes,
                                 data, bytes, PGAS_FULL_QUEUE);
}

pgas_status_t pgasi_calls_send(pgasi_calls_message_t *m, bool in_handler)
{
    struct {
        pgasi_calls_head_t head;
        unsigned char first[FIRST_MAX];
    } out;
    uint32_t most = (uint32_t)(pgasi_param.call_max - sizeof out.head);
    pgas_status_t status = PGAS_OK;
    while (m->head.offset < m->head.bytes && status == PGAS_OK) {
        uint32_t at = m->head.offset, bytes = PGASI_MIN(m->head.bytes - at, most);
        uint32_t of_first = at < m->first_bytes ? PGASI_MIN(m->first_bytes - at, bytes) : 0;
        out.head = m->head;
        if (of_first)
            memcpy(out.first, (const char *)m->first + at, of_first);
        const char *data =
            of_first < bytes ? (const char *)m->data + (at + of_first - m->first_bytes) : NULL;
        status =
            post(m, in_handler, &out, sizeof out.head + of_first, data, (size_t)bytes - of_first);
        if (status == PGAS_OK)
            m->head.offset += bytes;
    }
    return status;
}

/* ---- executing ---- */

/* The client of a broken session learns of it by the replica's service thread. */
static void break_session(calls_t *c, pgas_status_t status)
{
    const uint64_t one = 1;
    if (c->status != PGAS_OK)
        return;
    c->status = status;
    if (write(c->event_fd, &one, sizeof one) != sizeof one)
        PGASI_ERROR("group", "cannot report a broken chain");
}

/* Sends a piece on, or acknowledges it. The client itself detects a death of the receiver. */
static void forward(const calls_t *c, const unsigned char *first, uint32_t first_bytes,
                    const void *data, uint32_t data_bytes)
{
    const uint32_t piece_bytes = sizeof(pgasi_group_piece_t);
    bool is_last = c->position + 1 == c->n;
    pgasi_calls_message_t m = { .rank = c->next_rank, .first = first, .data = data };
    m.head = (pgasi_calls_head_t){ .to = c->next_number, .number = c->executed };
    m.head.kind = is_last ? PGASI_CALLS_ACK : PGASI_CALLS_PIECE;
    m.first = is_last ? first + piece_bytes : first;
    m.first_bytes = is_last ? first_bytes - piece_bytes : first_bytes;
    m.data_bytes = is_last ? 0 : data_bytes;
    m.head.bytes = m.first_bytes + m.data_bytes;
    pgas_status_t status = pgasi_calls_send(&m, true);
    if (status != PGAS_OK && status != PGAS_ERR_PEER)
        PGASI_ERROR("group", "cannot send to rank %d: %s", m.rank, pgas_status_text(status));
}

/* Executes the next piece. */
static void execute(calls_t *c, const unsigned char *message, uint32_t bytes)
{
    const pgasi_session_t *s = c->session;
    struct {
        pgasi_group_piece_t piece;
        uint64_t old[PGAS_GROUP_REPLICAS_MAX];
    } first;
    uint32_t first_bytes = (uint32_t)(sizeof first.piece + c->n * sizeof first.old[0]);
    memcpy(&first, message, first_bytes);
    uint32_t data_bytes = first.piece.kind == PGAS_GROUP_WRITE ? first.piece.bytes : 0;
    pgas_status_t status = PGAS_ERR_FORMAT;
    if (first.piece.number == c->executed && bytes - first_bytes == data_bytes)
        status = pgasi_group_execute(&first.piece, c->position, s->replica->region,
                                     s->replica->region_bytes, first.old, message + first_bytes);
    if (status != PGAS_OK) {
        break_session(c, status);
        return;
    }
    c->old[c->executed & (c->slots - 1)] = first.old[c->position];
    forward(c, (const unsigned char *)&first, first_bytes, message + first_bytes, data_bytes);
    c->executed++;
}

/* Adds a part to its slot. */
static void keep(calls_t *c, const pgasi_calls_head_t *head, const void *part, uint32_t bytes)
{
    slot_t *slot = &c->slot[head->number & (c->slots - 1)];
    if (!slot->bytes) {
        *slot = (slot_t){ malloc(head->bytes), 0, head->bytes };
        if (!slot->bytes) {
            break_session(c, PGAS_ERR_NO_MEMORY);
            return;
        }
    }
    if (head->bytes != slot->whole) {
        break_session(c, PGAS_ERR_FORMAT);
        return;
    }
    memcpy(slot->bytes + head->offset, part, bytes);
    slot->got += bytes;
}

static void run_kept(calls_t *c)
{
    slot_t *slot = &c->slot[c->executed & (c->slots - 1)];
    while (slot->bytes && slot->got == slot->whole && c->status == PGAS_OK) {
        slot_t whole = *slot;
        *slot = (slot_t){ NULL, 0, 0 };
        execute(c, whole.bytes, whole.whole);
        free(whole.bytes);
        slot = &c->slot[c->executed & (c->slots - 1)];
    }
}

static calls_t *find(uint64_t number)
{
    calls_t *c = all.first;
    while (c && c->number != number)
        c = c->next;
    return c;
}

/* The caller holds the lock. Messages to sessions that have ended are dropped. */
static void take_piece(const pgasi_calls_head_t *head, const unsigned char *part, uint32_t bytes)
{
    calls_t *c = find(head->to);
    if (!c || !c->runs || c->status != PGAS_OK)
        return;
    uint32_t least = (uint32_t)(sizeof(pgasi_group_piece_t) + c->n * sizeof(uint64_t));
    if (head->number < c->executed || head->number - c->executed >= c->slots ||
        head->bytes < least || head->bytes > c->room) {
        break_session(c, PGAS_ERR_FORMAT);
    } else if (head->number == c->executed && bytes == head->bytes) {
        execute(c, part, bytes);
        run_kept(c);
    } else {
        keep(c, head, part, bytes);
        run_kept(c);
    }
}

static void on_message(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgasi_calls_head_t head;
    (void)source;
    (void)context;
    if (bytes <= sizeof head)
        return;
    memcpy(&head, args, sizeof head);
    const unsigned char *part = (const unsigned char *)args + sizeof head;
    uint32_t part_bytes = (uint32_t)(bytes - sizeof head);
    if (head.offset > head.bytes || part_bytes > head.bytes - head.offset)
        return;
    if (head.kind == PGASI_CALLS_PIECE) {
        pthread_mutex_lock(&all.lock);
        take_piece(&head, part, part_bytes);
        pthread_mutex_unlock(&all.lock);
    } else if (head.kind == PGASI_CALLS_ACK && pgasi_calls_on_ack) {
        pgasi_calls_on_ack(&head, part, part_bytes);
    }
}

/* ---- the session ---- */

static calls_t *calls_of(const pgasi_session_t *s)
{
    return s->way;
}

static void free_calls(calls_t *c)
{
    for (uint32_t i = 0; c->slot && i < c->slots; i++)
        free(c->slot[i].bytes);
    if (c->event_fd >= 0)
        close(c->event_fd);
    free(c->slot);
    free(c->old);
    free(c);
}

static pgas_status_t open_calls(pgasi_session_t *s)
{
    calls_t *c = calloc(1, sizeof *c);
    if (!c)
        return PGAS_ERR_NO_MEMORY;
    c->session = s;
    c->n = s->open.n;
    c->position = s->open.position;
    c->slots = s->open.slots;
    c->room = pgasi_group_layout(false, c->n, s->open.piece).room;
    c->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    c->slot = calloc(c->slots, sizeof *c->slot);
    c->old = calloc(c->slots, sizeof *c->old);
    if (c->event_fd < 0 || !c->slot || !c->old) {
        free_calls(c);
        return PGAS_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&all.lock);
    c->number = ++all.n_made;
    c->next = all.first;
    all.first = c;
    pthread_mutex_unlock(&all.lock);
    s->way = c;
    s->opened.member.slots = c->slots;
    s->opened.rank = pgasi_boot.rank;
    pgasi_calls_set_address(&s->opened.prev, c->number);
    return PGAS_OK;
}

static pgas_status_t connect_calls(pgasi_session_t *s, const pgasi_group_connect_t *connect)
{
    calls_t *c = calls_of(s);
    int rank = connect->next_rank >= 0 ? connect->next_rank : connect->client_rank;
    if (rank < 0 || rank >= pgasi_boot.n_ranks ||
        (connect->next_rank < 0) != (c->position + 1 == c->n))
        return PGAS_ERR_FORMAT;
    pgas_status_t status = pgasi_session_watch(s, c->event_fd);
    pthread_mutex_lock(&all.lock);
    c->next_rank = rank;
    c->next_number = pgasi_calls_number(&connect->next);
    c->runs = status == PGAS_OK;
    pthread_mutex_unlock(&all.lock);
    return status;
}

static pgas_status_t poll_calls(pgasi_session_t *s)
{
    pthread_mutex_lock(&all.lock);
    pgas_status_t status = calls_of(s)->status;
    s->executed = calls_of(s)->executed;
    pthread_mutex_unlock(&all.lock);
    return status;
}

static void end_input(pgasi_session_t *s)
{
    pthread_mutex_lock(&all.lock);
    calls_of(s)->runs = false;
    pthread_mutex_unlock(&all.lock);
}

/* A handler that runs has the lock. */
static bool is_drained(pgasi_session_t *s)
{
    (void)s;
    return true;
}

static uint64_t old_word(const pgasi_session_t *s, uint64_t k)
{
    const calls_t *c = calls_of(s);
    return c->old[k & (c->slots - 1)];
}

static void close_calls(pgasi_session_t *s)
{
    calls_t *c = calls_of(s);
    pthread_mutex_lock(&all.lock);
    calls_t **at = &all.first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    pthread_mutex_unlock(&all.lock);
    pgasi_session_keep(s, c->executed, c->slots, old_word);
    free_calls(c);
    s->way = NULL;
}

void pgasi_calls_start(void)
{
    static const pgasi_session_ops_t ops = { .open = open_calls,
                                             .connect = connect_calls,
                                             .poll = poll_calls,
                                             .end_input = end_input,
                                             .is_drained = is_drained,
                                             .close = close_calls };
    pgasi_session_set_ops(PGAS_GROUP_CALLS, &ops);
    pgasi_handler_set_internal(PGASI_DESC_GROUP, on_message);
}
