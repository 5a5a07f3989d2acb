/** Journals: the declarations that journal.c (keeps operations until they are acknowledged) and
 *  repair.c (reopens lost connections) share. */
#ifndef PGASI_UCX_JOURNAL_H
#define PGASI_UCX_JOURNAL_H

#include "ucx_backend/ucx.h"

struct pgasi_ucx_entry {
    pgasi_ucx_entry_t *next, **back; /* back: of gets */
    pgasi_ucx_ep_t *ep;
    pgasi_tp_comp_t *comp; /* called when the entry has arrived */
    enum { PGASI_UCX_MESSAGE, PGASI_UCX_PUT, PGASI_UCX_GET, PGASI_UCX_POST } kind;
    bool small;           /* it comes from the pool of small entries */
    bool ended;           /* its last UCX request releases it */
    bool issued;          /* UCX had it, perhaps on a connection that was lost */
    uint32_t fence;       /* the context's count of fences when it was issued */
    uint32_t n_requests;  /* UCX's requests for it */
    uint64_t number;      /* of a get: the number of the entry before it */
    pgasi_ucx_key_t *key; /* of a put or get; NULL: the key was released meanwhile */
    uint64_t remote_addr;
    void *data; /* of a get: the destination */
    size_t bytes, header_bytes, weight;
    unsigned char copy[]; /* a message's header, then small data */
};

static inline bool pgasi_ucx_is_up(const pgasi_ucx_ep_t *ep)
{
    return PGAS_LIKELY(ep->journal.link == PGASI_UCX_LINK_UP);
}

/** Passes an entry to UCX. If UCX refuses it, the next connection repeats it.
 *  @return true: a get that has ended */
bool pgasi_ucx_journal_issue(pgasi_ucx_entry_t *entry);
void pgasi_ucx_journal_want(pgasi_ucx_ep_t *ep, uint64_t number);
/** Removes entries that have arrived, in order. UCX may still hold a large message until the peer
 *  fetches it. */
void pgasi_ucx_journal_retire(pgasi_ucx_ep_t *ep);
void pgasi_ucx_journal_end_entry(pgasi_ucx_entry_t *entry);
/** Ends flushes whose entries have all arrived. */
void pgasi_ucx_journal_end_marks(pgasi_ucx_ep_t *ep, uint64_t number, pgas_status_t status);
void pgasi_ucx_journal_unlink_get(pgasi_ucx_entry_t *entry);
void pgasi_ucx_journal_get_done(pgasi_ucx_entry_t *entry, pgas_status_t status);

#endif
