/* Holds: what the threads of a site do with a chunk, without the protocol.
 *
 * Shaped for three kinds of use. One thread works on a chunk: it becomes its owner and uses plain
 * loads and stores, also to read, change and write. Many read: each rank gets an entry for readers.
 * Several threads of a node use a chunk and some write: readers keep their entries, and writers get
 * entries for atomic instructions, so that all of it is sequentially consistent; where elements are
 * wider than a load everybody takes the lock. Chunks that are recalled again and again, each time
 * at the price of a barrier on all processors, are guarded by the lock until they have been quiet
 * for GUARD accesses.
 *
 * Why an owner's stores need no fence: others may look at what he stored only after they have taken
 * the chunk from him, which ends with a barrier on his processor. His own loads of other chunks
 * were done, or are repeated, accordingly.
 *
 * Who takes entries away changes them, runs a barrier on all processors and waits until all threads
 * have left (slots.c). */
#include "array/array.h"

#include <stdlib.h>
#include <string.h>

#include "array/op.h"
#include "array/slots.h"
#include "base/checks.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/thread.h"

#define HEAT_MAX   4    /* recalls at the price of a barrier, after which a chunk is guarded */
#define GUARD      256  /* for so many accesses */
#define GUARD_WIDE 1024 /* the same, of wide elements that several threads write */
#define LAST_BIT   63

/* ---- the lock ---- */

