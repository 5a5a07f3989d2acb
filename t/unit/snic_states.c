/* what: Queue pairs of the software NIC make the allowed state changes, and each state allows its
 *       operations. A driver's mistake is an error of that queue pair alone: malformed entries,
 *       protection domains, doorbells beyond the ring, managed queues that are rung, peers that
 *       disagree.
 * source: verbs_backend/snic/snic.h; the InfiniBand architecture */
#include "base/checks.h"
#include "t/tap.h"
#include "t/unit/snic_bare.h"

#define S        PGASI_WQE_SIGNAL
#define N_STATES 5

static const char *const names[N_STATES] = { "RESET", "INIT", "RTR", "RTS", "ERROR" };

/** Two ends and memory of 4 KiB each, in one protection domain; a third one in another domain. */
typedef struct {
    pgasi_snic_t *snic;
    bare_t end[2];
    unsigned char *bytes[2];
    uint32_t key[2], pd, other_pd;
} world_t;

static void build(world_t *w, uint32_t flags, pgasi_snic_state_t state)
{
    memset(w, 0, sizeof *w);
    w->snic = bare_open_nic(0, 1);
    if (!w->snic)
        bail("no NIC");
    w->pd = pgasi_snic_pd_open(w->snic);
    w->other_pd = pgasi_snic_pd_open(w->snic);
    for (int i = 0; i < 2; i++) {
        w->bytes[i] = bare_memory(4096);
        w->key[i] =
            pgasi_snic_mr_open(w->snic, w->pd, w->bytes[i], 4096, PGAS_VERBS_ACCESS_ALL, -1, 0);
        if (w->key[i] == 0 || !bare_open(&w->end[i], w->snic, w->pd, i == 0 ? flags : 0))
            bail("no queue pair");
    }
    for (int i = 0; i < 2; i++)
        if (!bare_raise(&w->end[i], state, &w->end[1 - i]))
            bail("not raised");
}

static void take_down(world_t *w)
{
    for (int i = 0; i < 2; i++) {
        bare_close(&w->end[i]);
        pgasi_snic_mr_close(w->snic, w->key[i]);
        free(w->bytes[i]);
    }
    pgasi_snic_close(w->snic);
}

/* A byte from end 0 to a place at end 1. */
static void write_byte(world_t *w, uint32_t at, unsigned char byte)
{
    w->bytes[0][at] = byte;
    bare_transfer(&w->end[0], PGASI_WQE_WRITE, w->bytes[0] + at, w->key[0], w->bytes[1] + at,
                  w->key[1], 1, S);
    bare_ring(&w->end[0]);
    bare_settle(w->snic);
}

/* The next completion of an end. */
static bool is_next(bare_t *b, pgasi_cqe_op_t op, uint8_t syndrome, uint16_t counter)
{
    pgasi_cqe_fields_t f = { 0 };
    bool there = bare_poll(b, &f), good = there && f.op == op && f.syndrome == syndrome &&
                                          f.counter == counter && f.qpn == b->qpn;
    if (!good)
        diag("completion: there %d op %u syndrome 0x%x counter %u; wanted op %u syndrome 0x%x "
             "counter %u",
             there, f.op, f.syndrome, f.counter, (unsigned)op, syndrome, counter);
    return good;
}

static bool is_empty(bare_t *b)
{
    pgasi_cqe_fields_t f;
    return !bare_poll(b, &f);
}

/* ---- states ---- */

static void transitions_are_checked(void)
{
    for (int from = 0; from < N_STATES; from++) {
        int n_bad = 0;
        for (int to = 0; to < N_STATES; to++) {
            world_t w;
            build(&w, 0, from == PGASI_SNIC_ERROR ? PGASI_SNIC_INIT : (pgasi_snic_state_t)from);
            if (from == PGASI_SNIC_ERROR)
                n_bad += bare_modify(&w.end[0], PGASI_SNIC_ERROR, &w.end[1]) != PGAS_OK;
            bool allowed = to == PGASI_SNIC_RESET || to == PGASI_SNIC_ERROR ||
                           (to == from + 1 && from != PGASI_SNIC_ERROR);
            pgas_status_t status = bare_modify(&w.end[0], (pgasi_snic_state_t)to, &w.end[1]);
            int now = (int)pgasi_snic_qp_query(w.snic, w.end[0].qpn);
            if (status != (allowed ? PGAS_OK : PGAS_ERR_INVALID) || now != (allowed ? to : from)) {
                diag("%s to %s: %s, now %s", names[from], names[to], pgas_status_name(status),
                     names[now]);
                n_bad++;
            }
            take_down(&w);
        }
        is_int(n_bad, 0, "from %s to each", names[from]);
    }
}

