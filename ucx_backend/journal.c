/* Journals: an endpoint keeps its operations until they are acknowledged, so that they can be
 * repeated after the loss of a connection (repair.c).
 *
 * A TCP connection may end while both processes are alive: an interface disappears, a firewall
 * drops it, a timeout expires. UCX then fails the endpoint, and it is unknown how much of the sent
 * data has arrived. So the journal has one entry for each message, put and non-fetching atomic, in
 * the order of issue. Small data (COPY_MAX) is copied and completes for the caller at once. Larger
 * data stays in the caller's buffer until the entry has arrived. Over TCP the peer answers a flush
 * of UCX after everything that was sent before it, so the answer acknowledges all earlier entries.
 * The journal flushes after every ACK_EVERY entries, for large data, and when the caller flushes.
 *
 * When a connection is lost, the backend asks the owner whether the peer has died. If not, it
 * reopens the connection and repeats all unacknowledged entries in order. The peer drops duplicate
 * messages by their numbers (am_recv.c). It repeats puts and gets, except puts whose completion has
 * `once`: these end with PGAS_ERR_TRANSPORT. Atomics cannot be repeated: a
 * fetching one in flight ends with PGAS_ERR_TRANSPORT; after a non-fetching one the next flush
 * returns that status. If all attempts fail for GIVE_UP_NS, everything ends with
 * PGAS_ERR_TRANSPORT. Endpoints over UCX's shared memory have no journal, because UCX does not
 * detect their loss. */
#include "ucx_backend/journal.h"

#include <stdlib.h>
#include "base/clock.h"

#define COPY_MAX    8192
#define SMALL_MAX   128 /* copies up to this size come from a pool of small entries */
#define ENTRIES_MAX 4096
#define WEIGHT_MAX  (4u << 20)
#define ACK_EVERY   128
#define ACK_BYTES   (256u << 10)

static void ask(pgasi_ucx_ep_t *ep);

void pgasi_ucx_journal_init(pgasi_ucx_ep_t *ep)
{
    const pgasi_ucx_t *tp = ep->ctx->tp;
    ep->journal.on = tp->err_mode == UCP_ERR_HANDLING_MODE_PEER && ep->peer != tp->opts.rank;
    ep->journal.last = &ep->journal.first;
    ep->journal.last_get = &ep->journal.gets;
}

void pgasi_ucx_journal_pools(pgasi_ucx_ctx_t *ctx)
{
    size_t large = PGASI_TP_AM_HEADER_MAX + sizeof(pgasi_ucx_am_prefix_t) + 8 + COPY_MAX;
    pgasi_pool_init(&ctx->small_entries, sizeof(pgasi_ucx_entry_t) + SMALL_MAX, 0, 64, 0);
    pgasi_pool_init(&ctx->large_entries, sizeof(pgasi_ucx_entry_t) + large, 0, 16, 0);
}

static bool is_full(const pgasi_ucx_journal_t *j)
{
    return PGAS_UNLIKELY(j->n_entries >= ENTRIES_MAX || j->bytes >= WEIGHT_MAX);
}

static void release(pgasi_ucx_entry_t *entry)
{
    pgasi_ucx_ctx_t *ctx = entry->ep->ctx;
    pgasi_pool_release(entry->small ? &ctx->small_entries : &ctx->large_entries, entry);
}

void pgasi_ucx_journal_end_entry(pgasi_ucx_entry_t *entry)
{
    entry->ended = true;
    if (entry->n_requests == 0)
        release(entry);
}

void pgasi_ucx_journal_end_marks(pgasi_ucx_ep_t *ep, uint64_t number, pgas_status_t status)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    while (j->marks && j->marks->number <= number) {
        pgasi_ucx_flush_part_t *mark = j->marks;
        pgasi_ucx_flush_t *flush = mark->flush;
        j->marks = mark->next;
        pgasi_pool_release(&ep->ctx->flush_parts, mark);
        ep->n_flushes--;
        pgas_status_t told = status == PGAS_OK && j->doubtful ? PGAS_ERR_TRANSPORT : status;
        j->doubtful = false;
        pgasi_ucx_part_done(flush, told);
    }
}

