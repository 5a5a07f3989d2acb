/** Objects are reference-counted memory for transfers. Vectors grow in such memory.
 *
 *      PGAS_RMA_VECTOR(cells, double)                     defines cells_t and its functions
 *      cells_t a = { 0 }, b = { 0 };
 *      cells_resize(&a, 1 << 20);                         registered memory of this rank
 *      cells_data(&a)[7] = 1;
 *      cells_share(&a, &b);                               the same memory; no copy
 *      cells_take(&a, &b);                                b has the memory of a; a is empty
 *      cells_free(&b);
 *
 *  A registered object is memory of the rank's heap. pgas_init registers the heap with the
 *  transport, and the ranks of the node map it, so no transfer registers memory. An archive that
 *  contains an object shares it, so the program may destroy its own reference at once. The target
 *  of a call reads the data into registered objects of its own. Its handler may keep them without a
 *  copy.
 *
 *  An object can also use memory of the program: a copy of it, a reference to it with a function
 *  that the last holder calls, or memory of malloc that the object takes over.
 *
 *  All functions may be called on any thread, attached or not, in handlers, and before pgas_init.
 *  Before pgas_init, new objects and copies are memory of malloc. pgas_finalize ends registered
 *  memory. A program may destroy objects after it, but must not use their data.
 *
 *  Sizes are rounded up to 64 bytes, and by at most a quarter. A thread keeps up to 4 MiB of freed
 *  blocks, at most a 64th of the heap. The rank keeps up to a quarter of the heap. pgas_alloc,
 *  pgas_alloc_on and pools get this memory when the heap has no other. The creation of an object of
 *  up to 1 MiB takes no lock when the thread has kept a block of its size. Its destruction takes
 *  none until the thread has kept too many.
 *
 *  Statuses of all functions, beside those that they list:
 *  @return PGAS_ERR_INVALID    a null pointer
 *          PGAS_ERR_NO_MEMORY  neither the heap nor the process has memory
 *
 *  Source: HPX's rma_object, rma_vector and serialize_buffer. */
#ifndef PGAS_RMA_OBJECT_H
#define PGAS_RMA_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** An object. The program may read these fields and must not change them. */
typedef struct {
    void *data; /* aligned to 64 if the library allocated it */
    size_t bytes;
    pgas_gptr_t ptr; /* PGAS_NULL: not registered */
    int n_holders;
    uint32_t kind; /* belongs to the library */
} pgas_rma_object_t;

/** The thread that destroys the last reference calls this function, once. It must not wait. */
typedef void (*pgas_release_fn_t)(void *data, size_t bytes, void *arg);

/** Creates an object with registered memory. Its contents are undefined. 0 bytes are allowed. If
 *  the heap has no room, the memory comes from malloc and ptr is PGAS_NULL. The log reports the
 *  first such object, and pgas_rma_info counts them. */
PGAS_API pgas_status_t pgas_rma_object_create(size_t bytes, pgas_rma_object_t **object_p);
/** The same, with a copy of data. */
PGAS_API pgas_status_t pgas_rma_object_copy(const void *data, size_t bytes,
                                            pgas_rma_object_t **object_p);
/** Makes an object of the program's memory, which must not change or end before the object calls
 *  release. release may be NULL. Memory in the rank's heap is registered memory. */
PGAS_API pgas_status_t pgas_rma_object_reference(void *data, size_t bytes,
                                                 pgas_release_fn_t release, void *arg,
                                                 pgas_rma_object_t **object_p);
/** Makes an object of memory of malloc. The last holder frees it by free() of the C library. */
PGAS_API pgas_status_t pgas_rma_object_take(void *data, size_t bytes, pgas_rma_object_t **object_p);

/** Adds a holder. The caller already is a holder. NULL is ignored. @return object */
static inline pgas_rma_object_t *pgas_rma_object_share(pgas_rma_object_t *object);
/** Removes a holder. The last holder releases the memory. Transfers that the program has started
 *  from or to it must be complete. NULL is ignored.
 *  @return PGAS_ERR_INVALID  the object has no holder, as far as its record still shows it */
PGAS_API pgas_status_t pgas_rma_object_destroy(pgas_rma_object_t *object);

/** Defines NAME_t, a vector of elements of a type that may be copied as bytes, and its functions:
 *      pgas_status_t NAME_resize(NAME_t *v, size_t n);     new elements are undefined
 *      pgas_status_t NAME_push(NAME_t *v, type element);   doubles the memory when it is full
 *      type *NAME_data(const NAME_t *v);                   NULL while nothing is allocated
 *      size_t NAME_size(const NAME_t *v);
 *      void NAME_share(const NAME_t *from, NAME_t *to);    frees `to`, which then shares the memory
 *      void NAME_take(NAME_t *from, NAME_t *to);           frees `to`, which then has the memory
 *      void NAME_free(NAME_t *v);                          empty again
 *      pgas_status_t NAME_adopt(NAME_t *v, pgas_rma_object_t *object, size_t n);
 *          frees v, which then has the first n elements of the object and destroys it at the end
 *  { 0 }, in C++ {}, is an empty vector. Pointers to elements are valid until the vector grows.
 *  Vectors that share memory see each other's writes to elements that both have. Elements that one
 *  of them appends are its own. A vector without room for them first copies its elements to new
 *  memory. From then on it shares no elements.
 *  Shape:  different vectors of one object may be used on different threads at the same time.
 *  @return PGAS_ERR_NO_MEMORY  the vector is unchanged
 *          PGAS_ERR_RANGE      adopt: the object has fewer than n elements; nothing is changed */
#define PGAS_RMA_VECTOR(name, type) PGAS_RMA_VECTOR_FUNCTIONS(name, type)

/** What this rank has sent, received and holds. */
typedef struct {
    size_t size;                             /* in: sizeof of this struct */
    uint64_t n_calls_sent, n_calls_received; /* with archives; replies count as calls */
    uint64_t bytes_sent, bytes_received;     /* streams and chunks */
    uint64_t serialize_us;                   /* typed calls: time to save and load, sampled */
    uint64_t n_registered_sent, n_pointers_sent, n_chunks_received;
    uint64_t n_registrations;             /* made for a transfer: 0 for registered chunks */
    uint64_t n_unregistered;              /* objects for which the heap had no room */
    uint64_t n_objects;                   /* objects that exist now */
    uint64_t object_bytes;                /* registered memory of these objects */
    uint64_t pool_bytes, pool_high_bytes; /* memory of the heap for objects, now and at most */
} pgas_rma_info_t;
PGAS_API pgas_status_t pgas_rma_info(pgas_rma_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/rma_object.h"
#endif
