/** Channels to other nodes, the sender's side; channel_memory.h tells how a sender comes to one and
 *  has the receiver's side.
 *
 *  A channel is a ring of chunks in the receiver's memory, as on the node (recv_queue.h), and the
 *  receiver reads it in the same way. It is written in one of two ways:
 *  - by stores, where one host's memory can be mapped by the transport's key (fake nodes): all as
 *  on the node;
 *  - by puts. A descriptor is never run while it has arrived in part, and this needs no order among
 *    the bytes of a put, nor between puts: the arguments, with the zero behind them that stops the
 *    receiver, are one put; then a fence; then the header, a word of 8 aligned bytes, is another.
 *    The fence is the transport's promise (transport.h) that puts before it are visible at the peer
 *    before those after it: UCX keeps it on each transport, by the order of a queue pair, by the
 *    order of a stream that the peer's software reads, or by waiting for the puts before. That a
 *    put of an aligned word is not seen in halves holds where it is one store: of the adapter on
 *    its bus, or of the peer's own processor. */
#ifndef PGASI_FAR_CHANNEL_H
#define PGASI_FAR_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "msg/channel_memory.h"

/** Takes what a receiver answers to a sender of this rank. data: what followed the message. False:
 *  nobody asked. */
bool pgasi_far_channel_answer(const pgasi_ctl_t *ctl, int source, const char *data, size_t bytes);

#endif