void pgasi_ucx_journal_retire(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    while (j->first && j->first->number <= j->acked && j->first->n_requests == 0) {
        pgasi_ucx_entry_t *entry = j->first;
        pgasi_tp_comp_t *comp = entry->comp;
        j->first = entry->next;
        if (!j->first)
            j->last = &j->first;
        j->n_entries--;
        j->bytes -= entry->weight;
        release(entry);
        pgasi_ucx_complete(ep->ctx, comp, PGAS_OK);
    }
    uint64_t number = j->first != NULL ? j->first->number - 1 : j->issued;
    ep->dirty = j->first || j->doubtful;
    pgasi_ucx_journal_end_marks(ep, PGASI_MIN(number, j->acked), PGAS_OK);
    pgasi_ucx_deactivate_if_clean(ep);
}

/* The peer has acknowledged all requested entries, so the connection works. */
static void answered(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    j->acked = j->asked;
    if (PGAS_UNLIKELY(j->since_ns != 0))
        pgasi_ucx_reopened(ep);
    j->since_ns = j->pause_ns = 0;
}

static void acknowledged(void *request, ucs_status_t status, void *unused)
{
    pgasi_ucx_request_t *ours = request;
    pgasi_ucx_ep_t *ep = ours->extra;
    pgasi_ucx_journal_t *j = &ep->journal;
    bool of_this = ours->n_lost == j->n_lost;
    (void)unused;
    pgasi_ucx_lib.ucp_request_free(request);
    j->n_requests--;
    if (!of_this || !pgasi_ucx_is_up(ep))
        return;
    if (status != UCS_OK) {
        pgasi_ucx_journal_lost(ep, status);
        return;
    }
    answered(ep);
    pgasi_ucx_fail_old_fetches(ep, PGAS_ERR_TRANSPORT);
    pgasi_ucx_journal_retire(ep);
    if (j->wanted > j->acked)
        ask(ep);
}

/* Requests an acknowledgement of all entries so far, unless a request is in flight. */
static void ask(pgasi_ucx_ep_t *ep)
{
    static const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                               .cb.send = acknowledged };
    pgasi_ucx_journal_t *j = &ep->journal;
    if (!pgasi_ucx_is_up(ep) || j->asked > j->acked)
        return;
    j->asked = j->issued;
    ucs_status_ptr_t ptr = pgasi_ucx_lib.ucp_ep_flush_nbx(ep->ep, &param);
    if (UCS_PTR_IS_PTR(ptr)) {
        pgasi_ucx_request_t *ours = ptr;
        ours->ctx = ep->ctx;
        ours->extra = ep;
        ours->n_lost = j->n_lost;
        j->n_requests++;
    } else if (ptr) {
        pgasi_ucx_journal_lost(ep, UCS_PTR_STATUS(ptr));
    } else { /* callbacks run in progress only */
        answered(ep);
        ep->ctx->repairs = 1;
    }
}

void pgasi_ucx_journal_want(pgasi_ucx_ep_t *ep, uint64_t number)
{
    ep->journal.wanted = PGASI_MAX(ep->journal.wanted, number);
    ask(ep);
}

void pgasi_ucx_journal_unlink_get(pgasi_ucx_entry_t *entry)
{
    *entry->back = entry->next;
    if (entry->next)
        entry->next->back = entry->back;
    else
        entry->ep->journal.last_get = entry->back;
}

void pgasi_ucx_journal_get_done(pgasi_ucx_entry_t *entry, pgas_status_t status)
{
    pgasi_ucx_ep_t *ep = entry->ep;
    pgasi_tp_comp_t *comp = entry->comp;
    pgasi_ucx_journal_unlink_get(entry);
    pgasi_ucx_journal_end_entry(entry);
    pgasi_ucx_complete(ep->ctx, comp, status);
}

static void entry_done(void *request, ucs_status_t status, void *unused)
{
    pgasi_ucx_request_t *ours = request;
    pgasi_ucx_entry_t *entry = ours->extra;
    pgasi_ucx_ep_t *ep = entry->ep;
    uint32_t n_lost = ours->n_lost;
    (void)unused;
    ours->ctx->n_pending--;
    pgasi_ucx_lib.ucp_request_free(request);
    entry->n_requests--;
    ep->journal.n_requests--;
    if (entry->ended) {
        pgasi_ucx_journal_end_entry(entry);
        return;
    }
    if (n_lost != ep->journal.n_lost || ep->journal.link == PGASI_UCX_LINK_ENDED)
        return;
    if (status != UCS_OK)
        pgasi_ucx_journal_lost(ep, status);
    else if (entry->kind == PGASI_UCX_GET)
        pgasi_ucx_journal_get_done(entry, PGAS_OK);
    else
        pgasi_ucx_journal_retire(ep);
}