/* By node rank + 1, so that a lock whose holder has died is free. */
static void lock(pgasi_array_grant_t *grant)
{
    uint32_t me = (uint32_t)pgasi_boot.node_rank + 1, holder = 0, n = 0;
    while (PGAS_UNLIKELY(!__atomic_compare_exchange_n(&grant->lock, &holder, me, false,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        while ((holder = __atomic_load_n(&grant->lock, __ATOMIC_RELAXED)) &&
               !pgasi_array_has_died((int)holder - 1))
            pgasi_array_let_others_run(++n);
}

static void unlock(pgasi_array_grant_t *grant)
{
    __atomic_store_n(&grant->lock, 0, __ATOMIC_RELEASE);
}

/* For the cache, which reads it without the lock. */
static void touch(pgasi_array_grant_t *grant)
{
    if (!__atomic_load_n(&grant->touched, __ATOMIC_RELAXED))
        __atomic_store_n(&grant->touched, 1, __ATOMIC_RELAXED);
}

/* ---- entries; lock held ---- */

static pgasi_array_peer_t *peer_of_node_rank(pgasi_array_t *a, int node_rank)
{
    int member = pgas_team_from_global(a->team, pgasi_boot.node_members[node_rank]);
    return member < 0 ? NULL : &a->peer[member];
}

/* A chunk has an entry for every cell in it; the last chunk of an array may have fewer. */
static pgas_array_mapping_t *mappings_of(const pgasi_array_site_t *site,
                                         const pgasi_array_peer_t *peer)
{
    const pgasi_array_t *a = site->array;
    return &peer->table[site->chunk << (a->map.shift - a->open.shift)];
}

static uint64_t n_mappings(const pgasi_array_site_t *site)
{
    const pgasi_array_t *a = site->array;
    uint64_t n = UINT64_C(1) << (a->map.shift - a->open.shift),
             last = a->map.n_elems >> a->open.shift;
    uint64_t first = site->chunk << (a->map.shift - a->open.shift);
    return PGASI_MIN(n, last + 1 - first);
}

static void hide(const pgasi_array_site_t *site, int node_rank)
{
    pgasi_array_t *a = site->array;
    pgasi_array_peer_t *peer =
        node_rank == pgasi_boot.node_rank ? &a->peer[a->rank] : peer_of_node_rank(a, node_rank);
    pgas_array_mapping_t *mapping = peer && peer->table ? mappings_of(site, peer) : NULL;
    for (uint64_t j = 0; mapping && j < n_mappings(site); j++)
        __atomic_store_n(&mapping[j].rights, 0, __ATOMIC_RELEASE);
    uintptr_t *readable = mapping ? peer->readable + (mapping - peer->table) : NULL;
    for (uint64_t j = 0; readable && j < n_mappings(site); j++)
        __atomic_store_n(&readable[j], 0, __ATOMIC_RELEASE);
}

static void hide_owner(const pgasi_array_site_t *site)
{
    if (site->grant->now.owner)
        hide(site, (int)(site->grant->now.owner >> 12));
    site->grant->now.owner = 0;
}

static void hide_readers(const pgasi_array_site_t *site)
{
    uint64_t readers = site->grant->now.readers;
    if (!site->at_home && readers)
        hide(site, pgasi_boot.node_rank);
    for (int r = 0; site->at_home && readers && r < pgasi_boot.node_size; r++)
        if (readers >> PGASI_MIN(r, LAST_BIT) & 1)
            hide(site, r);
    site->grant->now.readers = 0;
}

/* Those whose entries have just been taken away leave. They never need the lock while they are
 * inside. */
static void wait_until_left(const pgasi_array_site_t *site)
{
    site->grant->now.shown = site->grant->now.owner || site->grant->now.readers;
    if (pgasi_array_is_alone(site->at_home))
        return;
    pgasi_wait_heavy_barrier();
    pgasi_array_note(&site->array->info.barriers, 1);
    for (uint32_t n = 1; !pgasi_array_all_left(site->at_home); n++)
        pgasi_array_let_others_run(n);
}

/* The entry of the calling thread's rank. What its owner alone may do, but for reading, is readable
 * in short as long as there is no other thread. */
static void show(const pgasi_array_site_t *site, uint64_t rights)
{
    pgasi_array_t *a = site->array;
    pgas_array_mapping_t *mapping = mappings_of(site, &a->peer[a->rank]);
    char *base = site->data - (site->chunk << a->map.shift) * a->open.elem_bytes;
    for (uint64_t j = 0; j < n_mappings(site); j++) {
        __atomic_store_n(&mapping[j].base, base, __ATOMIC_RELAXED);
        __atomic_store_n(&mapping[j].rights, rights, __ATOMIC_RELEASE);
    }
    site->grant->now.shown = 1;
    bool own = rights == pgas_array_path.data;
    if (!(rights & PGAS_ARRAY_READ) && !(own && pgasi_array_is_sole()))
        return;
    uintptr_t *readable = a->peer[a->rank].readable + (mapping - a->peer[a->rank].table);
    for (uint64_t j = 0; j < n_mappings(site); j++)
        __atomic_store_n(&readable[j], (uintptr_t)base + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!own || pgasi_array_is_sole())
        return;
    /* another thread has come just now, and may have seen them */
    for (uint64_t j = 0; j < n_mappings(site); j++)
        __atomic_store_n(&readable[j], 0, __ATOMIC_RELEASE);
    wait_until_left(site);
}

static bool may_show(const pgasi_array_site_t *site, bool by_thread)
{
    return by_thread && !site->cut && !site->array->guard_all && pgasi_array_self() != 0;
}

static void guard(pgasi_array_grant_t *grant, uint16_t budget)
{
    grant->now.mode = PGASI_ARRAY_GUARDED;
    grant->now.budget = budget;
}

/* To all threads of this rank, what they may do at the same time as others. */
static void show_all(const pgasi_array_site_t *site)
{
    pgasi_array_grant_t *grant = site->grant;
    bool shared = grant->now.mode == PGASI_ARRAY_SHARED;
    uint64_t rights = grant->now.permits == PGASI_ARRAY_OPERATES ? 0 : PGAS_ARRAY_READ;
    if (shared && grant->now.permits != PGASI_ARRAY_READS)
        rights |= grant->now.permits == PGASI_ARRAY_ALL
                      ? PGAS_ARRAY_CHANGE
                      : (uint64_t)grant->now.op << 32 | PGAS_ARRAY_COMBINE;
    grant->now.readers |= UINT64_C(1) << PGASI_MIN(pgasi_boot.node_rank, LAST_BIT);
    show(site, rights);
}

/* Of another thread, or of this one for what is not its own: from now on the chunk is shared. */
static void end_ownership(const pgasi_array_site_t *site)
{
    hide_owner(site);
    wait_until_left(site);
    if (site->array->wide)
        guard(site->grant, GUARD_WIDE);
    else
        site->grant->now.mode = PGASI_ARRAY_SHARED;
}

/* Before a read: nobody writes but the thread itself, or by atomic instructions. */
static void settle_read(const pgasi_array_site_t *site, bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    uint32_t me = pgasi_array_self();
    if (grant->now.owner && (grant->now.owner != me || !by_thread))
        end_ownership(site);
    if (grant->now.mode == PGASI_ARRAY_GUARDED || !may_show(site, by_thread))
        return;
    if (grant->now.owner == me)
        show(site, pgas_array_path.data);
    else if (!(site->array->wide && grant->now.permits != PGASI_ARRAY_READS &&
               grant->now.mode == PGASI_ARRAY_SHARED))
        show_all(site);
}

/* Readers of this rank do not count if there is no other thread. */
static bool others_read(const pgasi_array_site_t *site)
{
    uint64_t mine = UINT64_C(1) << PGASI_MIN(pgasi_boot.node_rank, LAST_BIT);
    bool sole = pgasi_array_is_sole() && pgasi_boot.node_rank < LAST_BIT;
    return (site->grant->now.readers & ~(sole ? mine : 0)) != 0;
}

/* Before a write, or an operation: the thread becomes the owner, or nobody is, and (of wide
 * elements) nobody reads. */
static void settle_write(const pgasi_array_site_t *site, bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    uint32_t me = pgasi_array_self();
    bool all = grant->now.permits == PGASI_ARRAY_ALL;
    uint64_t rights =
        all ? pgas_array_path.data : (uint64_t)grant->now.op << 32 | pgas_array_path.operate;
    bool mine = grant->now.owner == me && by_thread;
    if (grant->now.owner && !mine)
        end_ownership(site);
    if (may_show(site, by_thread) &&
        (mine || (grant->now.mode == PGASI_ARRAY_OPEN && !others_read(site)))) {
        bool read = grant->now.readers != 0;
        grant->now.readers = 0;
        grant->now.owner = me;
        show(site, rights);
        if (PGAS_LIKELY(!read || pgasi_array_is_sole()))
            return;
        /* another thread of this rank has come just now, and may be inside as a reader */
        end_ownership(site);
    }
    grant->now.mode = PGASI_ARRAY_SHARED;
    if (!site->array->wide) {
        if (may_show(site, by_thread))
            show_all(site);
        return;
    }
    if (grant->now.readers) {
        hide_readers(site);
        wait_until_left(site);
    }
    guard(grant, GUARD_WIDE);
}

static void settle(const pgasi_array_site_t *site, bool writes, bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    if (by_thread)
        touch(grant);
    if (grant->now.mode == PGASI_ARRAY_GUARDED ||
        (!may_show(site, by_thread) && !grant->now.owner && !grant->now.readers)) {
        pgasi_array_count(&site->array->info.guarded, 1);
        if (grant->now.mode == PGASI_ARRAY_GUARDED && by_thread && --grant->now.budget == 0) {
            grant->now.mode = PGASI_ARRAY_OPEN;
            grant->now.heat = 0;
        }
        return;
    }
    if (writes)
        settle_write(site, by_thread);
    else
        settle_read(site, by_thread);
}

/* ---- the access itself; lock held, nobody else writes but by atomic instructions ---- */

static void load(void *to, const void *from, size_t elem, uint64_t n)
{
    switch (elem) {
#define LOAD(word)                                                              \
    case sizeof(word):                                                          \
        for (uint64_t j = 0; j < n; j++) {                                      \
            word w = __atomic_load_n((const word *)from + j, __ATOMIC_RELAXED); \
            memcpy((char *)to + j * sizeof w, &w, sizeof w);                    \
        }                                                                       \
        break;
        LOAD(uint8_t)
        LOAD(uint16_t)
        LOAD(uint32_t)
        LOAD(uint64_t)
#undef LOAD
    default:
        memcpy(to, from, elem * n);
    }
}

/* With a fence behind each, for readers without the lock see it. */
static void store(void *to, const void *from, size_t elem, uint64_t n)
{
    switch (elem) {
#define STORE(word)                                                                                \
    case sizeof(word):                                                                             \
        for (uint64_t j = 0; j < n; j++) {                                                         \
            word w;                                                                                \
            memcpy(&w, (const char *)from + j * sizeof w, sizeof w);                               \
            __atomic_store_n((word *)to + j, w, j + 1 == n ? __ATOMIC_SEQ_CST : __ATOMIC_RELAXED); \
        }                                                                                          \
        break;
        STORE(uint8_t)
        STORE(uint16_t)
        STORE(uint32_t)
        STORE(uint64_t)
#undef STORE
    default:
        memcpy(to, from, elem * n);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* Of an element that others may change at the same time: by compare and swap, until nobody has come
 * between. NULL: nothing. */
typedef void (*change_fn_t)(void *value, const void *with);
static void change(void *at, size_t bytes, change_fn_t fn, const void *with, void *old)
{
    switch (bytes) {
#define CHANGE(word)                                                                           \
    case sizeof(word): {                                                                       \
        word last = __atomic_load_n((word *)at, __ATOMIC_RELAXED), next;                       \
        do {                                                                                   \
            next = last;                                                                       \
            fn(&next, with);                                                                   \
        } while (!__atomic_compare_exchange_n((word *)at, &last, next, true, __ATOMIC_SEQ_CST, \
                                              __ATOMIC_RELAXED));                              \
        if (old)                                                                               \
            memcpy(old, &last, sizeof last);                                                   \
        break;                                                                                 \
    }
        CHANGE(uint8_t)
        CHANGE(uint16_t)
        CHANGE(uint32_t)
        CHANGE(uint64_t)
#undef CHANGE
    default:
        if (old)
            memcpy(old, at, bytes);
        fn(at, with);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

static pgas_status_t combine(const pgasi_array_site_t *site, pgasi_array_access_t *x, size_t elem)
{
    const pgas_array_op_def_t *def = pgasi_array_op_find(x->op);
    bool operands = site->grant->now.permits == PGASI_ARRAY_OPERATES && !site->at_home;
    size_t bytes = operands ? def->operand_bytes : elem;
    change_fn_t fn = operands || !def->merge ? def->combine : def->merge;
    change(site->data + x->k * bytes, bytes, fn, x->in,
           x->kind == PGASI_ARRAY_FETCH ? x->out : NULL);
    return PGAS_OK;
}

static pgas_status_t compare_swap(const pgasi_array_site_t *site, pgasi_array_access_t *x,
                                  size_t elem)
{
    char *at = site->data + x->k * elem;
    switch (elem) {
#define SWAP(word)                                                                            \
    case sizeof(word): {                                                                      \
        word last, next;                                                                      \
        memcpy(&last, x->in2, sizeof last);                                                   \
        memcpy(&next, x->in, sizeof next);                                                    \
        __atomic_compare_exchange_n((word *)(void *)at, &last, next, false, __ATOMIC_SEQ_CST, \
                                    __ATOMIC_SEQ_CST);                                        \
        memcpy(x->out, &last, sizeof last);                                                   \
        break;                                                                                \
    }
        SWAP(uint8_t)
        SWAP(uint16_t)
        SWAP(uint32_t)
        SWAP(uint64_t)
#undef SWAP
    default:
        memcpy(x->out, at, elem);
        if (memcmp(x->out, x->in2, elem) == 0)
            memcpy(at, x->in, elem);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    return PGAS_OK;
}

bool pgasi_array_set_shared(const pgas_array_t *array, uint64_t i, const void *value)
{
    const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    bool may = (pgas_array_rights(mapping) & PGAS_ARRAY_CHANGE) && pgas_array_path.read;
    if (may)
        store(mapping->base + i * array->elem_bytes, value, array->elem_bytes, 1);
    pgas_array_leave(slot);
    return may;
}

bool pgasi_array_apply_shared(const pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                              const pgas_array_op_def_t *def, const void *operand)
{
    const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    uint64_t rights = pgas_array_rights(mapping);
    bool combines = (rights & PGAS_ARRAY_COMBINE) && rights >> 32 == op && !def->merge;
    bool may = ((rights & PGAS_ARRAY_CHANGE) || combines) && pgas_array_path.read;
    if (may)
        change(mapping->base + i * array->elem_bytes, array->elem_bytes,
               def->merge ? def->merge : def->combine, operand, NULL);
    pgas_array_leave(slot);
    return may;
}

static pgas_status_t carry_out(const pgasi_array_site_t *site, pgasi_array_access_t *x)
{
    size_t elem = site->array->open.elem_bytes;
    switch (x->kind) {
    case PGASI_ARRAY_GET:
        load(x->out, site->data + x->k * elem, elem, x->n);
        return PGAS_OK;
    case PGASI_ARRAY_SET:
        store(site->data + x->k * elem, x->in, elem, x->n);
        return PGAS_OK;
    case PGASI_ARRAY_CAS:
        return compare_swap(site, x, elem);
    default:
        return combine(site, x, elem);
    }
}

/* ---- pins of the calling thread ---- */

typedef struct pgasi_array_own_pin {
    const pgasi_array_grant_t *grant;
    uint32_t n;
} own_pin_t;
#define OWN_PINS 8 /* for more there is memory of their own */
static __thread own_pin_t few_own_pins[OWN_PINS] __attribute__((tls_model("initial-exec")));
static __thread own_pin_t *own_pins __attribute__((tls_model("initial-exec")));
static __thread uint32_t n_own_pins __attribute__((tls_model("initial-exec")));
static __thread uint32_t room_own_pins __attribute__((tls_model("initial-exec")));
static __thread uint64_t own_pins_epoch __attribute__((tls_model("initial-exec")));

/* Those of an earlier job ended with it; its holds may be where new ones are. */
static void forget_old_pins(void)
{
    if (PGAS_LIKELY(own_pins_epoch == pgasi_epoch))
        return;
    n_own_pins = 0;
    own_pins_epoch = pgasi_epoch;
}

void pgasi_array_own_pins_note(pgasi_array_access_t *x)
{
    forget_old_pins();
    x->pins = own_pins;
    x->n_pins = n_own_pins;
}

bool pgasi_array_is_pinned_by(const pgasi_array_grant_t *grant, const pgasi_array_access_t *x)
{
    for (uint32_t i = 0; i < x->n_pins; i++)
        if (x->pins[i].grant == grant)
            return true;
    return false;
}

bool pgasi_array_has_own_pin(const pgasi_array_grant_t *grant)
{
    pgasi_array_access_t own;
    pgasi_array_own_pins_note(&own);
    return pgasi_array_is_pinned_by(grant, &own);
}

/* By the thread itself, also if somebody else has counted the pin for it. */
pgas_status_t pgasi_array_own_pin_room(void)
{
    forget_old_pins();
    if (!own_pins) {
        own_pins = few_own_pins;
        room_own_pins = OWN_PINS;
    }
    if (n_own_pins < room_own_pins)
        return PGAS_OK;
    bool first = own_pins == few_own_pins;
    own_pin_t *more = realloc(first ? NULL : own_pins, 2 * room_own_pins * sizeof *more);
    if (!more)
        return PGAS_ERR_NO_MEMORY;
    if (first)
        memcpy(more, few_own_pins, sizeof few_own_pins);
    own_pins = more;
    room_own_pins *= 2;
    return PGAS_OK;
}

void pgasi_array_own_pin_add(const pgasi_array_grant_t *grant)
{
    for (uint32_t i = 0; i < n_own_pins; i++) {
        if (own_pins[i].grant == grant) {
            own_pins[i].n++;
            return;
        }
    }
    own_pins[n_own_pins++] = (own_pin_t){ grant, 1 };
}

static bool own_pin_remove(const pgasi_array_grant_t *grant)
{
    forget_old_pins();
    for (uint32_t i = 0; i < n_own_pins; i++) {
        if (own_pins[i].grant != grant)
            continue;
        if (--own_pins[i].n == 0)
            own_pins[i] = own_pins[--n_own_pins];
        if (n_own_pins == 0 && own_pins != few_own_pins) {
            free(own_pins);
            own_pins = NULL;
        }
        return true;
    }
    return false;
}

pgas_status_t pgasi_array_grant_unpin(pgasi_array_grant_t *grant, pgas_array_pin_mode_t mode,
                                      bool *recall_p)
{
    if (!own_pin_remove(grant))
        return PGAS_ERR_INVALID;
    lock(grant);
    if (mode == PGAS_ARRAY_PIN_READ)
        grant->pins_read--;
    else
        grant->pins_write--;
    *recall_p = grant->now.recall && !grant->pins_write &&
                (grant->now.recall == PGASI_ARRAY_NO_WRITES || !grant->pins_read);
    unlock(grant);
    return PGAS_OK;
}

/* ---- the ways in ---- */

pgasi_array_need_t pgasi_array_need(const pgasi_array_access_t *x)
{
    if (x->kind == PGASI_ARRAY_PIN)
        return (pgasi_array_need_t)x->pin;
    if (x->kind == PGASI_ARRAY_GET)
        return PGASI_ARRAY_NEED_R;
    return x->kind == PGASI_ARRAY_APPLY ? PGASI_ARRAY_NEED_O : PGASI_ARRAY_NEED_W;
}

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

pgas_status_t pgasi_array_grant_try(const pgasi_array_site_t *site, pgasi_array_access_t *x,
                                    bool by_thread)
{
    pgasi_array_grant_t *grant = site->grant;
    pgas_status_t status = PGAS_INPROGRESS;
    bool own_pin = by_thread && n_own_pins && pgasi_array_has_own_pin(grant);
    lock(grant);
    if (PGAS_UNLIKELY(grant->now.chunk != site->chunk)) {
        own_pin = false; /* the line has become another's */
    } else if (x->foreign && is_pinned_against(grant, x)) {
        /* since it was looked at */
    } else if (allows(grant, x) && !(x->kind == PGASI_ARRAY_PIN && grant->now.recall && !own_pin)) {
        status = PGAS_OK;
        if (x->kind != PGASI_ARRAY_PIN) {
            settle(site, pgasi_array_need(x) != PGASI_ARRAY_NEED_R, by_thread);
            status = carry_out(site, x);
        } else if (x->pin == PGAS_ARRAY_PIN_READ) {
            grant->pins_read++;
        } else {
            grant->pins_write++;
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

void pgasi_array_grant_renew(pgasi_array_grant_t *grant, uint64_t chunk, uint16_t heat)
{
    lock(grant); /* a thread may have found the line while it was another chunk's */
    grant->now = (pgasi_array_grant_state_t){ .chunk = chunk, .heat = heat };
    touch(grant);
    unlock(grant);
}

void pgasi_array_grant_open(pgasi_array_grant_t *grant, pgasi_array_permit_t permits, uint32_t op)
{
    lock(grant);
    grant->now.recall = PGASI_ARRAY_KEEP;
    grant->now.permits = permits;
    grant->now.op = op;
    if (grant->now.heat >= HEAT_MAX)
        guard(grant, GUARD);
    else if (!grant->now.owner)
        grant->now.mode = PGASI_ARRAY_OPEN;
    unlock(grant);
}

int pgasi_array_grant_close(const pgasi_array_site_t *site, pgasi_array_level_t level, bool recall)
{
    pgasi_array_grant_t *grant = site->grant;
    int result = 0;
    lock(grant);
    if (grant->pins_write || (level == PGASI_ARRAY_NO_ACCESS && grant->pins_read)) {
        grant->now.recall = (uint8_t)PGASI_MAX((int)grant->now.recall, (int)level);
        result = 2;
    } else {
        grant->now.permits =
            level == PGASI_ARRAY_NO_ACCESS ? PGASI_ARRAY_NOTHING : PGASI_ARRAY_READS;
        bool had_owner = grant->now.owner != 0;
        bool all = level == PGASI_ARRAY_NO_ACCESS || grant->now.mode == PGASI_ARRAY_SHARED;
        hide_owner(site);
        if (all)
            hide_readers(site);
        if (grant->now.shown && (had_owner || all)) {
            grant->now.shown = grant->now.readers != 0;
            grant->now.heat += recall && grant->now.heat < HEAT_MAX &&
                               pgasi_param.array_access != PGASI_ARRAY_ACCESS_OPEN;
            result = !pgasi_array_is_alone(site->at_home);
        }
    }
    unlock(grant);
    return result;
}

void pgasi_array_grant_withdraw(const pgasi_array_site_t *site)
{
    lock(site->grant);
    __atomic_store_n(&site->grant->touched, 0, __ATOMIC_RELAXED);
    if (site->grant->now.owner || site->grant->now.readers)
        hide(site, pgasi_boot.node_rank);
    unlock(site->grant);
}
