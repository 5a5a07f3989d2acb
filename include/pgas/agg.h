/** Aggregators: small calls gathered and published together.
 *
 *  Source: Seriema (aggregation in the style "trad"). */
#ifndef PGAS_AGG_H
#define PGAS_AGG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/call.h"

PGAS_BEGIN_DECLS

/** Options; zero means default. */
typedef struct {
    size_t size;          /* as in pgas_init_opts_t */
    size_t publish_bytes; /* publish to a peer when so many bytes are gathered; default PGAS_AGG_SIZE */
    bool for_handlers;    /* used inside handlers only, whichever thread runs them; what they gather is published when
                             the incoming calls at hand have run */
} pgas_agg_opts_t;
#define PGAS_AGG_OPTS_INIT { sizeof(pgas_agg_opts_t), 0, false }

/** Where the next call to one peer goes: behind others of the same handler and size, which share one header. */
typedef struct {
    uint64_t kind; /* of the calls in the open run; 0: none */
    char *pos, *end;
} pgas_agg_cursor_t;

/** An aggregator gathers the calls of one thread and publishes them late. Belongs to the thread that created it (or to
 *  the rank's handlers). The first fields are visible for the inline path below; all of it is the library's. */
typedef struct pgas_agg {
    pgas_agg_cursor_t *cursor; /* by rank */
    uint32_t n_ranks;          /* 0: no inline path */
    uint32_t context;          /* in which it is used, see pgas_call_path_t */
} pgas_agg_t;

/* Small arguments by words: a structure just filled in is then taken from registers. (Copied by wider loads it would
 * first have to reach memory, for stores of its members do not forward to a load of them together.) */
PGAS_INLINE void pgas_agg_copy(char *to, const void *from, size_t bytes)
{
    const char *args = (const char *)from;
    size_t i = 0;
    if (bytes <= 64 && __builtin_constant_p(bytes)) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
        for (; i + 8 <= bytes; i += 8)
            memcpy(to + i, args + i, 8);
    }
    memcpy(to + i, args + i, bytes - i);
}

/** Handler and size as one number, never 0. */
static inline uint64_t pgas_agg_kind(pgas_handler_t handler, size_t bytes)
{
    return UINT64_C(1) << 63 | (uint64_t)bytes << 16 | handler;
}

/** @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_NO_MEMORY, PGAS_ERR_CONTEXT (thread not attached), PGAS_ERR_INVALID (null,
 *  or options of a size that never was). */
PGAS_API pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p);
/** Publishes what is gathered and frees. NULL is ignored. */
PGAS_API pgas_status_t pgas_agg_destroy(pgas_agg_t *agg);

PGAS_API pgas_status_t pgas_agg_call_far(pgas_agg_t *agg, int rank, pgas_handler_t handler, const void *args,
                                         size_t bytes);

/** As pgas_call without completion, but published late: when PGAS_AGG_SIZE bytes for the peer are gathered, by
 *  pgas_agg_flush, pgas_quiesce, a direct call of the thread to the same rank, or detach. Errors as pgas_call; agg is not
 *  checked: NULL is undefined. Inline: calls with the handler and size of the one before cost a comparison and a copy;
 *  pgas_agg_call_far does the rest. */
PGAS_INLINE pgas_status_t pgas_agg_call(pgas_agg_t *agg, int rank, pgas_handler_t handler, const void *args,
                                          size_t bytes)
{
    if (PGAS_LIKELY((uint32_t)rank < agg->n_ranks && agg->context == pgas_call_path.context)) {
        pgas_agg_cursor_t *c = &agg->cursor[rank];
        size_t room = (bytes + 7) & ~(size_t)7;
        char *pos = c->pos;
        if (PGAS_LIKELY(c->kind == pgas_agg_kind(handler, bytes) && (size_t)(c->end - pos) >= room && args)) {
            pgas_agg_copy(pos, args, bytes);
            c->pos = pos + room;
            return PGAS_OK;
        }
    }
    if (__builtin_constant_p(bytes) && bytes > 0 && bytes <= 64 && args) {
        char copy[64]; /* leaves what args points to in registers */
        pgas_agg_copy(copy, args, bytes);
        return pgas_agg_call_far(agg, rank, handler, copy, bytes);
    }
    return pgas_agg_call_far(agg, rank, handler, args, bytes);
}

/** Publishes what is gathered for a rank; or for all, and waits until it has left (not until it has run), so that the
 *  thread may then stay away from the library. Inside handlers neither waits. */
PGAS_API pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank);
PGAS_API pgas_status_t pgas_agg_flush_all(pgas_agg_t *agg);

PGAS_END_DECLS
#endif