/* Requests that are rung before RTS wait for it. */
static void nothing_is_sent_before_rts(void)
{
    for (int state = PGASI_SNIC_RESET; state < PGASI_SNIC_RTS; state++) {
        world_t w;
        build(&w, 0, (pgasi_snic_state_t)state);
        write_byte(&w, 5, 9);
        bool idle = w.bytes[1][5] == 0 && is_empty(&w.end[0]);
        if (state == PGASI_SNIC_RESET) {
            ok(idle, "rung in RESET: nothing happens");
            take_down(&w);
            continue;
        }
        for (int s = state + 1; s <= PGASI_SNIC_RTS; s++)
            for (int i = 0; i < 2; i++)
                idle =
                    idle && bare_modify(&w.end[i], (pgasi_snic_state_t)s, &w.end[1 - i]) == PGAS_OK;
        bare_settle(w.snic);
        ok(idle && w.bytes[1][5] == 9 && is_next(&w.end[0], PGASI_CQE_REQ, 0, 0),
           "rung in %s: it waits for RTS", names[state]);
        take_down(&w);
    }
}

/* A receiver in RTR answers; one in INIT or RESET does not yet. */
static void receivers_answer_from_rtr_on(void)
{
    world_t w;
    build(&w, 0, PGASI_SNIC_INIT);
    bool good = bare_modify(&w.end[0], PGASI_SNIC_RTR, &w.end[1]) == PGAS_OK &&
                bare_modify(&w.end[0], PGASI_SNIC_RTS, &w.end[1]) == PGAS_OK;
    w.bytes[0][3] = 4;
    bare_transfer(&w.end[0], PGASI_WQE_WRITE, w.bytes[0] + 3, w.key[0], w.bytes[1] + 3, w.key[1], 1,
                  S);
    bare_ring(&w.end[0]);
    for (int i = 0; i < 20; i++)
        pgasi_snic_step(w.snic);
    good =
        good && is_empty(&w.end[0]) && bare_modify(&w.end[1], PGASI_SNIC_RTR, &w.end[0]) == PGAS_OK;
    bare_settle(w.snic);
    ok(good && w.bytes[1][3] == 4 && is_next(&w.end[0], PGASI_CQE_REQ, 0, 0),
       "a receiver that comes to RTR in time answers");
    take_down(&w);
    build(&w, 0, PGASI_SNIC_INIT);
    good = bare_modify(&w.end[0], PGASI_SNIC_RTR, &w.end[1]) == PGAS_OK &&
           bare_modify(&w.end[0], PGASI_SNIC_RTS, &w.end[1]) == PGAS_OK;
    write_byte(&w, 3, 4);
    ok(good && is_next(&w.end[0], PGASI_CQE_REQ_ERR, PGASI_CQE_RETRY, 0) && w.bytes[1][3] == 0 &&
           pgasi_snic_qp_query(w.snic, w.end[0].qpn) == PGASI_SNIC_ERROR,
       "one that never does is given up");
    take_down(&w);
}

static void error_flushes_and_reset_begins_anew(void)
{
    world_t w;
    build(&w, 0, PGASI_SNIC_RTS);
    bare_recv(&w.end[0], w.bytes[0], w.key[0], 64);
    bare_entry(&w.end[0], PGASI_WQE_NOP, 1, 0);
    bare_ring(&w.end[0]);
    bare_settle(w.snic);
    bool good = bare_modify(&w.end[0], PGASI_SNIC_ERROR, &w.end[1]) == PGAS_OK;
    bare_entry(&w.end[0], PGASI_WQE_NOP, 1, 0); /* not signaled: flushed all the same */
    bare_ring(&w.end[0]);
    bare_settle(w.snic);
    int n_send = 0, n_recv = 0;
    pgasi_cqe_fields_t f;
    while (bare_poll(&w.end[0], &f)) {
        n_send += f.op == PGASI_CQE_REQ_ERR && f.syndrome == PGASI_CQE_FLUSHED && f.counter == 1;
        n_recv += f.op == PGASI_CQE_RESP_ERR && f.syndrome == PGASI_CQE_FLUSHED && f.counter == 0;
    }
    ok(good && n_send == 1 && n_recv == 1, "requests posted in ERROR are flushed, in both queues");
    for (int i = 0; i < 2; i++) {
        good = good && bare_modify(&w.end[i], PGASI_SNIC_RESET, &w.end[1 - i]) == PGAS_OK;
        w.end[i].record[0] = w.end[i].record[1] = 0;
    }
    for (int i = 0; i < 2; i++)
        good = good && bare_raise(&w.end[i], PGASI_SNIC_RTS, &w.end[1 - i]);
    write_byte(&w, 9, 8);
    ok(good && w.bytes[1][9] == 8 && is_next(&w.end[0], PGASI_CQE_REQ, 0, 0),
       "after RESET it begins anew");
    take_down(&w);
}

