/** For tests of transmitters: registered buffers of one size. A buffer that was given back with a
 *  number is taken again once its transmitter has done that number. */
#ifndef T_VERBS_BUFFERS_H
#define T_VERBS_BUFFERS_H

#include "pgas/verbs.h"
#include "t/tap.h"

#define BUFFERS_MAX 64

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t mem;
    uint32_t bytes, n;
    struct {
        bool taken;
        pgas_verbs_tx_t *tx; /* NULL: the buffer is free */
        uint64_t number;
    } of[BUFFERS_MAX];
} buffers_t;

static inline void buffers_open(pgas_verbs_dev_t *dev, uint32_t bytes, uint32_t n, buffers_t *b)
{
    *b = (buffers_t){ .dev = dev, .bytes = bytes, .n = n };
    if (n > BUFFERS_MAX || pgas_verbs_mem_register(dev, NULL, (size_t)bytes * n,
                                                   PGAS_VERBS_ACCESS_ALL, &b->mem) != PGAS_OK)
        bail("no memory for buffers");
}

static inline void buffers_close(buffers_t *b)
{
    pgas_verbs_mem_release(b->dev, &b->mem);
}

/** @return false: no buffer is known to be free */
static inline bool buffers_take(buffers_t *b, pgas_verbs_span_t *span_p)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->of[i].taken || (b->of[i].tx && pgas_verbs_tx_done(b->of[i].tx) < b->of[i].number))
            continue;
        b->of[i].taken = true;
        *span_p = (pgas_verbs_span_t){ (uintptr_t)b->mem.addr + (uint64_t)i * b->bytes, b->bytes,
                                       b->mem.lkey };
        return true;
    }
    return false;
}

/** @param tx, number  of the request that used the buffer last; tx NULL: it is free at once */
static inline void buffers_give(buffers_t *b, const pgas_verbs_span_t *span, pgas_verbs_tx_t *tx,
                                uint64_t number)
{
    uint32_t i = (uint32_t)((span->addr - (uintptr_t)b->mem.addr) / b->bytes);
    b->of[i].taken = false;
    b->of[i].tx = tx;
    b->of[i].number = number;
}

#endif
