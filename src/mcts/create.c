/* Creating and destroying searches. */
#include <math.h>
#include <stdlib.h>

#include "base/machine.h"
#include "base/hash.h"
#include "mcts/mcts.h"
#include "pgas/coll.h"
#include "pgas/handler.h"
#include "pgas/runtime.h"

/* ---- options ---- */

static int or_else(int value, int fallback)
{
    return value ? value : fallback;
}

static double positive_or(double value, double fallback)
{
    return value > 0 ? value : fallback;
}

static void fill_in(pgas_mcts_opts_t *o, int n_ranks)
{
    bool puct = o->policy == PGAS_MCTS_PUCT;
    o->seed = o->seed ? o->seed : 1;
    o->n_threads = or_else(o->n_threads, 1);
    o->playouts = or_else(o->playouts, 16);
    o->exploration = o->exploration < 0 ? 0 : positive_or(o->exploration, puct ? 1.5 : 1);
    o->virtual_loss = positive_or(o->virtual_loss, 1);
    o->widening_power = positive_or(o->widening_power, .5);
    o->near_every = or_else(o->near_every, 16);
    o->phase = or_else(o->phase, 4096);
    o->max_depth = or_else(o->max_depth, 1000);
    o->memory_bytes = o->memory_bytes ? o->memory_bytes : (size_t)1 << 30;
    o->in_flight = or_else(o->in_flight, (o->playouts < 4 ? 96 : 64) * o->n_threads * n_ranks);
    if (o->mode == PGAS_MCTS_ROOT) /* each rank starts rollouts of its own */
        o->in_flight = PGASI_MAX(o->in_flight / n_ranks, 1);
}

/* Returns NULL if nothing is. */
static const char *what_is_wrong(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *o)
{
    if ((unsigned)o->policy > PGAS_MCTS_PUCT || (unsigned)o->pending > PGAS_MCTS_IGNORED ||
        (unsigned)o->mode > PGAS_MCTS_LEAF || (unsigned)o->place > PGAS_MCTS_NEAR ||
        (unsigned)o->style > PGAS_AGG_OVERFLOW)
        return "no such policy, pending, mode, place or style";
    if (o->place == PGAS_MCTS_HASH && !spec->hash)
        return "place by hash needs the problem's hash";
    if (!(o->fpu >= 0) || !(o->virtual_loss >= 0) || !(o->widening >= 0) ||
        !(o->widening_power >= 0))
        return "fpu, virtual_loss, widening or widening_power is negative, or no number";
    if (!isfinite(o->fpu + o->virtual_loss + o->widening + o->widening_power + o->exploration))
        return "exploration, fpu, virtual_loss, widening or widening_power is not finite";
    if (o->n_threads < 0 || o->playouts < 0 || o->near_every < 0 || o->in_flight < 0 ||
        o->phase < 0 || o->max_depth < 0)
        return "a number is negative";
    return NULL;
}

static pgas_status_t check_opts(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *o)
{
    const char *wrong = what_is_wrong(spec, o);
    if (wrong) {
        PGASI_ERROR("mcts", "options: %s", wrong);
        return PGAS_ERR_INVALID;
    }
    if (o->n_threads > PGASI_MCTS_THREADS_MAX || o->playouts > 65535 || o->phase > 4096 ||
        o->max_depth > 65000) {
        PGASI_ERROR("mcts", "options: n_threads, playouts, phase or max_depth is above its limit");
        return PGAS_ERR_LIMIT;
    }
    return PGAS_OK;
}

static uint64_t add_word(uint64_t sum, uint64_t word)
{
    return pgasi_hash_combine(sum, word);
}

static uint64_t add_real(uint64_t sum, double value)
{
    return pgasi_hash_bytes(&value, sizeof value, sum);
}

static uint64_t spec_checksum(const pgas_mcts_spec_t *s)
{
    uint64_t sum = add_word(1, s->state_bytes);
    sum = add_word(sum, (uint64_t)s->n_players);
    sum = add_word(sum, s->moves_max);
    sum = add_word(sum, s->has_priors);
    sum = add_word(sum, s->hash != NULL);
    sum = add_word(sum, s->playout != NULL);
    return add_word(sum, s->evaluate != NULL);
}

/* The same number for the same description and options. */
static uint64_t checksum(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *o)
{
    uint64_t sum = add_word(spec_checksum(spec), o->seed);
    sum = add_word(sum, (uint64_t)o->n_threads);
    sum = add_word(sum, (uint64_t)o->playouts);
    sum = add_word(sum, o->policy);
    sum = add_real(sum, o->exploration);
    sum = add_real(sum, o->fpu);
    sum = add_word(sum, o->pending);
    sum = add_real(sum, o->virtual_loss);
    sum = add_real(sum, o->widening);
    sum = add_real(sum, o->widening_power);
    sum = add_word(sum, o->mode);
    sum = add_word(sum, o->place);
    sum = add_word(sum, (uint64_t)o->near_every);
    sum = add_word(sum, o->always_call);
    sum = add_word(sum, o->no_combining);
    sum = add_word(sum, o->no_proofs);
    sum = add_word(sum, o->style);
    sum = add_word(sum, (uint64_t)o->in_flight);
    sum = add_word(sum, (uint64_t)o->phase);
    sum = add_word(sum, (uint64_t)o->max_depth);
    return add_word(sum, o->memory_bytes);
}

