/* Random calls of a queue. Sender and receiver draw from generators with the same seed, so the
 * receiver knows what must come next. */
#ifndef T_SPMD_MESSAGE_H
#define T_SPMD_MESSAGE_H

#include <string.h>
#include "base/param.h"
#include "base/rng.h"

#define MESSAGE_MAX 8192

typedef struct {
    size_t bytes;
    int form; /* 0: zeros; 1: zeros at the end; otherwise no zeros that a sender could omit */
    uint64_t word;
} message_t;

/* Six of 16 have 8 bytes, one of 16 may be as long as calls can be. */
static inline message_t message_draw(pgasi_rng_t *rng)
{
    size_t max = pgasi_param.call_max < MESSAGE_MAX ? pgasi_param.call_max : MESSAGE_MAX;
    uint64_t kind = pgasi_rng_below(rng, 16);
    message_t m = { 8, (int)pgasi_rng_below(rng, 4), pgasi_rng_u64(rng) };
    if (kind > 5)
        m.bytes = pgasi_rng_below(rng, kind < 15 ? 200 : max + 1);
    return m;
}

static inline void message_write(char *args, const message_t *m)
{
    size_t n_full = m->bytes;
    if (m->form == 0)
        n_full = 0;
    else if (m->form == 1)
        n_full = m->bytes / 2;
    for (size_t i = 0; i < m->bytes; i++)
        args[i] = (char)(i < n_full ? (m->word | 1) * (i + 1) >> 24 : 0);
}

static inline bool message_matches(const message_t *m, const void *args, size_t bytes)
{
    char want[MESSAGE_MAX];
    message_write(want, m);
    return bytes == m->bytes && (bytes == 0 || memcmp(args, want, bytes) == 0);
}

#endif
