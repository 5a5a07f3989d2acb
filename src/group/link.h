/** Connections for control messages: TCP, whole messages, time limits. No thread of its own. */
#ifndef PGASI_GROUP_LINK_H
#define PGASI_GROUP_LINK_H

#include "group/wire.h"

/** Listens at "ADDR:PORT" (IPv4, or IPv6 in brackets); *name gets the real port. For addresses
 *  other than loopback `has_key` must be true.
 *  @return as pgas_replica_create */
pgas_status_t pgasi_group_listen(const char *address, bool has_key, int *fd_p,
                                 char name[PGASI_GROUP_NAME_BYTES]);

/** Connects until the limit (pgasi_now_ns); tries again while the peer refuses. Non-blocking and
 *  close-on-exec descriptors everywhere.
 *  @return PGAS_ERR_TIMEOUT, PGAS_ERR_FORMAT (not an address), PGAS_ERR_PEER (no way to there),
 *          PGAS_ERR_LIMIT (no descriptors are left) */
pgas_status_t pgasi_group_dial(const char *address, uint64_t limit_ns, int *fd_p);

/** The same, but it does not try again. @return PGAS_ERR_PEER  also: no process listens there */
pgas_status_t pgasi_group_dial_once(const char *address, uint64_t limit_ns, int *fd_p);

/** Sets the options of a connection: no delays, and probes that find a vanished host. */
void pgasi_group_set_options(int fd);

/** Sends one message. @return PGAS_ERR_TIMEOUT, PGAS_ERR_PEER (the connection has ended) */
pgas_status_t pgasi_group_send(int fd, uint16_t type, uint32_t number, const void *body,
                               uint32_t bytes, uint64_t limit_ns);

/** A message under assembly: partial input stays here between calls. */
typedef struct {
    pgasi_group_head_t head;
    uint32_t got; /* bytes of head and body so far */
    /* [PGASI_GROUP_BODY_MAX]; allocated with the first message, freed by the owner */
    unsigned char *body;
} pgasi_group_in_t;

/** Receives one whole, checked message.
 *  @return PGAS_ERR_AGAIN    nothing whole is there (limit_ns 0: it does not wait)
 *          PGAS_ERR_TIMEOUT
 *          PGAS_ERR_PEER     the connection has ended
 *          PGAS_ERR_LIMIT    whole, but beyond a limit of the format: it may be answered
 *          PGAS_ERR_MISMATCH the peer has another version
 *          PGAS_ERR_FORMAT   malformed: close the connection
 *          PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_group_recv(int fd, pgasi_group_in_t *in, uint64_t limit_ns);

#endif
