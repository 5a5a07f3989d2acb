/* Properties of a port that libibverbs and the kernel know. */
#include "verbs_backend/queue/port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"

int pgasi_verbs_device_list(struct ibv_device ***devices_p)
{
    int n = 0;
    /* NULL without the kernel's modules (ENOSYS), or without rights: no devices */
    *devices_p = pgasi_verbs_lib_open() ? pgasi_verbs_lib.ibv_get_device_list(&n) : NULL;
    return !*devices_p ? 0 : n;
}

void pgasi_verbs_device_list_free(struct ibv_device **devices)
{
    if (devices)
        pgasi_verbs_lib.ibv_free_device_list(devices);
}

struct ibv_context *pgasi_verbs_device_open(const char *name)
{
    struct ibv_device **devices;
    struct ibv_context *context = NULL;
    int n = pgasi_verbs_device_list(&devices), error = ENOENT;
    for (int i = 0; i < n; i++) {
        if (strcmp(pgasi_verbs_lib.ibv_get_device_name(devices[i]), name) == 0) {
            context = pgasi_verbs_lib.ibv_open_device(devices[i]);
            error = errno;
            break;
        }
    }
    pgasi_verbs_device_list_free(devices);
    errno = error;
    return context;
}

static int read_numa_node(const struct ibv_device *device)
{
    char path[IBV_SYSFS_PATH_MAX + 32];
    int node = -1;
    snprintf(path, sizeof path, "%s/device/numa_node", device->ibdev_path);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%d", &node) != 1)
            node = -1;
        fclose(file);
    }
    return node;
}

static pgasi_gid_type_t type_of(uint32_t gid_type)
{
    if (gid_type == IBV_GID_TYPE_ROCE_V2)
        return PGASI_GID_ROCE_2;
    return gid_type == IBV_GID_TYPE_ROCE_V1 ? PGASI_GID_ROCE_1 : PGASI_GID_INFINIBAND;
}

/* Reads the valid entries of a port. The caller frees *gids_p. @return how many; -1: no memory */
static int read_gids(struct ibv_context *context, int port, int table_length, pgasi_gid_t **gids_p)
{
    struct ibv_device_attr device;
    int ports = pgasi_verbs_lib.ibv_query_device(context, &device) == 0 ? device.phys_port_cnt : 1;
    size_t most = (size_t)PGASI_MAX(table_length, 1) * (size_t)PGASI_MAX(ports, 1);
    struct ibv_gid_entry *entries = calloc(most, sizeof *entries);
    pgasi_gid_t *gids = calloc(most, sizeof *gids);
    if (!entries || !gids) {
        free(entries);
        free(gids);
        return -1;
    }
    ssize_t found =
        pgasi_verbs_lib._ibv_query_gid_table(context, entries, most, 0, sizeof *entries);
    int n = 0;
    for (ssize_t i = 0; i < found; i++) {
        if (entries[i].port_num == (uint32_t)port) {
            gids[n].index = entries[i].gid_index;
            gids[n].type = type_of(entries[i].gid_type);
            memcpy(gids[n++].gid, entries[i].gid.raw, sizeof gids->gid);
        }
    }
    free(entries);
    *gids_p = gids;
    return n;
}

static const char *name_of(pgasi_gid_type_t type)
{
    if (type == PGASI_GID_ROCE_2)
        return "RoCE v2";
    return type == PGASI_GID_ROCE_1 ? "RoCE v1" : "InfiniBand";
}

/* Adds the selected GID to the properties of a port. Ethernet needs one; InfiniBand only without a
 * LID, or if the program has asked for one. */
static pgas_status_t take_gid(pgasi_verbs_port_t *port, const pgasi_gid_t *gids, int n,
                              bool ethernet, int wanted)
{
    int chosen = pgasi_gid_choose(gids, n, wanted);
    if (wanted >= 0 && chosen < 0) {
        PGASI_WARN("verbs", "%s port %d has no GID with index %d", port->info.name, port->info.port,
                   wanted);
        return PGAS_ERR_INVALID;
    }
    const char *link = "InfiniBand";
    if (ethernet)
        link = chosen < 0 ? "RoCE" : name_of(gids[chosen].type);
    snprintf(port->info.link, sizeof port->info.link, "%s", link);
    port->at.is_global = ethernet || wanted >= 0 || port->info.lid == 0;
    if (chosen >= 0) {
        memcpy(port->info.gid, gids[chosen].gid, sizeof port->info.gid);
        memcpy(port->at.gid, gids[chosen].gid, sizeof port->at.gid);
    }
    if (chosen >= 0 && port->at.is_global)
        port->info.gid_index = (int)gids[chosen].index;
    else if (port->at.is_global)
        port->info.active = false; /* no peer could reach it */
    return PGAS_OK;
}