/* Collective. Checks the description and the options, and fills in defaults. */
static pgas_status_t check_all(const pgas_mcts_spec_t *spec, pgas_mcts_opts_t *o, int *id_p)
{
    pgas_status_t status = pgasi_mcts_check_spec(spec);
    if (status == PGAS_OK)
        status = check_opts(spec, o);
    if (status == PGAS_OK && (*id_p = pgasi_mcts_free_number()) < 0)
        status = PGAS_ERR_LIMIT;
    if (status == PGAS_OK && pgas_n_ranks() > 65535)
        status = PGAS_ERR_LIMIT;
    if (status == PGAS_OK)
        fill_in(o, pgas_n_ranks());
    return pgasi_mcts_agree(status, status == PGAS_OK ? checksum(spec, o) : 0);
}

/* ---- creating and destroying ---- */

static uint64_t table_size(const pgas_mcts_t *m)
{
    uint64_t n = 1024;
    while (n < (UINT64_C(1) << 20) && n * 1024 < m->opts.memory_bytes)
        n *= 2;
    return n;
}

static pgas_status_t init(pgas_mcts_t *m)
{
    size_t proof_bytes = PGASI_ALIGN_UP((size_t)m->spec.n_players * sizeof(uint32_t), 8);
    m->state_bytes = PGASI_ALIGN_UP(m->spec.state_bytes, 8);
    m->node_bytes = sizeof(node_t) + m->state_bytes + proof_bytes;
    m->exploration = (float)m->opts.exploration;
    m->is_graph = m->opts.place == PGAS_MCTS_HASH && m->opts.mode != PGAS_MCTS_LEAF;
    m->root_state = calloc(1, m->state_bytes);
    m->children = malloc(m->spec.moves_max * sizeof *m->children);
    if (m->is_graph) {
        m->table_mask = table_size(m) - 1;
        m->table = calloc(m->table_mask + 1, sizeof *m->table);
    }
    if (!m->root_state || !m->children || (m->is_graph && !m->table))
        return PGAS_ERR_NO_MEMORY;
    return pgasi_mcts_workers_init(m);
}

static void fini(pgas_mcts_t *m)
{
    pgasi_mcts_workers_fini(m);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->root_lock);
    pthread_mutex_destroy(&m->shared_pool.lock);
    pthread_cond_destroy(&m->changed);
    free(m->table);
    free(m->root_state);
    free(m->children);
    free(m);
}

static pgas_mcts_t *allocate(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts, int id)
{
    pgas_mcts_t *m = aligned_alloc(64, PGASI_ALIGN_UP(sizeof *m, 64));
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    m->id = (uint32_t)id;
    m->spec = *spec;
    m->opts = *opts;
    m->me = pgas_rank();
    m->n_ranks = pgas_n_ranks();
    m->n_threads = opts->n_threads;
    m->has_avx2 = pgasi_machine_has_avx2();
    m->creator = pthread_self();
    m->root_share = PGASI_MCTS_SHARE_WHOLE;
    m->result.best = PGAS_MCTS_NO_MOVE;
    m->result.size = sizeof m->result;
    m->info.size = sizeof m->info;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->root_lock, NULL);
    pthread_mutex_init(&m->shared_pool.lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    return m;
}

pgas_status_t pgas_mcts_create(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                               pgas_mcts_t **mcts_p)
{
    static const pgas_mcts_opts_t defaults = PGAS_MCTS_OPTS_INIT;
    if (!pgas_initialized())
        return PGAS_ERR_NOT_INIT;
    int id = -1;
    pgas_mcts_opts_t o = opts && opts->size >= sizeof o ? *opts : defaults;
    pgas_status_t status = PGASI_OPTS_SANE(opts, sizeof o) && mcts_p ? PGAS_OK : PGAS_ERR_INVALID;
    status = pgasi_mcts_agree(status, 0);
    if (status == PGAS_OK)
        status = check_all(spec, &o, &id);
    if (status == PGAS_OK)
        status = pgasi_mcts_register();
    if (status == PGAS_OK)
        status = pgas_handlers_agree();
    if (status != PGAS_OK)
        return status;
    pgas_mcts_t *m = allocate(spec, &o, id);
    status = pgasi_mcts_agree(m ? init(m) : PGAS_ERR_NO_MEMORY, 0);
    if (status != PGAS_OK) {
        if (m)
            fini(m);
        return status;
    }
    pgasi_mcts_add(m);
    *mcts_p = m;
    return pgas_barrier(NULL); /* all ranks know the search before a message for it comes */
}

pgas_status_t pgas_mcts_destroy(pgas_mcts_t *m)
{
    if (!m)
        return PGAS_OK;
    pgas_status_t status = pgasi_mcts_check(m);
    if (status == PGAS_OK)
        status = pgas_quiesce(); /* another rank may be requesting information */
    else if (status != PGAS_ERR_PEER)
        return status;
    pgasi_mcts_remove(m);
    fini(m);
    return status;
}
