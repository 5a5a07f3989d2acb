/* amr: messages between ranks. Each exchange has a number, its epoch. In an exchange a rank gets at
 * most one message from each rank. */
#ifndef AMR_MESSAGE_H
#define AMR_MESSAGE_H

#include <pgas/call_args.h>
#include <pgas/describe.h>
#include "amr.h"

/* A part has the cells of a leaf, or means for one octant of it: half as many in each direction. */
#define PART_FIELDS(F)         \
    F(SCALAR, int32_t, leaf)   \
    F(SCALAR, int32_t, octant) \
    F(RMA_VECTOR, cells, cells)
PGAS_STRUCT(part, PART_FIELDS)
#define ALL_OCTANTS (-1)

/* A message has either strips and all their values, or parts. */
#define MESSAGE_FIELDS(F)         \
    F(SCALAR, uint32_t, epoch)    \
    F(RMA_VECTOR, strips, strips) \
    F(RMA_VECTOR, cells, values)  \
    F(STRUCT_VECTOR, part, parts, n_parts)
PGAS_STRUCT(message, MESSAGE_FIELDS)

/* Collective. */
void messages_init(void);
void messages_free(void);
void message_add_part(message_t *message, int leaf, int octant, cells_t *cells);
/* Sends a message, also to this rank itself, and empties it. */
void message_send(int rank, message_t *message);
/* Waits for n messages of an epoch. */
void messages_wait(uint32_t epoch, int n);
/* Returns the message of a rank. It is empty if the rank has sent none. */
message_t *message_of(uint32_t epoch, int rank);
void message_empty(message_t *message);

#endif