/* Completions of earlier requests come before those of flushed ones, however late. @return seeds
 * for which they did not */
static int flushed_out_of_order(void)
{
    int n_bad = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        pgasi_snic_t *snic = bare_open_nic(PGAS_VERBS_SNIC_DELAY, seed);
        bare_t b;
        pgasi_cqe_fields_t f;
        if (!snic || !bare_open(&b, snic, pgasi_snic_pd_open(snic), 0) ||
            !bare_raise(&b, PGASI_SNIC_RTS, &b))
            bail("no queue pair");
        for (int i = 0; i < 6; i++)
            bare_entry(&b, PGASI_WQE_NOP, 1, S);
        bare_ring(&b);
        for (uint64_t i = 0; i < seed % 12; i++)
            pgasi_snic_step(snic);
        bool good = bare_modify(&b, PGASI_SNIC_ERROR, &b) == PGAS_OK, failed = false;
        bare_settle(snic);
        for (uint16_t i = 0; i < 6; i++) {
            good = good && bare_poll(&b, &f) && f.counter == i &&
                   (!failed || f.op == PGASI_CQE_REQ_ERR);
            failed = failed || f.op == PGASI_CQE_REQ_ERR;
        }
        n_bad += !good || !is_empty(&b);
        bare_close(&b);
        pgasi_snic_close(snic);
    }
    return n_bad;
}

/* ---- peers ---- */

static void peers_must_agree(void)
{
    world_t w;
    bare_t third;
    build(&w, 0, PGASI_SNIC_INIT);
    bool good = bare_open(&third, w.snic, w.pd, 0) && bare_raise(&third, PGASI_SNIC_RTS, &w.end[0]);
    good = good && bare_modify(&w.end[0], PGASI_SNIC_RTR, &w.end[1]) == PGAS_OK &&
           bare_modify(&w.end[0], PGASI_SNIC_RTS, &w.end[1]) == PGAS_OK;
    good = good && bare_modify(&w.end[1], PGASI_SNIC_RTR, &third) == PGAS_OK;
    write_byte(&w, 1, 7);
    ok(good && is_next(&w.end[0], PGASI_CQE_REQ_ERR, PGASI_CQE_RETRY, 0) && w.bytes[1][1] == 0,
       "a peer that is connected elsewhere does not answer");
    bare_close(&third);
    take_down(&w);

    build(&w, 0, PGASI_SNIC_INIT);
    pgasi_snic_qp_state_t s = {
        .state = PGASI_SNIC_RTR, .peer_qpn = w.end[0].qpn, .psn_in = 99, .reads_max_in = 16
    };
    good = bare_modify(&w.end[0], PGASI_SNIC_RTR, &w.end[1]) == PGAS_OK &&
           bare_modify(&w.end[0], PGASI_SNIC_RTS, &w.end[1]) == PGAS_OK;
    good = good && pgasi_snic_qp_modify(w.snic, w.end[1].qpn, &s) == PGAS_OK;
    write_byte(&w, 1, 7);
    ok(good && is_next(&w.end[0], PGASI_CQE_REQ_ERR, PGASI_CQE_RETRY, 0) && w.bytes[1][1] == 0,
       "message numbers that do not agree: no answer");
    take_down(&w);

    build(&w, 0, PGASI_SNIC_RTS);
    uint32_t old = w.end[1].qpn;
    bare_close(&w.end[1]);
    good = bare_open(&w.end[1], w.snic, w.pd, 0) && w.end[1].qpn != old &&
           bare_raise(&w.end[1], PGASI_SNIC_RTS, &w.end[0]);
    write_byte(&w, 1, 7);
    ok(good && is_next(&w.end[0], PGASI_CQE_REQ_ERR, PGASI_CQE_RETRY, 0) && w.bytes[1][1] == 0,
       "another queue pair in the place of a closed one is not taken for it");
    good = pgasi_snic_qp_query(w.snic, old) == PGASI_SNIC_RESET;
    s.state = PGASI_SNIC_INIT;
    ok(good && pgasi_snic_qp_modify(w.snic, old, &s) == PGAS_ERR_INVALID, "its old number is free");
    take_down(&w);
}

