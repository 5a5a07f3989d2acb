/* Access grants: accesses of a site's threads to a chunk, without the protocol.
 *
 * The code is shaped for three kinds of use:
 * 1. One thread works on a chunk. It becomes the owner, and reads, changes and writes by plain
 *    loads and stores.
 * 2. Many threads read. Each rank gets a mapping entry for readers.
 * 3. Several threads of a node use a chunk and some write. Readers keep their entries, and writers
 *    get entries for atomic instructions, so all accesses are sequentially consistent. If elements
 *    are wider than a load, every thread takes the lock.
 *
 * A chunk that is recalled again and again costs a barrier on all processors each time. After
 * HEAT_MAX such recalls the lock guards the chunk, until it has been quiet for GUARD accesses. A
 * recall HOT_NS or more after the grant costs little beside the time of use, so it decrements the
 * count. For example, ranks that walk through an array in turn recall each chunk in every round,
 * but use it long enough.
 *
 * An owner's stores need no fence. Other threads see them only after they have taken the chunk
 * from the owner, and taking it ends with a barrier on the owner's processor. The owner's own
 * loads of other chunks were done before that barrier, or are repeated after it. */
#include "array/grant.h"

#include "array/array.h"
#include "array/mapping.h"
#include "base/op.h"
#include "array/own_pins.h"
#include "array/slots.h"
#include "array/words.h"
#include "base/checks.h"
#include "base/clock.h"
#include "boot/boot.h"
#include "mem/thread.h"

#define HEAT_MAX   4 /* recalls that cost a barrier, after which a chunk is guarded */
#define HOT_NS     (500 * UINT64_C(1000)) /* some forty times the cost of a barrier */
#define GUARD      256                    /* accesses for which it is guarded */
#define GUARD_WIDE 1024 /* the same, for wide elements that several threads write */
#define CONTENDED  8    /* chunks shared more often than owned, of which two count as one */
#define PROBE      16   /* a chunk of so many is owned at first nevertheless */
#define LAST_BIT   63

/* ---- the lock ---- */

/* The lock word is node rank + 1 of the holder. If the holder is on another node, it is FOREIGN and
 * the rank + 1. So the lock of a dead rank is free. */
#define FOREIGN (UINT32_C(1) << 31)

static bool has_died(uint32_t holder)
{
    if (holder & FOREIGN)
        return pgasi_boot_some_dead() && pgasi_boot_is_dead((int)(holder & ~FOREIGN) - 1);
    return pgasi_array_has_died((int)holder - 1);
}

