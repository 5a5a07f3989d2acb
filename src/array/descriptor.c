/* Descriptors of accesses: their data, their completion, and tokens.
 *
 * A token names an access that another rank carries out. It contains a generation, so that a
 * late reply finds no access. */
#include "array/descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "base/op.h"
#include "base/checks.h"
#include "boot/boot.h"
#include "boot/wait.h"

/* ---- what it carries ---- */

static size_t operand_bytes(uint32_t op)
{
    const pgas_op_def_t *def = pgasi_op_find(op);
    return def ? def->operand_bytes : 0;
}

size_t pgasi_array_in_bytes(const pgasi_array_access_t *x, size_t elem_bytes)
{
    switch (x->kind) {
    case PGASI_ARRAY_SET:
        return x->n * elem_bytes;
    case PGASI_ARRAY_CAS:
        return 2 * elem_bytes;
    case PGASI_ARRAY_FETCH:
    case PGASI_ARRAY_APPLY:
        return operand_bytes(x->op);
    default:
        return 0;
    }
}

size_t pgasi_array_out_bytes(const pgasi_array_access_t *x, size_t elem_bytes)
{
    switch (x->kind) {
    case PGASI_ARRAY_GET:
        return x->n * elem_bytes;
    case PGASI_ARRAY_CAS:
    case PGASI_ARRAY_FETCH:
        return elem_bytes;
    default:
        return 0;
    }
}

bool pgasi_array_fits_call(const pgasi_array_access_t *x, size_t elem_bytes)
{
    return x->kind != PGASI_ARRAY_PIN &&
           pgasi_array_in_bytes(x, elem_bytes) <= PGASI_ARRAY_CALL_BYTES &&
           pgasi_array_out_bytes(x, elem_bytes) <= PGASI_ARRAY_CALL_BYTES;
}

pgasi_array_event_t pgasi_array_op_event(const pgasi_array_access_t *x)
{
    switch (pgasi_array_need(x)) {
    case PGASI_ARRAY_NEED_R:
        return PGASI_E_OP_R;
    case PGASI_ARRAY_NEED_W:
        return PGASI_E_OP_W;
    default:
        return PGASI_E_OP_A;
    }
}

/* ---- completion ---- */

void pgasi_array_done(pgasi_array_access_t *x, pgas_status_t status)
{
    x->status = status;
    __atomic_store_n(&x->done, 1, __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

/* ---- queues ---- */

void pgasi_array_queue_push(pgasi_array_queue_t *queue, pgasi_array_access_t *x)
{
    x->next = NULL;
    if (queue->first)
        queue->last->next = x;
    else
        __atomic_store_n(&queue->first, x, __ATOMIC_RELAXED);
    queue->last = x;
}

pgasi_array_access_t *pgasi_array_queue_pop(pgasi_array_queue_t *queue)
{
    pgasi_array_access_t *x = queue->first;
    __atomic_store_n(&queue->first, x->next, __ATOMIC_RELAXED);
    return x;
}

void pgasi_array_queue_remove(pgasi_array_queue_t *queue, const pgasi_array_access_t *x)
{
    pgasi_array_access_t *before = NULL;
    for (pgasi_array_access_t *at = queue->first; at; before = at, at = at->next) {
        if (at != x)
            continue;
        if (before)
            before->next = at->next;
        else
            __atomic_store_n(&queue->first, at->next, __ATOMIC_RELAXED);
        if (queue->last == at)
            queue->last = before;
        return;
    }
}

/* ---- tokens ---- */

#define NUMBER_BITS 24
#define NUMBERS_MAX (1u << NUMBER_BITS)

typedef struct {
    pgasi_array_access_t *access; /* NULL: free */
    uint32_t next_free;           /* NUMBERS_MAX: none */
    uint8_t generation;
} number_t;

static struct {
    number_t *number;
    uint32_t n, first_free;
} tokens;

void pgasi_array_tokens_start(void)
{
    free(tokens.number);
    tokens.number = NULL;
    tokens.n = 0;
    tokens.first_free = NUMBERS_MAX;
}

static pgas_status_t more_numbers(void)
{
    uint32_t n = tokens.n ? 2 * tokens.n : 64;
    number_t *more = n > NUMBERS_MAX ? NULL : realloc(tokens.number, n * sizeof *more);
    if (!more)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t i = tokens.n; i < n; i++) {
        more[i] = (number_t){ NULL, tokens.first_free, 0 };
        tokens.first_free = i;
    }
    tokens.number = more;
    tokens.n = n;
    return PGAS_OK;
}

static void free_number(uint32_t i)
{
    number_t *number = &tokens.number[i];
    number->access = NULL;
    number->generation++;
    number->next_free = tokens.first_free;
    tokens.first_free = i;
}

pgas_status_t pgasi_array_token_open(pgasi_array_access_t *x, uint32_t *token_p)
{
    if (tokens.first_free == NUMBERS_MAX && more_numbers() != PGAS_OK)
        return PGAS_ERR_NO_MEMORY;
    uint32_t i = tokens.first_free;
    number_t *number = &tokens.number[i];
    tokens.first_free = number->next_free;
    number->access = x;
    *token_p = i | (uint32_t)number->generation << NUMBER_BITS;
    return PGAS_OK;
}

pgasi_array_access_t *pgasi_array_token_close(uint32_t token)
{
    uint32_t i = token & (NUMBERS_MAX - 1);
    if (i >= tokens.n || tokens.number[i].generation != token >> NUMBER_BITS)
        return NULL;
    pgasi_array_access_t *x = tokens.number[i].access;
    if (x)
        free_number(i);
    return x;
}

void pgasi_array_token_forget(const pgasi_array_access_t *x)
{
    for (uint32_t i = 0; i < tokens.n; i++)
        if (tokens.number[i].access == x)
            free_number(i);
}
