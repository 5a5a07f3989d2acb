/* what: A replica executes pieces that travel by calls in the order of their numbers, however their
 *       messages and parts arrive, and acknowledges each once. Wrong messages break the session and
 *       nothing else; late ones are dropped.
 * source: group/calls.h; forged messages, and a seeded model test */
#include "base/checks.h"
#include "base/rng.h"
#include "group/calls.h"
#include "group/replica.h"
#include "msg/dispatch.h"
#include "msg/serve.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define SLOTS      8u
#define PIECE      256u
#define REGION     4096u
#define CLIENT     77u /* number of the client's end */
#define N_SHUFFLED 400

static pgas_replica_t *replica;
static pgasi_group_peer_t peer = { .client = 1 };
static pgasi_session_t session;
static struct {
    uint64_t n, next, words[N_SHUFFLED];
    bool wrong;
} acks;

static void on_ack(const pgasi_calls_head_t *head, const void *part, uint32_t bytes)
{
    acks.wrong = acks.wrong || head->to != CLIENT || head->number != acks.n || bytes != 8;
    if (acks.n < N_SHUFFLED)
        memcpy(&acks.words[acks.n], part, 8);
    acks.n++;
}

/* ---- a session, and messages to it ---- */

static void begin(void)
{
    const pgasi_group_open_t open = {
        .epoch = 1, .way = PGAS_GROUP_CALLS, .slots = SLOTS, .piece = PIECE, .n = 1
    };
    pgasi_group_connect_t connect = { .next_rank = -1, .client_rank = 0 };
    memset(&acks, 0, sizeof acks);
    memset(replica->region, 0, REGION);
    memset(&session, 0, sizeof session);
    pgasi_records_clear(&replica->records);
    session.replica = replica;
    session.source.peer = &peer;
    pgasi_calls_set_address(&connect.next, CLIENT);
    if (pgasi_session_open(&session, &open) != PGAS_OK ||
        pgasi_session_connect(&session, &connect) != PGAS_OK)
        diag("no session");
}

static void end(void)
{
    pgasi_session_free(&session);
}

static uint64_t session_number(void)
{
    return pgasi_calls_number(&session.opened.prev);
}

static void deliver(const pgasi_calls_head_t *head, const void *part, uint32_t bytes)
{
    unsigned char message[sizeof *head + 1024];
    memcpy(message, head, sizeof *head);
    memcpy(message + sizeof *head, part, bytes);
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_dispatch(PGASI_DESC_GROUP, message, sizeof *head + bytes, pgas_thread_make(0, 0));
    pgasi_serve_end(before);
    pgas_progress();
}

typedef struct {
    pgasi_group_piece_t piece;
    uint64_t old;
    unsigned char data[PIECE];
} piece_t;

static piece_t swap_piece(uint64_t number)
{
    piece_t p = { .piece = { .number = number,
                             .source = number,
                             .desired = number + 1,
                             .execute_map = 1,
                             .bytes = 8,
                             .kind = PGAS_GROUP_CAS } };
    return p;
}

static piece_t write_piece(uint64_t number, uint64_t offset, uint32_t bytes)
{
    piece_t p = {
        .piece = { .number = number, .offset = offset, .bytes = bytes, .kind = PGAS_GROUP_WRITE }
    };
    memset(p.data, (int)number + 1, PGASI_MIN(bytes, PIECE));
    return p;
}

static uint32_t bytes_of(const piece_t *p)
{
    return (uint32_t)(offsetof(piece_t, data) +
                      (p->piece.kind == PGAS_GROUP_WRITE ? p->piece.bytes : 0));
}

static pgasi_calls_head_t head_of(const piece_t *p)
{
    return (pgasi_calls_head_t){ .to = session_number(),
                                 .number = p->piece.number,
                                 .kind = PGASI_CALLS_PIECE,
                                 .bytes = bytes_of(p) };
}

static void deliver_part(const piece_t *p, uint32_t offset, uint32_t bytes)
{
    pgasi_calls_head_t head = head_of(p);
    head.offset = offset;
    deliver(&head, (const unsigned char *)p + offset, bytes);
}

static void deliver_whole(const piece_t *p)
{
    deliver_part(p, 0, bytes_of(p));
}

static uint64_t word_at(uint64_t offset)
{
    uint64_t word;
    memcpy(&word, replica->region + offset, sizeof word);
    return word;
}

/* ---- promises ---- */

static void orders(void)
{
    begin();
    piece_t a = swap_piece(0), b = swap_piece(1), c = write_piece(2, 100, 200), d = swap_piece(3);
    deliver_whole(&d);
    deliver_whole(&b);
    is_int(acks.n, 0, "pieces wait for those before them");
    deliver_part(&c, 100, 172);
    deliver_part(&c, 0, 100);
    deliver_whole(&a);
    ok(acks.n == 4 && !acks.wrong && word_at(0) == 2 && replica->region[100] == 3 &&
           replica->region[299] == 3 && replica->region[300] == 0,
       "and are then executed in order, also from parts");
    ok(acks.words[0] == 0 && acks.words[1] == 1 && acks.words[3] == 2, "with the old words");
    deliver_whole(&a);
    is_int(pgasi_session_poll(&session), PGAS_ERR_FORMAT, "a piece that comes twice is an error");
    pgasi_session_drain(&(pgasi_session_t *){ &session }, 1);
    const pgasi_record_t *record = pgasi_records_find(&replica->records, peer.client);
    ok(record && record->executed == 4 && record->n_old == 4 && record->old[1] == 1 &&
           record->old[3] == 2,
       "the client's record has what was executed, and the old words");
    end();
}

