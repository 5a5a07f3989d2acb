/* Lost connections. A socket that ends, or a card that does not answer, does not prove a death. So
 * the backend asks its owner every ASK_NS whether the rank has died (suspect_fn): the owner often
 * learns of a death a moment after the socket ends. Meanwhile the backend opens the socket again.
 * It gives up a rank that it cannot reach for GIVE_UP_S, with PGAS_ERR_TRANSPORT. */
#include "verbs_backend/transport/inside.h"

#include <stdlib.h>
#include "base/clock.h"

#define ASK_NS    UINT64_C(50000000)
#define GIVE_UP_S 20

struct pgasi_verbs_lost {
    pgasi_verbs_lost_t *next;
    int peer;
    bool socket; /* its socket has ended; otherwise a queue pair is broken */
    const char *why;
    uint32_t n; /* how often its socket was added */
    uint64_t since_ns, next_ns;
};

void pgasi_verbs_lost_add(pgasi_verbs_tp_t *tp, int peer, bool socket, const char *why)
{
    pthread_mutex_lock(&tp->lost_lock);
    pgasi_verbs_lost_t *lost = tp->lost;
    while (lost && (lost->peer != peer || lost->socket != socket))
        lost = lost->next;
    if (!lost) {
        lost = calloc(1, sizeof *lost);
        if (!lost)
            pgasi_fatal("verbs", "no memory to ask whether rank %d has died", peer);
        *lost = (pgasi_verbs_lost_t){
            .next = tp->lost, .peer = peer, .socket = socket, .why = why, .since_ns = pgasi_now_ns()
        };
        tp->lost = lost;
        __atomic_store_n(&tp->n_lost, tp->n_lost + 1, __ATOMIC_RELAXED);
    }
    lost->n += socket; /* a broken queue pair is added again by each progress */
    pthread_mutex_unlock(&tp->lost_lock);
    pgasi_verbs_cm_run_later(tp);
}

/* Copies one lost connection that is due. */
static bool next_due(pgasi_verbs_tp_t *tp, uint64_t now, pgasi_verbs_lost_t *lost_p)
{
    pthread_mutex_lock(&tp->lost_lock);
    pgasi_verbs_lost_t *lost = tp->lost;
    while (lost && lost->next_ns > now)
        lost = lost->next;
    if (lost) {
        lost->next_ns = now + ASK_NS;
        *lost_p = *lost;
    }
    pthread_mutex_unlock(&tp->lost_lock);
    return lost;
}

/* Removes a loss that is settled. If the connection was lost again meanwhile, that is a new loss
 * and stays. */
static void forget(pgasi_verbs_tp_t *tp, const pgasi_verbs_lost_t *settled)
{
    pthread_mutex_lock(&tp->lost_lock);
    pgasi_verbs_lost_t **at = &tp->lost;
    while (*at && ((*at)->peer != settled->peer || (*at)->socket != settled->socket))
        at = &(*at)->next;
    pgasi_verbs_lost_t *lost = *at;
    if (lost && lost->n != settled->n) {
        lost->since_ns = pgasi_now_ns();
        lost = NULL;
    } else if (lost) {
        *at = lost->next;
        __atomic_store_n(&tp->n_lost, tp->n_lost - 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&tp->lost_lock);
    free(lost);
}

void pgasi_verbs_unreachable(pgasi_verbs_tp_t *tp, int peer, const char *why)
{
    const unsigned char known = PGASI_VERBS_GONE | PGASI_VERBS_UNREACHABLE;
    if ((__atomic_fetch_or(&tp->dead[peer], PGASI_VERBS_UNREACHABLE, __ATOMIC_RELAXED) & known) !=
        0)
        return;
    PGASI_ERROR("verbs",
                "the connection to rank %d is lost (%s), but the rank is alive: operations to it "
                "end with PGAS_ERR_TRANSPORT",
                peer, why);
    if (tp->opts.error_fn)
        tp->opts.error_fn(tp->opts.arg, peer, PGAS_ERR_TRANSPORT);
}

bool pgasi_verbs_has_died(const pgasi_verbs_tp_t *tp, int peer)
{
    return pgasi_verbs_is_dead(tp, peer) || !tp->opts.suspect_fn ||
           tp->opts.suspect_fn(tp->opts.arg, peer);
}

/* @return whether the loss is settled */
static bool settle(pgasi_verbs_tp_t *tp, const pgasi_verbs_lost_t *lost, uint64_t now)
{
    if (pgasi_verbs_has_died(tp, lost->peer)) {
        pgasi_verbs_peer_gone(tp, lost->peer, lost->why);
        pgasi_verbs_cm_dismiss(tp, lost->peer);
        return true;
    }
    if (lost->socket && pgasi_verbs_cm_reconnect(tp, lost->peer)) {
        PGASI_INFO("verbs", "the connection to rank %d is open again", lost->peer);
        return true;
    }
    if (now - lost->since_ns < GIVE_UP_S * PGASI_NS_PER_S)
        return false;
    pgasi_verbs_unreachable(tp, lost->peer, lost->why);
    return true;
}

void pgasi_verbs_lost_run(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_lost_t lost;
    if (PGAS_LIKELY(__atomic_load_n(&tp->n_lost, __ATOMIC_RELAXED) == 0))
        return;
    for (uint64_t now = pgasi_now_ns(); next_due(tp, now, &lost);)
        if (settle(tp, &lost, now))
            forget(tp, &lost);
    if (__atomic_load_n(&tp->n_lost, __ATOMIC_RELAXED) > 0)
        pgasi_verbs_cm_run_later(tp);
}

void pgasi_verbs_lost_fini(pgasi_verbs_tp_t *tp)
{
    while (tp->lost) {
        pgasi_verbs_lost_t *lost = tp->lost;
        tp->lost = lost->next;
        free(lost);
    }
}
