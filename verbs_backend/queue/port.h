/** Ports of devices that libibverbs knows, for the providers verbs and mlx5. */
#ifndef PGASI_VERBS_PORT_H
#define PGASI_VERBS_PORT_H

#include "verbs_backend/queue/gid.h"
#include "verbs_backend/queue/library.h"

typedef struct {
    pgas_verbs_info_t info;  /* all but provider and chains */
    pgasi_rdma_address_t at; /* all but the fields of a queue pair: qpn, psn, reads_max */
    uint32_t message_max;    /* bytes of one message on this link */
} pgasi_verbs_port_t;

/** Reads the properties of a port of an open device.
 *  @param gid_index  that must be used, or -1
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID      there is no such GID; the log says so
 *          PGAS_ERR_NOT_FOUND    there is no such port
 *          PGAS_ERR_UNSUPPORTED  it is neither InfiniBand nor RoCE
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_IO */
pgas_status_t pgasi_verbs_port_query(struct ibv_context *context, int port, int gid_index,
                                     pgasi_verbs_port_t *port_p);

/** Finds the port with this number, or with number 0 the first one that is active.
 *  @return as pgasi_verbs_port_query; PGAS_ERR_NOT_FOUND also if the port is not active */
pgas_status_t pgasi_verbs_port_find(struct ibv_context *context, int number, int gid_index,
                                    int n_ports, pgasi_verbs_port_t *port_p);

/** The devices of this machine, as ibv_get_device_list lists them; none where the kernel has no
 *  RDMA. pgasi_verbs_device_list_free frees the list.
 *  @return how many; the list may be NULL if there are none */
int pgasi_verbs_device_list(struct ibv_device ***devices_p);
void pgasi_verbs_device_list_free(struct ibv_device **devices);

/** Opens a device by its name. @return NULL: errno, ENOENT if there is none */
struct ibv_context *pgasi_verbs_device_open(const char *name);

bool pgasi_verbs_set_nonblocking(int fd);

/** Takes the events of a device, whose descriptor must not block, and sets `overrun` of completion
 *  queues that have overrun: the device reports that by an event, not by a completion. The context
 *  of a completion queue of libibverbs is ours. Any thread may find the event of any queue. */
void pgasi_verbs_look_for_events(struct ibv_context *context);

/** A channel of completion events that does not block; ibv_destroy_comp_channel frees it.
 *  @return NULL: it cannot be made */
struct ibv_comp_channel *pgasi_verbs_channel_open(struct ibv_context *context);

#endif