/* Messages of the pieces of a window in any order, in parts of any size. */
static void shuffled(uint64_t seed)
{
    pgasi_rng_t rng;
    uint64_t expected = 0;
    begin();
    pgasi_rng_seed(&rng, seed);
    for (uint64_t first = 0; first < N_SHUFFLED; first += SLOTS) {
        uint32_t left[SLOTS], n_left = SLOTS;
        piece_t pieces[SLOTS];
        for (uint32_t i = 0; i < SLOTS; i++) {
            pieces[i] =
                pgasi_rng_below(&rng, 2) ? swap_piece(first + i) : write_piece(first + i, 0, 8);
            left[i] = bytes_of(&pieces[i]);
        }
        while (n_left > 0) {
            uint32_t i = (uint32_t)pgasi_rng_below(&rng, SLOTS);
            uint32_t bytes = 1 + (uint32_t)pgasi_rng_below(&rng, 100);
            if (left[i] == 0)
                continue;
            bytes = PGASI_MIN(bytes, left[i]);
            deliver_part(&pieces[i], left[i] - bytes, bytes);
            left[i] -= bytes;
            n_left -= left[i] == 0;
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            bool writes = pieces[i].piece.kind == PGAS_GROUP_WRITE;
            acks.wrong = acks.wrong || (!writes && acks.words[first + i] != expected);
            if (writes)
                memcpy(&expected, pieces[i].data, sizeof expected);
            else if (expected == first + i)
                expected = first + i + 1;
        }
    }
    ok(acks.n == N_SHUFFLED && !acks.wrong && word_at(0) == expected,
       "parts in any order have the effects of a model (seed %" PRIu64 ")", seed);
    end();
}

static bool breaks(const pgasi_calls_head_t *head, const piece_t *p, uint32_t bytes)
{
    piece_t good = swap_piece(0);
    begin();
    pgasi_calls_head_t h = *head;
    h.to = session_number();
    deliver(&h, p, bytes);
    deliver_whole(&good);
    bool broken =
        pgasi_session_poll(&session) == PGAS_ERR_FORMAT || session.error == PGAS_ERR_RANGE;
    bool quiet = acks.n == 0 && word_at(0) == 0;
    end();
    return broken && quiet;
}

static void wrong_messages(void)
{
    piece_t p = swap_piece(0);
    begin();
    pgasi_calls_head_t good = head_of(&p), head = good;
    end();
    head.number = SLOTS;
    ok(breaks(&head, &p, bytes_of(&p)), "a number beyond the slots");
    head = good;
    head.bytes = 8;
    ok(breaks(&head, &p, 8), "a piece that is too short");
    head.bytes = 4096;
    ok(breaks(&head, &p, bytes_of(&p)), "a piece that is too long");
    p.piece.number = 1;
    ok(breaks(&good, &p, bytes_of(&p)), "two numbers");
    p = swap_piece(0);
    p.piece.kind = 99;
    ok(breaks(&good, &p, bytes_of(&p)), "an unknown kind");
    p = swap_piece(0);
    p.piece.offset = REGION;
    ok(breaks(&good, &p, bytes_of(&p)), "beyond the region");
    p = write_piece(0, 0, 100);
    head = head_of(&p);
    head.bytes -= 8;
    ok(breaks(&head, &p, head.bytes), "other bytes than the piece says");
}

static void dropped(void)
{
    piece_t p = swap_piece(0);
    begin();
    pgasi_calls_head_t head = head_of(&p);
    head.offset = head.bytes;
    deliver(&head, &p, 8);
    head = head_of(&p);
    head.kind = 9;
    deliver(&head, &p, bytes_of(&p));
    head = head_of(&p);
    head.to += 1000;
    deliver(&head, &p, bytes_of(&p));
    bool quiet = acks.n == 0 && pgasi_session_poll(&session) == PGAS_OK;
    head.to -= 1000;
    deliver(&head, &p, 40);
    end();
    deliver(&head, &p, bytes_of(&p));
    ok(quiet && acks.n == 0, "messages of other kinds, to others, and late ones are dropped");
}

static void random_messages(uint64_t seed)
{
    pgasi_rng_t rng;
    piece_t p;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 3000; i++) {
        if (i % 10 == 0)
            begin();
        pgasi_calls_head_t head = { .to = session_number(), .kind = PGASI_CALLS_PIECE };
        head.number = pgasi_rng_below(&rng, SLOTS + 1);
        head.bytes = (uint32_t)pgasi_rng_below(&rng, sizeof p + 20);
        head.offset = (uint32_t)pgasi_rng_below(&rng, head.bytes + 2);
        p = pgasi_rng_below(&rng, 2) ? swap_piece(head.number) : write_piece(head.number, 64, 40);
        if (pgasi_rng_below(&rng, 2)) {
            head.bytes = bytes_of(&p);
            head.offset = 0;
        }
        deliver(&head, &p, 1 + (uint32_t)pgasi_rng_below(&rng, sizeof p - 1));
        if (i % 10 == 9)
            end();
    }
    ok(true, "3,000 random messages (seed %" PRIu64 ")", seed);
}

int main(void)
{
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    opts.listen = "127.0.0.1:0";
    opts.region_bytes = REGION;
    uint64_t seed = tap_seed(17);
    plan(18);
    is_int(lone_init(1, "HEAP_SIZE=1M SERVICE_THREADS=0"), PGAS_OK, "a job begins");
    pgasi_calls_start();
    pgasi_calls_on_ack = on_ack;
    is_int(pgasi_replica_make(&opts, false, &replica), PGAS_OK, "a replica without a card");
    orders();
    shuffled(seed);
    wrong_messages();
    dropped();
    random_messages(seed);
    pgas_replica_destroy(replica);
    is_int(pgas_finalize(), PGAS_OK, "the job ends");
    return done();
}
