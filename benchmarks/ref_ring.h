/** The ring of slots that calls one by one are compared with: one producer and one consumer on one
 *  node, a message a slot. The number of a message follows it in its slot and publishes it. */
#ifndef BENCH_REF_RING_H
#define BENCH_REF_RING_H

#include <string.h>
#include "benchmarks/bench.h"

#define REF_LINE       128 /* two cache lines: processors prefetch pairs */
#define REF_RING_BYTES (64u << 10)
#define ref_inline     inline __attribute__((always_inline))

typedef struct {
    _Alignas(REF_LINE) uint64_t written; /* messages, published by the producer; not of slots */
    _Alignas(REF_LINE) uint64_t read;    /* messages, published by the consumer */
    _Alignas(REF_LINE) char data[REF_RING_BYTES];
} ref_ring_t;

/** One end of a ring, for its loop. The loops keep it in registers: further stores would wait in
 *  the same store buffer as the messages, behind cache lines that come from another core. */
typedef struct {
    ref_ring_t *ring;
    uint64_t n;     /* messages written or read by this end */
    uint64_t known; /* read by the other end, as last seen */
    size_t at;      /* place of the next message */
} ref_ring_end_t;

static ref_inline size_t ref_ring_next(size_t at, size_t bytes)
{
    at += bytes;
    return at + bytes > REF_RING_BYTES ? 0 : at;
}

static ref_inline bool ref_ring_has_room(ref_ring_end_t *end, uint64_t burst, size_t bytes)
{
    if (end->n + burst - end->known <= REF_RING_BYTES / bytes)
        return true;
    end->known = __atomic_load_n(&end->ring->read, __ATOMIC_ACQUIRE);
    return end->n + burst - end->known <= REF_RING_BYTES / bytes;
}

static ref_inline size_t ref_slot_bytes(size_t bytes)
{
    return ((bytes + 7) & ~(size_t)7) + sizeof(uint64_t);
}

/** Writes `total` messages: each one's number, then words of `rest`. The ring begins empty. */
static ref_inline void ref_slots_send(ref_ring_t *ring, uint64_t total, size_t bytes,
                                      const char *rest)
{
    ref_ring_end_t end = { .ring = ring };
    size_t step = ref_slot_bytes(bytes);
    uint32_t spins;
    while (end.n < total) {
        char *slot = ring->data + end.at;
        for (spins = 0; !ref_ring_has_room(&end, 1, step);)
            bench_relax(&spins);
        memcpy(slot, &end.n, bytes < sizeof end.n ? bytes : sizeof end.n);
        if (bytes > sizeof end.n)
            memcpy(slot + sizeof end.n, rest, bytes - sizeof end.n);
        end.n++;
        __atomic_store_n((uint64_t *)(void *)(slot + step - sizeof end.n), end.n, __ATOMIC_RELEASE);
        end.at = ref_ring_next(end.at, step);
    }
}

/** Reads `total` messages and adds up their first words. It frees the room of messages when they
 *  are an eighth of the ring. */
static ref_inline void ref_slots_receive(ref_ring_t *ring, uint64_t total, size_t bytes)
{
    ref_ring_end_t end = { .ring = ring };
    size_t step = ref_slot_bytes(bytes);
    uint64_t sum = 0, item = 0, freed = 0;
    uint32_t spins;
    while (end.n < total) {
        const char *slot = ring->data + end.at;
        const uint64_t *number = (const uint64_t *)(const void *)(slot + step - sizeof *number);
        for (spins = 0; __atomic_load_n(number, __ATOMIC_ACQUIRE) != end.n + 1;)
            bench_relax(&spins);
        memcpy(&item, slot, bytes < sizeof item ? bytes : sizeof item);
        sum += item;
        end.at = ref_ring_next(end.at, step);
        if (++end.n - freed >= REF_RING_BYTES / 8 / step || end.n == total) {
            freed = end.n;
            __atomic_store_n(&ring->read, end.n, __ATOMIC_RELEASE);
        }
    }
    bench_use(sum);
}

#endif