/* holder: whose lock this one takes over; 0: nobody's. */
PGAS_INLINE bool try_lock(pgasi_array_grant_t *grant, uint32_t holder, uint32_t me)
{
    return __atomic_compare_exchange_n(&grant->lock, &holder, me, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static uint32_t me_of_node(void)
{
    return (uint32_t)pgasi_boot.node_rank + 1;
}

static __attribute__((noinline)) void wait_for_lock(pgasi_array_grant_t *grant)
{
    uint32_t holder = 0, n = 0;
    do {
        while ((holder = __atomic_load_n(&grant->lock, __ATOMIC_RELAXED)) && !has_died(holder))
            pgasi_array_let_others_run(++n);
    } while (!try_lock(grant, holder, me_of_node()));
}

PGAS_INLINE void lock(pgasi_array_grant_t *grant)
{
    if (PGAS_UNLIKELY(!try_lock(grant, 0, me_of_node())))
        wait_for_lock(grant);
}

static void unlock(pgasi_array_grant_t *grant)
{
    __atomic_store_n(&grant->lock, 0, __ATOMIC_RELEASE);
}

/* The cache reads this without the lock, to choose lines for eviction. */
static void touch(pgasi_array_grant_t *grant)
{
    if (!__atomic_load_n(&grant->touched, __ATOMIC_RELAXED))
        __atomic_store_n(&grant->touched, 1, __ATOMIC_RELAXED);
}

/* ---- mapping entries of threads; lock held ---- */

/* While a chunk is Operated, entries of another rank of the node are for its cache line. */
static bool is_for_line(const pgasi_array_site_t *site)
{
    return site->at_home && !site->at_own_home && site->array->n_near_max &&
           site->grant->now.permits == PGASI_ARRAY_OPERATES;
}

static bool may_publish(const pgasi_array_site_t *site, bool by_thread)
{
    return by_thread && !is_for_line(site) && !site->cut && !site->array->guard_all &&
           pgasi_array_self() != 0;
}

static pgasi_array_mode_t quiet_mode(const pgasi_array_grant_t *grant)
{
    return grant->now.stays_shared ? PGASI_ARRAY_SHARED : PGASI_ARRAY_OPEN;
}

static void guard(pgasi_array_grant_t *grant, uint16_t budget)
{
    grant->now.mode = PGASI_ARRAY_GUARDED;
    grant->now.budget = budget;
}

/* Publishes the accesses that all threads of this rank may make at the same time as other
 * threads. */
static void publish_to_all(const pgasi_array_site_t *site)
{
    pgasi_array_grant_t *grant = site->grant;
    bool shared = grant->now.mode == PGASI_ARRAY_SHARED;
    uint64_t rights = grant->now.permits == PGASI_ARRAY_OPERATES ? 0 : PGAS_ARRAY_RIGHT_READ;
    if (shared && grant->now.permits != PGASI_ARRAY_READS)
        rights |= grant->now.permits == PGASI_ARRAY_ALL
                      ? PGAS_ARRAY_RIGHT_CHANGE
                      : (uint64_t)grant->now.op << 32 | PGAS_ARRAY_RIGHT_COMBINE;
    grant->now.readers |= UINT64_C(1) << PGASI_MIN(pgasi_boot.node_rank, LAST_BIT);
    pgasi_array_mapping_publish(site, rights);
}

/* Ends the ownership of another thread, or of this thread for an access of another thread. From
 * now on the chunk is shared. */
static void end_ownership(const pgasi_array_site_t *site)
{
    pgasi_array_mapping_withdraw_owner(site);
    pgasi_array_mapping_wait_left(site);
    if (site->array->wide)
        guard(site->grant, GUARD_WIDE);
    else
        site->grant->now.mode = PGASI_ARRAY_SHARED;
}

/* Before a read: makes sure that other threads write only by atomic instructions. */
static void settle_read(const pgasi_array_site_t *site, bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    uint32_t me = pgasi_array_self();
    if (grant->now.owner && (grant->now.owner != me || !by_thread))
        end_ownership(site);
    if (grant->now.mode == PGASI_ARRAY_GUARDED || !may_publish(site, by_thread))
        return;
    if (grant->now.owner == me)
        pgasi_array_mapping_publish(site, pgas_array_path.data);
    else if (!(site->array->wide && grant->now.permits != PGASI_ARRAY_READS &&
               grant->now.mode == PGASI_ARRAY_SHARED))
        publish_to_all(site);
}

/* Readers of this rank do not count while it has one thread. */
static bool others_read(const pgasi_array_site_t *site)
{
    uint64_t mine = UINT64_C(1) << PGASI_MIN(pgasi_boot.node_rank, LAST_BIT);
    bool sole = pgasi_array_is_sole() && pgasi_boot.node_rank < LAST_BIT;
    return (site->grant->now.readers & ~(sole ? mine : 0)) != 0;
}

/* Whether a thread that combines shares the chunk from the beginning, although it could become the
 * owner. It does in chunks of other ranks, and if most chunks of the array that it combined into
 * were or became shared, because each end of an ownership costs a barrier. Sometimes it becomes the
 * owner nevertheless, so that a change of the program's behaviour is noticed. */
static bool shares_at_once(const pgasi_array_site_t *site)
{
    const pgasi_array_t *a = site->array;
    return site->at_home && !a->wide && site->grant->now.permits == PGASI_ARRAY_ALL &&
           (!site->at_own_home || __atomic_load_n(&a->contention, __ATOMIC_RELAXED) >= CONTENDED) &&
           site->chunk % PROBE != 0;
}

/* Another thread uses the chunk, or none does. Counted without care: a lost count does no harm. */
static void note_contention(const pgasi_array_site_t *site, bool contended)
{
    int32_t *n = &site->array->contention, now = __atomic_load_n(n, __ATOMIC_RELAXED);
    now = contended ? PGASI_MIN(now + 2, 2 * CONTENDED) : PGASI_MAX(now - 1, 0);
    __atomic_store_n(n, now, __ATOMIC_RELAXED);
}

/* Before a write or an operation: the thread becomes the owner, or no thread is the owner. Of
 * wide elements no thread reads meanwhile. */
static void settle_write(const pgasi_array_site_t *site, bool by_thread, bool combines)
{
    pgasi_array_grant_t *grant = site->grant;
    uint32_t me = pgasi_array_self();
    bool all = grant->now.permits == PGASI_ARRAY_ALL;
    uint64_t rights =
        all ? pgas_array_path.data : (uint64_t)grant->now.op << 32 | pgas_array_path.operate;
    bool mine = grant->now.owner == me && by_thread;
    if (combines && by_thread && !mine)
        note_contention(site, grant->now.owner || grant->now.mode == PGASI_ARRAY_SHARED);
    if (grant->now.owner && !mine)
        end_ownership(site);
    if (may_publish(site, by_thread) &&
        (mine || (grant->now.mode == PGASI_ARRAY_OPEN && !others_read(site) &&
                  !(combines && shares_at_once(site))))) {
        bool read = grant->now.readers != 0;
        grant->now.readers = 0;
        grant->now.owner = me;
        pgasi_array_mapping_publish(site, rights);
        if (PGAS_LIKELY(!read || pgasi_array_is_sole()))
            return;
        /* another thread of this rank has just attached, and may be inside as a reader */
        end_ownership(site);
    }
    grant->now.mode = PGASI_ARRAY_SHARED;
    if (!site->array->wide) {
        if (may_publish(site, by_thread))
            publish_to_all(site);
        return;
    }
    if (grant->now.readers) {
        pgasi_array_mapping_withdraw_readers(site);
        pgasi_array_mapping_wait_left(site);
    }
    guard(grant, GUARD_WIDE);
}

static void settle(const pgasi_array_site_t *site, const pgasi_array_access_t *x, bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    if (by_thread)
        touch(grant);
    if (grant->now.mode == PGASI_ARRAY_GUARDED ||
        (!may_publish(site, by_thread) && !grant->now.owner && !grant->now.readers)) {
        pgasi_array_count(&site->array->info.guarded, 1);
        if (grant->now.mode == PGASI_ARRAY_GUARDED && by_thread && --grant->now.budget == 0) {
            grant->now.mode = quiet_mode(grant);
            grant->now.heat = 0;
        }
        return;
    }
    if (pgasi_array_need(x) != PGASI_ARRAY_NEED_R)
        settle_write(site, by_thread, x->kind == PGASI_ARRAY_APPLY);
    else
        settle_read(site, by_thread);
}

/* ---- the access itself; lock held, other threads write only by atomic instructions ---- */

static pgas_status_t combine(const pgasi_array_site_t *site, pgasi_array_access_t *x, size_t elem)
{
    const pgas_op_def_t *def = pgasi_op_find(x->op);
    bool contributes = site->grant->now.permits == PGASI_ARRAY_OPERATES && !site->at_home;
    size_t bytes = contributes ? def->operand_bytes : elem;
    pgasi_array_change_fn_t fn = contributes || !def->merge ? def->combine : def->merge;
    pgasi_array_change_word(pgasi_array_grant_data(site) + x->k * bytes, bytes, fn, x->in,
                            x->kind == PGASI_ARRAY_FETCH ? x->out : NULL);
    return PGAS_OK;
}

static pgas_status_t carry_out(const pgasi_array_site_t *site, pgasi_array_access_t *x)
{
    size_t elem = site->array->pub.elem_bytes;
    char *at = pgasi_array_grant_data(site) + x->k * elem;
    switch (x->kind) {
    case PGASI_ARRAY_GET:
        pgasi_array_load_words(x->out, at, elem, x->n);
        return PGAS_OK;
    case PGASI_ARRAY_SET:
        pgasi_array_store_words(at, x->in, elem, x->n);
        return PGAS_OK;
    case PGASI_ARRAY_CAS:
        pgasi_array_swap_word(at, elem, x);
        return PGAS_OK;
    default:
        return combine(site, x, elem);
    }
}

/* ---- accesses and pins ---- */

static bool is_pinned_against(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x)
{
    return grant->pins_write || (grant->pins_read && pgasi_array_need(x) != PGASI_ARRAY_NEED_R);
}

static bool allows(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x)
{
    pgasi_array_need_t need = pgasi_array_need(x);
    if (grant->now.permits == PGASI_ARRAY_ALL)
        return true;
    if (grant->now.permits == PGASI_ARRAY_READS)
        return need == PGASI_ARRAY_NEED_R;
    return grant->now.permits == PGASI_ARRAY_OPERATES && need == PGASI_ARRAY_NEED_O &&
           grant->now.op == x->op;
}

/* While the home combines operands of other ranks into the chunk, only the home grants pins. If no
 * other rank of the node uses the chunk, the home does that by plain instructions, and carries all
 * other accesses out, too. */
static bool waits_for_home(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x,
                           bool by_thread)
{
    return by_thread && grant->now.stays_shared &&
           (x->kind == PGASI_ARRAY_PIN || pgasi_boot.node_size == 1);
}

/* A close that leaves reads permitted withdraws the owner's entries, and its barrier comes later.
 * Until then the owner may be in the middle of a store to a wide element. Threads inside an access
 * never wait for the lock. */
static void wait_for_last_owner(const pgasi_array_site_t *site)
{
    pgasi_array_mapping_wait_left(site);
    site->grant->now.settling = 0;
}

static void add_pin(const pgasi_array_site_t *site, pgasi_array_access_t *x)
{
    if (x->pin == PGAS_ARRAY_READ)
        site->grant->pins_read++;
    else
        site->grant->pins_write++;
    x->pinned = site->grant;
    x->out = pgasi_array_grant_data(site);
}

pgas_status_t pgasi_array_grant_try(const pgasi_array_site_t *site, pgasi_array_access_t *x,
                                    bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    pgas_status_t status = PGAS_INPROGRESS;
    bool own_pin = by_thread && pgasi_array_own_pins.n && pgasi_array_has_own_pin(grant);
    lock(grant);
    if (PGAS_UNLIKELY(grant->now.chunk != site->chunk)) {
        own_pin = false; /* the cache line has become another chunk's */
    } else if (x->foreign && is_pinned_against(grant, x)) {
        /* a pin of this node was added since the home read the pins */
    } else if (waits_for_home(grant, x, by_thread) && !own_pin) {
        /* between two messages */
    } else if (allows(grant, x) && !(x->kind == PGASI_ARRAY_PIN && grant->now.recall && !own_pin)) {
        status = PGAS_OK;
        if (PGAS_UNLIKELY(grant->now.settling))
            wait_for_last_owner(site);
        if (x->kind != PGASI_ARRAY_PIN) {
            settle(site, x, by_thread);
            status = carry_out(site, x);
            x->operated = grant->now.permits == PGASI_ARRAY_OPERATES;
        } else {
            add_pin(site, x);
        }
        touch(grant);
    }
    unlock(grant);
    return status == PGAS_INPROGRESS && own_pin ? PGAS_ERR_DEADLOCK : status;
}

bool pgasi_array_grant_is_pinned_against(pgasi_array_grant_t *grant, const pgasi_array_access_t *x)
{
    bool reads = pgasi_array_need(x) == PGASI_ARRAY_NEED_R;
    lock(grant);
    bool pinned = is_pinned_against(grant, x);
    if (pinned && grant->now.recall < (reads ? PGASI_ARRAY_NO_WRITES : PGASI_ARRAY_NO_ACCESS))
        grant->now.recall = reads ? PGASI_ARRAY_NO_WRITES : PGASI_ARRAY_NO_ACCESS;
    else if (!pinned)
        grant->now.recall = PGASI_ARRAY_KEEP;
    unlock(grant);
    return pinned;
}

pgas_status_t pgasi_array_grant_unpin(pgasi_array_grant_t *grant, pgas_array_mode_t mode,
                                      bool passed, bool *recall_p)
{
    if (!pgasi_array_own_pin_remove(grant))
        return PGAS_ERR_INVALID;
    lock(grant);
    if (mode == PGAS_ARRAY_READ)
        grant->pins_read--;
    else
        grant->pins_write--;
    *recall_p = grant->now.recall && !grant->pins_write &&
                (grant->now.recall == PGASI_ARRAY_NO_WRITES || !grant->pins_read);
    if (passed && !grant->now.owner && !grant->now.readers)
        __atomic_store_n(&grant->touched, 0, __ATOMIC_RELAXED);
    unlock(grant);
    return PGAS_OK;
}

/* ---- sparse contributions ---- */

void pgasi_array_grant_share(const pgasi_array_site_t *site, bool shared)
{
    pgasi_array_grant_t *grant = site->grant;
    lock(grant);
    grant->now.stays_shared = shared;
    if (shared && (grant->now.owner || grant->now.readers)) {
        pgasi_array_mapping_withdraw_owner(site);
        pgasi_array_mapping_withdraw_readers(site);
        pgasi_array_mapping_wait_left(site);
    }
    if (shared && grant->now.mode == PGASI_ARRAY_OPEN)
        grant->now.mode = PGASI_ARRAY_SHARED;
    unlock(grant);
}

/* ---- the protocol opens and closes ---- */

void pgasi_array_grant_renew(pgasi_array_grant_t *grant, uint64_t chunk, uint16_t heat,
                             pgasi_array_permit_t permits)
{
    lock(grant); /* a thread may have found the line while it was another chunk's */
    grant->now =
        (pgasi_array_grant_state_t){ .chunk = chunk, .heat = heat, .permits = (uint8_t)permits };
    grant->opened_ns = 0;
    if (heat >= HEAT_MAX)
        guard(grant, GUARD);
    touch(grant);
    unlock(grant);
}

void pgasi_array_grant_open(pgasi_array_grant_t *grant, pgasi_array_permit_t permits, uint32_t op)
{
    lock(grant);
    /* a close without mapping entries costs no barrier, so its time does not matter */
    grant->opened_ns = grant->now.published ? pgasi_now_ns() : 0;
    grant->now.recall = PGASI_ARRAY_KEEP;
    grant->now.permits = permits;
    grant->now.op = op;
    if (grant->now.heat >= HEAT_MAX)
        guard(grant, GUARD);
    else if (!grant->now.owner)
        grant->now.mode = quiet_mode(grant);
    unlock(grant);
}

/* Counts a recall that costs a barrier, if it is soon after the grant. */
static void note_heat(pgasi_array_grant_t *grant)
{
    bool hot = pgasi_now_ns() - grant->opened_ns < HOT_NS;
    if (hot && pgasi_param.array_access != PGASI_ARRAY_ACCESS_OPEN)
        grant->now.heat += grant->now.heat < HEAT_MAX;
    else
        grant->now.heat -= grant->now.heat > 0;
}

pgasi_array_closed_t pgasi_array_grant_close(const pgasi_array_site_t *site,
                                             pgasi_array_level_t level, bool recall)
{
    pgasi_array_grant_t *grant = site->grant;
    pgasi_array_closed_t result = PGASI_ARRAY_CLOSED;
    lock(grant);
    if (grant->pins_write || (level == PGASI_ARRAY_NO_ACCESS && grant->pins_read)) {
        grant->now.recall = (uint8_t)PGASI_MAX((int)grant->now.recall, (int)level);
        result = PGASI_ARRAY_PINNED;
    } else {
        grant->now.permits =
            level == PGASI_ARRAY_NO_ACCESS ? PGASI_ARRAY_NOTHING : PGASI_ARRAY_READS;
        bool had_owner = grant->now.owner != 0;
        bool all = level == PGASI_ARRAY_NO_ACCESS || grant->now.mode == PGASI_ARRAY_SHARED;
        if (had_owner)
            pgasi_array_mapping_withdraw_owner(site);
        if (all && grant->now.readers)
            pgasi_array_mapping_withdraw_readers(site);
        if (grant->now.published && (had_owner || all)) {
            grant->now.published = grant->now.readers != 0;
            if (recall)
                note_heat(grant);
            if (!pgasi_array_is_alone(site->at_home))
                result = PGASI_ARRAY_CLOSING;
            grant->now.settling = result == PGASI_ARRAY_CLOSING && had_owner && site->array->wide;
        }
    }
    unlock(grant);
    return result;
}

void pgasi_array_grant_settled(pgasi_array_grant_t *grant)
{
    lock(grant);
    grant->now.settling = 0;
    unlock(grant);
}

bool pgasi_array_grant_seize(pgasi_array_grant_t *grant, uint64_t chunk, uint32_t op)
{
    if (!try_lock(grant, 0, FOREIGN | ((uint32_t)pgasi_boot.rank + 1)))
        return false;
    const pgasi_array_grant_state_t *now = &grant->now;
    bool idle = !now->recall && !now->owner && !now->readers && !now->published &&
                !now->stays_shared && !now->settling && !grant->pins_read && !grant->pins_write;
    if (idle && now->chunk == chunk && now->permits == PGASI_ARRAY_OPERATES && now->op == op)
        return true;
    unlock(grant);
    return false;
}

void pgasi_array_grant_release(pgasi_array_grant_t *grant)
{
    unlock(grant);
}

void pgasi_array_grant_withdraw(const pgasi_array_site_t *site)
{
    lock(site->grant);
    __atomic_store_n(&site->grant->touched, 0, __ATOMIC_RELAXED);
    if (site->grant->now.owner || site->grant->now.readers)
        pgasi_array_mapping_withdraw(site, pgasi_boot.node_rank);
    unlock(site->grant);
}