static const ucp_request_param_t entry_param = {
    .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
    .cb.send = entry_done,
    .memory_type = UCS_MEMORY_TYPE_HOST,
};

/* A rendezvous over TCP costs round trips and saves no copy. */
static const ucp_request_param_t message_param = {
    .op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_FLAGS,
    .flags = UCP_AM_SEND_FLAG_EAGER,
    .cb.send = entry_done,
    .memory_type = UCS_MEMORY_TYPE_HOST,
};

static ucs_status_ptr_t start(const pgasi_ucx_entry_t *entry)
{
    ucp_ep_h ep = entry->ep->ep;
    if (entry->kind == PGASI_UCX_MESSAGE) {
        return pgasi_ucx_lib.ucp_am_send_nbx(ep,
                                             entry->ep->am_compact ? PGASI_UCX_AM_COMPACT
                                                                   : PGASI_UCX_AM_LONG,
                                             entry->copy, entry->header_bytes, entry->data,
                                             entry->bytes, &message_param);
    }
    if (entry->kind == PGASI_UCX_PUT) {
        return pgasi_ucx_lib.ucp_put_nbx(ep, entry->data, entry->bytes, entry->remote_addr,
                                         entry->key->rkey, &entry_param);
    }
    return pgasi_ucx_lib.ucp_get_nbx(ep, entry->data, entry->bytes, entry->remote_addr,
                                     entry->key->rkey, &entry_param);
}

bool pgasi_ucx_journal_issue(pgasi_ucx_entry_t *entry)
{
    pgasi_ucx_ep_t *ep = entry->ep;
    ucs_status_ptr_t ptr = start(entry);
    entry->issued = true;
    if (UCS_PTR_IS_PTR(ptr)) {
        pgasi_ucx_request_t *ours = ptr;
        ours->ctx = ep->ctx;
        ours->comp = NULL;
        ours->extra = entry;
        ours->n_lost = ep->journal.n_lost;
        entry->n_requests++;
        ep->journal.n_requests++;
        ep->ctx->n_pending++;
    } else if (ptr) {
        pgasi_ucx_journal_lost(ep, UCS_PTR_STATUS(ptr));
    }
    return !ptr && entry->kind == PGASI_UCX_GET;
}

static pgasi_ucx_entry_t *new_entry(pgasi_ucx_ep_t *ep, size_t copy_bytes)
{
    bool small = copy_bytes <= SMALL_MAX;
    pgasi_pool_t *pool = small ? &ep->ctx->small_entries : &ep->ctx->large_entries;
    pgasi_ucx_entry_t *entry = pgasi_pool_acquire(pool);
    if (PGAS_LIKELY(entry)) {
        *entry = (pgasi_ucx_entry_t){
            .ep = ep, .small = small, .weight = pool->object_bytes, .fence = ep->ctx->fence
        };
    }
    return entry;
}

static void append(pgasi_ucx_entry_t *entry)
{
    pgasi_ucx_ep_t *ep = entry->ep;
    pgasi_ucx_journal_t *j = &ep->journal;
    entry->number = ++j->issued;
    *j->last = entry;
    j->last = &entry->next;
    j->n_entries++;
    j->bytes += entry->weight;
    pgasi_ucx_dirty(ep);
}

/* Issues an entry that was appended. A copy is complete for the caller at once, other data when it
 * has arrived. */
static pgas_status_t go(pgasi_ucx_entry_t *entry, bool is_copied, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ep_t *ep = entry->ep;
    pgasi_ucx_journal_t *j = &ep->journal;
    uint64_t number = entry->number;
    entry->comp = is_copied ? NULL : comp;
    if (pgasi_ucx_is_up(ep))
        pgasi_ucx_journal_issue(entry);
    if (!is_copied) {
        pgasi_ucx_journal_want(ep, number);
        return PGAS_INPROGRESS;
    }
    if (j->issued - j->acked >= ACK_EVERY || j->bytes >= ACK_BYTES)
        pgasi_ucx_journal_want(ep, number);
    return PGAS_OK;
}