static void domains_are_apart(void)
{
    for (int side = 0; side < 2; side++) {
        world_t w;
        build(&w, 0, PGASI_SNIC_RTS);
        uint32_t foreign = pgasi_snic_mr_open(w.snic, w.other_pd, w.bytes[side], 4096,
                                              PGAS_VERBS_ACCESS_ALL, -1, 0);
        uint32_t right = w.key[side];
        w.key[side] = foreign;
        write_byte(&w, 2, 3);
        w.key[side] = right;
        pgasi_snic_mr_close(w.snic, foreign);
        ok(foreign != 0 && w.bytes[1][2] == 0 &&
               is_next(&w.end[0], PGASI_CQE_REQ_ERR,
                       side == 0 ? PGASI_CQE_LOCAL_PROT : PGASI_CQE_REMOTE_ACCESS, 0),
           "memory of another protection domain %s", side == 0 ? "here" : "there");
        take_down(&w);
    }
}

/* ---- entries that make no sense ---- */

typedef struct {
    const char *what;
    uint8_t op;
    unsigned segments;
    uint32_t flags, number; /* of the queue pair; of the WAIT's or ENABLE's object, 1 << 31: ours */
} nonsense_t;

#define TIMED 0x80000000u /* the opcode's modifier is set */

static const nonsense_t nonsense[] = {
    { "no length", PGASI_WQE_NOP, 0, 0, 0 },
    { "an unknown opcode", 0x2a, 1, 0, 0 },
    { "an opcode of other cards (masked atomics)", 0x14, 4, 0, 0 },
    { "a WRITE without address", PGASI_WQE_WRITE, 1, 0, 0 },
    { "a CSWAP without result", PGASI_WQE_CSWAP, 3, 0, 0 },
    { "a WAIT without index", PGASI_WQE_WAIT, 1, PGASI_SNIC_MASTER, 0 },
    { "a WAIT for a queue that is not there", PGASI_WQE_WAIT, 2, PGASI_SNIC_MASTER, 777 },
    { "a WAIT for queue 0", PGASI_WQE_WAIT, 2, PGASI_SNIC_MASTER, 0 },
    { "a WAIT for a time", PGASI_WQE_WAIT, 2, PGASI_SNIC_MASTER | TIMED, 1u << 31 },
    { "a WAIT without a master queue", PGASI_WQE_WAIT, 2, 0, 1u << 31 },
    { "a SEND_EN of a queue pair that is not there", PGASI_WQE_SEND_EN, 2, PGASI_SNIC_MASTER,
      0x123456 },
    { "a SEND_EN without a master queue", PGASI_WQE_SEND_EN, 2, 0, 1u << 31 },
    { "a RECV_EN of a queue pair that is not there", PGASI_WQE_RECV_EN, 2, PGASI_SNIC_MASTER,
      0x123456 },
    { "a RECV_EN without a master queue", PGASI_WQE_RECV_EN, 2, 0, 1u << 31 },
};

static void nonsense_is_an_error(void)
{
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(nonsense); i++) {
        const nonsense_t *n = &nonsense[i];
        world_t w;
        build(&w, n->flags & ~TIMED, PGASI_SNIC_RTS);
        uint32_t ours = n->op == PGASI_WQE_WAIT ? w.end[0].cqn : w.end[1].qpn;
        bare_entry(&w.end[0], PGASI_WQE_NOP, 1, 0);
        unsigned char *at = bare_entry(&w.end[0], n->op, n->segments, 0);
        if (n->segments == 2)
            pgasi_wqe_set_enable((void *)(at + 16), 0, n->number >> 31 ? ours : n->number);
        at[0] = n->flags & TIMED ? 2 : 0;
        bare_entry(&w.end[0], PGASI_WQE_NOP, 1, S);
        bare_ring(&w.end[0]);
        bare_settle(w.snic);
        ok(is_next(&w.end[0], PGASI_CQE_REQ_ERR, PGASI_CQE_LOCAL_QP_OP, 1) &&
               is_next(&w.end[0], PGASI_CQE_REQ_ERR, PGASI_CQE_FLUSHED, 2) && is_empty(&w.end[0]) &&
               pgasi_snic_qp_query(w.snic, w.end[0].qpn) == PGASI_SNIC_ERROR &&
               pgasi_snic_qp_query(w.snic, w.end[1].qpn) == PGASI_SNIC_RTS,
           "%s: an error of this queue pair alone", n->what);
        take_down(&w);
    }
}