/* What the inline function of that name does without its shorter way. The library fills only the
 * fields that the structure had at first. */
static int query_port(struct ibv_context *context, int number, struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    return (pgasi_verbs_lib.ibv_query_port)(context, (uint8_t)number, (void *)attr);
}

pgas_status_t pgasi_verbs_port_query(struct ibv_context *context, int number, int gid_index,
                                     pgasi_verbs_port_t *port_p)
{
    struct ibv_port_attr attr;
    pgasi_verbs_port_t port;
    memset(&port, 0, sizeof port);
    if (context->device->transport_type != IBV_TRANSPORT_IB)
        return PGAS_ERR_UNSUPPORTED;
    if (number < 1 || number > 255 || query_port(context, number, &attr) != 0)
        return PGAS_ERR_NOT_FOUND;
    bool ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    snprintf(port.info.name, sizeof port.info.name, "%s",
             pgasi_verbs_lib.ibv_get_device_name(context->device));
    port.info.port = number;
    port.info.active = attr.state == IBV_PORT_ACTIVE;
    port.info.gid_index = -1;
    port.info.lid = port.at.lid = attr.lid;
    port.info.numa_node = read_numa_node(context->device);
    port.at.mtu = (uint8_t)attr.active_mtu;
    port.message_max = attr.max_msg_sz;
    pgasi_gid_t *gids = NULL;
    port.info.n_gids = read_gids(context, number, attr.gid_tbl_len, &gids);
    if (port.info.n_gids < 0)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = take_gid(&port, gids, port.info.n_gids, ethernet, gid_index);
    free(gids);
    if (status == PGAS_OK)
        *port_p = port;
    return status;
}

/* Copies GIDs for the caller. */
static void take_gids(const pgasi_gid_t *from, int n, pgas_verbs_gid_t *gids, int n_max)
{
    for (int i = 0; i < PGASI_MIN(n, n_max); i++) {
        gids[i] = (pgas_verbs_gid_t){ .index = (int)from[i].index };
        snprintf(gids[i].link, sizeof gids[i].link, "%s", name_of(from[i].type));
        memcpy(gids[i].gid, from[i].gid, sizeof gids[i].gid);
    }
}

pgas_status_t pgasi_verbs_gids(const char *device, int port, pgas_verbs_gid_t *gids, int n_max,
                               int *n_p)
{
    struct ibv_port_attr attr;
    struct ibv_context *context = pgasi_verbs_device_open(device);
    if (!context)
        return PGAS_ERR_NOT_FOUND;
    pgasi_gid_t *found = NULL;
    pgas_status_t status = query_port(context, port, &attr) == 0 ? PGAS_OK : PGAS_ERR_NOT_FOUND;
    int n = status == PGAS_OK ? read_gids(context, port, attr.gid_tbl_len, &found) : 0;
    if (n < 0)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK) {
        take_gids(found, n, gids, n_max);
        *n_p = n;
    }
    free(found);
    pgasi_verbs_lib.ibv_close_device(context);
    return status;
}

bool pgasi_verbs_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

struct ibv_comp_channel *pgasi_verbs_channel_open(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = pgasi_verbs_lib.ibv_create_comp_channel(context);
    if (channel && !pgasi_verbs_set_nonblocking(channel->fd)) {
        pgasi_verbs_lib.ibv_destroy_comp_channel(channel);
        channel = NULL;
    }
    return channel;
}

pgas_status_t pgasi_verbs_port_find(struct ibv_context *context, int number, int gid_index,
                                    int n_ports, pgasi_verbs_port_t *port_p)
{
    pgas_status_t status = PGAS_ERR_NOT_FOUND;
    for (int i = number != 0 ? number : 1; i <= (number != 0 ? number : n_ports); i++) {
        status = pgasi_verbs_port_query(context, i, gid_index, port_p);
        if (status == PGAS_OK && port_p->info.active)
            return PGAS_OK;
    }
    return status == PGAS_OK ? PGAS_ERR_NOT_FOUND : status;
}

void pgasi_verbs_look_for_events(struct ibv_context *context)
{
    struct ibv_async_event event;
    while (pgasi_verbs_lib.ibv_get_async_event(context, &event) == 0) {
        if (event.event_type == IBV_EVENT_CQ_ERR) {
            pgas_verbs_cq_t *cq = event.element.cq->cq_context;
            __atomic_store_n(&cq->overrun, true, __ATOMIC_RELEASE);
        }
        pgasi_verbs_lib.ibv_ack_async_event(&event);
    }
}