static pgas_status_t refusal(const pgasi_ucx_ep_t *ep)
{
    if (PGAS_UNLIKELY(ep->journal.link == PGASI_UCX_LINK_ENDED))
        return pgasi_ucx_is_dead(ep) ? PGAS_ERR_PEER : PGAS_ERR_TRANSPORT;
    return ep->ctx->n_pending >= PGASI_UCX_PENDING_MAX || is_full(&ep->journal) ? PGAS_ERR_AGAIN
                                                                                : PGAS_OK;
}

pgas_status_t pgasi_ucx_journal_am(pgasi_ucx_ep_t *ep, const void *header, size_t header_bytes,
                                   const void *data, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgas_status_t status = refusal(ep);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    bool is_copied = bytes <= COPY_MAX && !(comp && comp->in_place);
    size_t prefix_bytes = ep->am_compact ? sizeof(uint32_t) : sizeof(pgasi_ucx_am_prefix_t);
    size_t data_at = PGASI_ALIGN_UP(prefix_bytes + header_bytes, 8);
    pgasi_ucx_entry_t *entry = new_entry(ep, data_at + (is_copied ? bytes : 0));
    if (!entry)
        return PGAS_ERR_NO_MEMORY;
    if (ep->am_compact) {
        uint32_t word =
            (ep->am_source | (ep->am_number & ((1u << PGASI_UCX_NUMBER_BITS) - 1))) ^ ep->am_cookie;
        memcpy(entry->copy, &word, sizeof word);
    } else {
        pgasi_ucx_am_prefix_t prefix = { .source = ep->am_source,
                                         .number = ep->am_number ^ ep->am_cookie };
        memcpy(entry->copy, &prefix, sizeof prefix);
    }
    memcpy(entry->copy + prefix_bytes, header, header_bytes);
    if (is_copied && bytes > 0) {
        memcpy(entry->copy + data_at, data, bytes);
        data = entry->copy + data_at;
    }
    entry->kind = PGASI_UCX_MESSAGE;
    entry->header_bytes = prefix_bytes + header_bytes;
    entry->data = (void *)(uintptr_t)data;
    entry->bytes = bytes;
    entry->weight += is_copied ? 0 : bytes; /* the peer has to hold it */
    ep->am_number++;
    append(entry);
    return go(entry, is_copied, comp);
}

/* The numbers of messages have no gaps, so a repetition has no data, and the peer drops it. */
uint32_t pgasi_ucx_journal_arrived(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_ep_t *ep;
    uint32_t n = 0;
    if (pgasi_ucx_ep_get(pgasi_ucx_ctx_of(tp_ctx), peer, &ep) != PGAS_OK)
        return 0;
    for (pgasi_ucx_entry_t *entry = ep->journal.first; entry; entry = entry->next) {
        if (entry->comp != comp)
            continue;
        entry->comp = NULL;
        entry->bytes = 0;
        n++;
    }
    return n;
}

pgas_status_t pgasi_ucx_journal_put(pgasi_ucx_ep_t *ep, pgasi_ucx_key_t *key, uint64_t remote_addr,
                                    const void *src, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgas_status_t status = refusal(ep);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    bool is_copied = bytes <= COPY_MAX && !(comp && comp->once);
    pgasi_ucx_entry_t *entry = new_entry(ep, is_copied ? bytes : 0);
    if (!entry)
        return PGAS_ERR_NO_MEMORY;
    if (is_copied) {
        memcpy(entry->copy, src, bytes);
        src = entry->copy;
    }
    entry->kind = PGASI_UCX_PUT;
    entry->key = key;
    entry->remote_addr = remote_addr;
    entry->data = (void *)(uintptr_t)src;
    entry->bytes = bytes;
    append(entry);
    return go(entry, is_copied, comp);
}

