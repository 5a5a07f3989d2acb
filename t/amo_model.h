/* Atomic operations on a plain word: the oracle of tests of transports. */
#ifndef T_AMO_MODEL_H
#define T_AMO_MODEL_H

#include <stdint.h>
#include "transport/transport.h"

/* The word of `bytes` bytes after the operation. */
static inline uint64_t amo_result(pgasi_amo_t op, size_t bytes, uint64_t word, uint64_t operand,
                                  uint64_t compare)
{
    uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;
    switch (op) {
    case PGASI_AMO_ADD:
        return (word + operand) & mask;
    case PGASI_AMO_AND:
        return word & operand & mask;
    case PGASI_AMO_OR:
        return (word | operand) & mask;
    case PGASI_AMO_XOR:
        return (word ^ operand) & mask;
    case PGASI_AMO_SWAP:
        return operand & mask;
    default:
        return word == (compare & mask) ? operand & mask : word;
    }
}

#endif
