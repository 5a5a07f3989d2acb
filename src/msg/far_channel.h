/** Channels to other nodes, the sender's side. channel_memory.h has the receiver's side, and
 *  describes how a sender gets a channel.
 *
 *  A channel is a ring of chunks in the receiver's memory, as on the node (recv_queue.h), and the
 *  receiver reads it in the same way. The sender writes it in one of two ways:
 *  - by stores, if the transport's key maps the memory (fake nodes on one host), as on the node;
 *  - by puts: the arguments, with the zero behind them that stops the receiver, are one put; then a
 *    fence; then the header, an aligned word of 8 bytes, is another put.
 *
 *  A descriptor thus never runs while only a part of it has arrived. This needs no order among the
 *  bytes of a put, nor between puts. The transport promises (transport.h) that puts before the
 *  fence are visible at the peer before those after it. UCX keeps the promise by the order of a
 *  queue pair, by the order of a stream that the peer's software reads, or by waiting for the
 *  earlier puts. A put of an aligned word is atomic if it is one store: of the adapter on its bus,
 *  or of the peer's processor. */
#ifndef PGASI_FAR_CHANNEL_H
#define PGASI_FAR_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "msg/channel_memory.h"

/** Handles the answer of a receiver to a sender of this rank. data: what followed the message.
 *  @return false: no sender asked for it */
bool pgasi_far_channel_answer(const pgasi_ctl_t *ctl, int source, const char *data, size_t bytes);

#endif