pgas_status_t pgasi_ucx_journal_get(pgasi_ucx_ep_t *ep, pgasi_ucx_key_t *key, uint64_t remote_addr,
                                    void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    pgas_status_t status = refusal(ep);
    pgasi_ucx_entry_t *entry = status == PGAS_OK ? new_entry(ep, 0) : NULL;
    if (PGAS_UNLIKELY(!entry))
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    entry->kind = PGASI_UCX_GET;
    entry->comp = comp;
    entry->key = key;
    entry->remote_addr = remote_addr;
    entry->data = dst;
    entry->bytes = bytes;
    entry->number = j->issued;
    entry->back = j->last_get;
    *j->last_get = entry;
    j->last_get = &entry->next;
    if (pgasi_ucx_is_up(ep) && pgasi_ucx_journal_issue(entry)) {
        pgasi_ucx_journal_unlink_get(entry);
        pgasi_ucx_journal_end_entry(entry);
        return PGAS_OK;
    }
    return PGAS_INPROGRESS;
}

pgas_status_t pgasi_ucx_journal_may_post(pgasi_ucx_ep_t *ep)
{
    pgas_status_t status = refusal(ep);
    return status == PGAS_OK && !pgasi_ucx_is_up(ep) ? PGAS_ERR_AGAIN : status;
}

void pgasi_ucx_journal_posted(pgasi_ucx_ep_t *ep)
{
    pgasi_ucx_entry_t *entry = new_entry(ep, 0);
    if (!entry) /* without an entry a loss cannot be reported */
        return;
    entry->kind = PGASI_UCX_POST;
    append(entry);
    if (ep->journal.issued - ep->journal.acked >= ACK_EVERY)
        pgasi_ucx_journal_want(ep, entry->number);
}

bool pgasi_ucx_journal_flush(pgasi_ucx_ep_t *ep, pgasi_ucx_flush_t *flush)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    if (j->first)
        pgasi_ucx_journal_want(ep, j->issued);
    if (!j->first || j->link == PGASI_UCX_LINK_ENDED) {
        bool lost = j->doubtful || j->link == PGASI_UCX_LINK_ENDED;
        flush->parts.status = lost ? PGAS_ERR_TRANSPORT : flush->parts.status;
        j->doubtful = ep->dirty = false;
        pgasi_ucx_deactivate_if_clean(ep);
        return false;
    }
    pgasi_ucx_flush_part_t *mark = pgasi_pool_acquire(&ep->ctx->flush_parts);
    if (!mark) {
        flush->parts.status = PGAS_ERR_NO_MEMORY;
        return false;
    }
    *mark = (pgasi_ucx_flush_part_t){ .ep = ep, .flush = flush, .number = j->issued };
    pgasi_ucx_flush_part_t **at = &j->marks;
    while (*at)
        at = &(*at)->next;
    *at = mark;
    ep->n_flushes++;
    return true;
}

pgas_status_t pgasi_ucx_journal_key(pgasi_ucx_key_t *key, const void *packed, size_t bytes)
{
    pgasi_ucx_journal_t *j = &key->ep->journal;
    if (!j->on)
        return PGAS_OK;
    key->packed = malloc(bytes);
    if (!key->packed)
        return PGAS_ERR_NO_MEMORY;
    memcpy(key->packed, packed, bytes);
    key->next = j->keys;
    key->back = &j->keys;
    if (j->keys)
        j->keys->back = &key->next;
    j->keys = key;
    return PGAS_OK;
}

void pgasi_ucx_journal_forget_key(pgasi_ucx_key_t *key)
{
    if (!key->packed)
        return;
    pgasi_ucx_journal_t *j = &key->ep->journal;
    for (pgasi_ucx_entry_t *entry = j->first; entry != NULL; entry = entry->next)
        entry->key = entry->key == key ? NULL : entry->key;
    for (pgasi_ucx_entry_t *entry = j->gets; entry != NULL; entry = entry->next)
        entry->key = entry->key == key ? NULL : entry->key;
    *key->back = key->next;
    if (key->next)
        key->next->back = key->back;
    free(key->packed);
}

void pgasi_ucx_journal_lost(pgasi_ucx_ep_t *ep, ucs_status_t status)
{
    pgasi_ucx_journal_t *j = &ep->journal;
    if (!pgasi_ucx_is_up(ep))
        return;
    j->link = PGASI_UCX_LINK_LOST;
    j->why = status;
    j->since_ns = j->since_ns == 0 ? pgasi_now_ns() : j->since_ns;
    ep->ctx->repairs = 1;
}
