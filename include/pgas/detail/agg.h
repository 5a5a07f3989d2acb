/** The inline part of pgas/agg.h. If a call has the same handler and size as the previous call to
 *  its rank, it is appended to that run. A run has one header for all its calls, so appending costs
 *  a comparison and a copy. pgas_agg_call_far does everything else. */
#ifndef PGAS_DETAIL_AGG_H
#define PGAS_DETAIL_AGG_H

#include "pgas/agg.h"

PGAS_BEGIN_DECLS

/* Where the next call to one rank goes. The size is a power of two, so that a shift finds it. */
typedef struct {
    uint64_t kind; /* pgas_agg_kind of the calls in the open run; 0: no run is open */
    /* end: with an open run the last place where a call of its kind fits, otherwise the end of the
     * batch */
    char *pos, *end;
    uint64_t spare;
} pgas_agg_cursor_t;

/* Entries of a table of cursors. Entries behind the last rank are never touched, and no kind
 * matches them. So one comparison with a constant checks the rank, and often the compiler knows its
 * result. */
#define PGAS_AGG_CURSORS (1u << 20)

struct pgas_agg {
    pgas_agg_cursor_t *cursor; /* [PGAS_AGG_CURSORS] by rank; NULL: there is no inline path */
    bool overflow;             /* calls leave at once if they can; then cursor is NULL */
};

PGAS_API pgas_status_t pgas_agg_call_far(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                         const void *args, size_t bytes);

/* Arguments in a batch. They have types that neither a cursor has nor, as a rule, data of programs:
 * the compiler then knows that storing them changes neither, and keeps both in registers. */
typedef unsigned long long pgas_agg_word_t;
typedef struct {
    unsigned int half;
} pgas_agg_half_t;

/* Copies small arguments word by word. A structure that was just filled in is then taken from
 * registers. By wider loads it would have to reach memory first, because a processor does not
 * forward several stores to one load. */
PGAS_INLINE void pgas_agg_copy(char *to, const void *from, size_t bytes)
{
    const char *args = (const char *)from;
    size_t i = 0;
    if (bytes <= 64 && __builtin_constant_p(bytes)) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
        for (; i + 8 <= bytes; i += 8) {
            pgas_agg_word_t word;
            memcpy(&word, args + i, 8);
            *(pgas_agg_word_t *)(void *)(to + i) = word;
        }
    }
    memcpy(to + i, args + i, bytes - i);
}

/* The owner of a call (pgas_call_path_t.context), its handler and its size as one number. One
 * comparison decides whether a call continues a run. */
static inline uint64_t pgas_agg_kind(uint64_t context, pgas_handler_t handler, size_t bytes)
{
    return context | (uint64_t)bytes << 16 | handler;
}

PGAS_INLINE pgas_status_t pgas_agg_call(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                        const void *args, size_t bytes)
{
    pgas_agg_cursor_t *cursor = agg->cursor;
    if (PGAS_LIKELY(cursor && (uint32_t)rank < PGAS_AGG_CURSORS)) {
        pgas_agg_cursor_t *c = &cursor[(uint32_t)rank];
        char *pos = c->pos;
        if (PGAS_LIKELY(c->kind == pgas_agg_kind(pgas_call_path.context, handler, bytes) &&
                        pos <= c->end && args)) {
            pgas_agg_copy(pos, args, bytes);
            c->pos = pos + PGAS_HANDLER_STRIDE(bytes);
            return PGAS_OK;
        }
    } else if (__builtin_constant_p(bytes) && bytes == 8 && agg->overflow && args) {
        uint64_t word;
        memcpy(&word, args, 8);
        if (PGAS_LIKELY(pgas_call_inline(rank, handler, word)))
            return PGAS_OK;
    } else if (bytes > 8 && bytes <= PGAS_CALL_STREAM_MAX && bytes % 8 == 0 && agg->overflow &&
               args) {
        if (pgas_call_stream(rank, handler, args, bytes))
            return PGAS_OK;
    }
    if (__builtin_constant_p(bytes) && bytes > 0 && bytes <= 64 && args) {
        char copy[64]; /* so that what args points to may stay in registers */
        pgas_agg_copy(copy, args, bytes);
        return pgas_agg_call_far(agg, rank, handler, copy, bytes);
    }
    return pgas_agg_call_far(agg, rank, handler, args, bytes);
}

PGAS_END_DECLS
#endif