static void signals_are_as_asked(void)
{
    for (int all = 0; all < 2; all++) {
        world_t w;
        build(&w, all ? PGASI_SNIC_SIGNAL_ALL : 0, PGASI_SNIC_RTS);
        for (unsigned k = 0; k < 4; k++)
            /* on error; on the first error; always; reserved */
            bare_entry(&w.end[0], PGASI_WQE_NOP, 1, k << 2);
        bare_entry(&w.end[0], PGASI_WQE_NOP, 1, S);
        bare_ring(&w.end[0]);
        bare_settle(w.snic);
        int n = 0;
        pgasi_cqe_fields_t f;
        uint16_t last = 0;
        for (; bare_poll(&w.end[0], &f); n++)
            last = f.counter;
        ok((all ? n == 5 : n >= 2 && n <= 3) && last == 4, "completions %s",
           all ? "of all entries" : "of entries that ask for them");
        take_down(&w);
    }
}

/* ---- doorbells ---- */

static void doorbells_beyond_the_ring(void)
{
    world_t w;
    build(&w, PGASI_SNIC_CHECK_OVERRUN, PGASI_SNIC_RTS);
    for (uint32_t i = 0; i < BARE_BLOCKS; i++)
        bare_entry(&w.end[0], PGASI_WQE_NOP, 1, S);
    bare_ring(&w.end[0]);
    bare_settle(w.snic);
    pgasi_cqe_fields_t f;
    int n = 0, n_bad = 0;
    for (; bare_poll(&w.end[0], &f); n++)
        n_bad += f.op != PGASI_CQE_REQ;
    ok(n == (int)BARE_BLOCKS && n_bad == 0, "a ring's length of entries at once");
    w.end[0].pi += BARE_BLOCKS + 1;
    bare_ring(&w.end[0]);
    bare_settle(w.snic);
    is_int(pgasi_snic_qp_query(w.snic, w.end[0].qpn), PGASI_SNIC_ERROR,
           "one more than the ring has is an error");
    take_down(&w);
    build(&w, 0, PGASI_SNIC_RTS);
    for (uint32_t i = 0; i < BARE_BLOCKS; i++)
        bare_entry(&w.end[0], PGASI_WQE_NOP, 1, S);
    w.end[0].pi += 3;
    bare_ring(&w.end[0]);
    bare_settle(w.snic);
    for (n = 0; bare_poll(&w.end[0], &f); n++)
        n_bad += f.op != PGASI_CQE_REQ;
    ok(n == (int)BARE_BLOCKS + 3 && n_bad == 0, "without the check it goes round");
    take_down(&w);
}

/* A card runs entries that it was rung for, also of a managed queue: if it is rung before an entry
 * is complete, it runs the old entry. */
static void managed_queues_that_are_rung_run(void)
{
    for (int early = 0; early < 2; early++) {
        world_t w;
        bare_t master;
        build(&w, PGASI_SNIC_MANAGED_SEND, PGASI_SNIC_RTS);
        bool good = bare_open(&master, w.snic, w.pd, PGASI_SNIC_MASTER) &&
                    bare_raise(&master, PGASI_SNIC_RTS, &master);
        w.bytes[0][0] = 1;
        w.bytes[0][1] = 2;
        bare_transfer(&w.end[0], PGASI_WQE_WRITE, w.bytes[0], w.key[0], w.bytes[1], w.key[1], 1, S);
        if (early) {
            bare_ring(&w.end[0]);
            bare_settle(w.snic);
        }
        pgasi_wqe_set_data((void *)(w.end[0].sq + 32), (uintptr_t)w.bytes[0] + 1, 1, w.key[0]);
        bare_enable(&master, PGASI_WQE_SEND_EN, 1, w.end[0].qpn, 0);
        bare_ring(&master);
        bare_settle(w.snic);
        ok(good && w.bytes[1][0] == (early ? 1 : 2) && is_next(&w.end[0], PGASI_CQE_REQ, 0, 0) &&
               is_empty(&w.end[0]),
           early ? "a managed queue that is rung too early does the wrong thing"
                 : "one that is enabled in time does the right thing");
        bare_close(&master);
        take_down(&w);
    }
}

int main(void)
{
    plan(N_STATES + 3 + 2 + 3 + 4 + 2 + (int)PGASI_ARRAY_LENGTH(nonsense) + 2 + 3 + 2);
    transitions_are_checked();
    nothing_is_sent_before_rts();
    receivers_answer_from_rtr_on();
    error_flushes_and_reset_begins_anew();
    is_int(flushed_out_of_order(), 0, "late completions come before flushed ones");
    peers_must_agree();
    domains_are_apart();
    nonsense_is_an_error();
    signals_are_as_asked();
    doorbells_beyond_the_ring();
    managed_queues_that_are_rung_run();
    return done();
}
