/** Atomic operations on words of this address space, for all operators and types of atomics. */
#ifndef PGASI_ATOMIC_H
#define PGASI_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/op.h"
#include "transport/transport.h"

/** Beside PGAS_ADD .. PGAS_SWAP: stores the operand if the word has the bits of `compare`. */
#define PGASI_COMPARE_SWAP ((pgas_op_t)0x90)

/** @return PGAS_OK
 *          PGAS_ERR_INVALID      unknown operator or type
 *          PGAS_ERR_UNSUPPORTED  atomics do not offer the operator or the type */
pgas_status_t pgasi_atomic_check(pgas_op_t op, pgas_type_t type);

/** Returns the size of a word: 4 or 8. The type has passed pgasi_atomic_check. */
static inline size_t pgasi_atomic_bytes(pgas_type_t type)
{
    return type == PGAS_U32 || type == PGAS_I32 || type == PGAS_F32 ? 4 : 8;
}

/** Finds the transport's operation that has the same effect. @return false: there is none */
bool pgasi_atomic_amo(pgas_op_t op, pgas_type_t type, pgasi_amo_t *amo_p);

/** Applies an operation. operand and compare are bits. @return the bits of the word before */
uint64_t pgasi_atomic_apply(void *word, pgas_op_t op, pgas_type_t type, uint64_t operand,
                            uint64_t compare);

#endif
