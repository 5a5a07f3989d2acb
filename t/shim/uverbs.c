/* The kernel's side of the commands that libibverbs writes to a device file: as many as libmlx5
 * needs for reliable connections.
 *
 * A command is a header, the common structure and the driver's own; so is the answer, whose place
 * the common structure begins with, or in extended commands a second header. Layouts are those of
 * <rdma/ib_user_verbs.h> and <rdma/mlx5-abi.h>. Refused: other transports, memory windows,
 * resizing; multicast; queues that are shared between processes. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "t/shim/shim.h"

#define NO_REQUEST UINT32_MAX /* in the second word of a completion queue's record */

typedef struct {
    shim_context_t *context;
    const unsigned char *in; /* after the headers */
    size_t in_bytes;
    unsigned char *out;
    size_t out_bytes;
    bool extended;
} command_t;

/* The input from an offset on; missing bytes are zero, as from an older library. */
static void take(const command_t *command, size_t at, void *into, size_t bytes)
{
    memset(into, 0, bytes);
    if (at < command->in_bytes)
        memcpy(into, command->in + at,
               bytes < command->in_bytes - at ? bytes : command->in_bytes - at);
}

static void answer(const command_t *command, size_t at, const void *from, size_t bytes)
{
    if (command->out && at < command->out_bytes)
        memcpy(command->out + at, from,
               bytes < command->out_bytes - at ? bytes : command->out_bytes - at);
}

/* ---- the device ---- */

/* A pipe whose reading end is the program's. Ours is opened anew, because the program's end waits
 * and ours must not: that flag belongs to the opened file. @return NULL, or the channel, with the
 * program's descriptor as its number */
static shim_object_t *make_channel(shim_context_t *context)
{
    int ends[2];
    char path[32];
    shim_object_t *old;
    if (pipe2(ends, O_CLOEXEC))
        return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    int ours = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    shim_object_t *channel = ours < 0 ? NULL : shim_new(context, SHIM_CHANNEL);
    if (!channel) {
        for (int k = 0; k < 3; k++)
            close(k < 2 ? ends[k] : ours);
        return NULL;
    }
    while ((old = shim_find_number(SHIM_CHANNEL, (uint32_t)ends[0])))
        old->number = UINT32_MAX; /* that descriptor was closed */
    channel->pipe[0] = ours;
    channel->pipe[1] = ends[1];
    channel->number = (uint32_t)ends[0];
    return channel;
}

static int get_context(command_t *command)
{
    shim_object_t *events = make_channel(command->context);
    if (!events)
        return ENOMEM;
    command->context->events = events;
    struct ib_uverbs_get_context_resp resp = { .async_fd = events->number, .num_comp_vectors = 1 };
    /* No doorbell registers beforehand: libmlx5 asks for pages by ioctl. Version 0 of completions:
     * they name queues by number. */
    struct mlx5_ib_alloc_ucontext_resp own = {
        .qp_tab_size = 1 << 18,
        .bf_reg_size = 512,
        .tot_bfregs = 0,
        .cache_line_size = 64,
        .max_sq_desc_sz = 1024,
        .max_rq_desc_sz = 512,
        .max_send_wqebb = PGASI_SNIC_QUEUE_MAX,
        .max_recv_wr = PGASI_SNIC_QUEUE_MAX,
        .max_srq_recv_wr = PGASI_SNIC_QUEUE_MAX,
        .num_ports = 1,
        .response_length = sizeof own,
        .cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
        .eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
        .log_uar_size = 12,
        .num_uars_per_page = 1,
        .num_dyn_bfregs = 512,
    };
    answer(command, 0, &resp, sizeof resp);
    answer(command, sizeof resp, &own, sizeof own);
    return 0;
}

static int query_device(command_t *command)
{
    const shim_card_t *card = command->context->card;
    struct ib_uverbs_ex_query_device_resp resp = { .response_length = sizeof resp,
                                                   .base = { .fw_ver =
                                                                 UINT64_C(16) << 32 | 35 << 16,
                                                             .max_mr_size = UINT64_MAX,
                                                             .page_size_cap = 0xfffff000,
                                                             .vendor_id = 0x15b3,
                                                             .vendor_part_id = 0x1019,
                                                             .max_qp = 1 << 17,
                                                             .max_qp_wr = PGASI_SNIC_QUEUE_MAX,
                                                             .max_sge = 30,
                                                             .max_sge_rd = 30,
                                                             .max_cq = 1 << 16,
                                                             .max_cqe = (1 << 22) - 1,
                                                             .max_mr = 1 << 20,
                                                             .max_pd = 1 << 16,
                                                             .max_qp_rd_atom = 16,
                                                             .max_res_rd_atom = 1 << 20,
                                                             .max_qp_init_rd_atom = 16,
                                                             .atomic_cap = IBV_ATOMIC_HCA,
                                                             .max_ah = 1 << 20,
                                                             .max_srq = 1 << 14,
                                                             .max_srq_wr = PGASI_SNIC_QUEUE_MAX - 1,
                                                             .max_srq_sge = 31,
                                                             .max_pkeys = 1,
                                                             .local_ca_ack_delay = 16,
                                                             .phys_port_cnt = 1 } };
    memcpy(&resp.base.node_guid, card->gids[0] + 8, 8);
    memcpy(&resp.base.sys_image_guid, card->gids[0] + 8, 8);
    answer(command, 0, &resp, command->extended ? sizeof resp : sizeof resp.base);
    return 0;
}

static int query_port(command_t *command)
{
    struct ib_uverbs_query_port in;
    take(command, 0, &in, sizeof in);
    if (in.port_num != 1)
        return EINVAL;
    const shim_card_t *card = command->context->card;
    struct ib_uverbs_query_port_resp resp = {
        .max_msg_sz = 1u << 30,
        .gid_tbl_len = (uint32_t)card->n_gids,
        .pkey_tbl_len = 1,
        .lid = card->lid,
        .sm_lid = card->ethernet ? 0 : 1,
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = card->ethernet ? IBV_MTU_1024 : IBV_MTU_4096,
        .max_vl_num = 3,
        .active_width = 2,
        .active_speed = 64,
        .phys_state = 5,
        .link_layer = card->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND,
        .port_cap_flags = card->ethernet ? IBV_PORT_IP_BASED_GIDS : 0,
    };
    answer(command, 0, &resp, sizeof resp);
    return 0;
}

static int create_channel(command_t *command)
{
    shim_object_t *channel = make_channel(command->context);
    if (!channel)
        return ENOMEM;
    struct ib_uverbs_create_comp_channel_resp resp = { .fd = channel->number };
    answer(command, 0, &resp, sizeof resp);
    return 0;
}

/* ---- domains, memory, addresses ---- */

static int alloc_pd(command_t *command)
{
    shim_object_t *pd = shim_new(command->context, SHIM_PD);
    if (!pd)
        return ENOMEM;
    pd->number = pgasi_snic_pd_open(shim_engine());
    struct ib_uverbs_alloc_pd_resp resp = { .pd_handle = pd->handle };
    struct mlx5_ib_alloc_pd_resp own = { .pdn = pd->number };
    answer(command, 0, &resp, sizeof resp);
    answer(command, sizeof resp, &own, sizeof own);
    return 0;
}

static int reg_mr(command_t *command)
{
    struct ib_uverbs_reg_mr in;
    take(command, 0, &in, sizeof in);
    shim_object_t *pd = shim_find(command->context, SHIM_PD, in.pd_handle);
    if (!pd || in.start != in.hca_va)
        return EINVAL;
    if (in.access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
        !(in.access_flags & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    shim_object_t *mr = shim_new(command->context, SHIM_MR);
    if (!mr)
        return ENOMEM;
    mr->number = pgasi_snic_mr_open(shim_engine(), pd->number, (void *)(uintptr_t)in.start,
                                    in.length, shim_access(in.access_flags), -1, 0);
    if (!mr->number) {
        shim_destroy(mr);
        return ENOMEM;
    }
    shim_use(mr, pd);
    struct ib_uverbs_reg_mr_resp resp = { .mr_handle = mr->handle,
                                          .lkey = mr->number,
                                          .rkey = mr->number };
    answer(command, 0, &resp, sizeof resp);
    return 0;
}

static int create_ah(command_t *command)
{
    struct ib_uverbs_create_ah in;
    take(command, 0, &in, sizeof in);
    shim_object_t *pd = shim_find(command->context, SHIM_PD, in.pd_handle);
    shim_object_t *ah = pd ? shim_new(command->context, SHIM_AH) : NULL;
    if (!ah)
        return pd ? ENOMEM : EINVAL;
    struct ib_uverbs_create_ah_resp resp = { .ah_handle = ah->handle };
    struct mlx5_ib_create_ah_resp own = { .response_length = sizeof own };
    bool known = !command->context->card->ethernet;
    for (int k = 0; k < SHIM_CARDS && !known; k++) {
        known = shim_route_gid(command->context, in.attr.grh.sgid_index, in.attr.grh.dgid,
                               shim_cards[k].mac, 1);
        memcpy(own.dmac, shim_cards[k].mac, sizeof own.dmac);
    }
    if (!known) { /* the neighbour does not answer */
        shim_destroy(ah);
        return ETIMEDOUT;
    }
    shim_use(ah, pd);
    answer(command, 0, &resp, sizeof resp);
    answer(command, sizeof resp, &own, sizeof own);
    return 0;
}

/* ---- queues ---- */

static unsigned log_of(uint64_t n)
{
    unsigned log = 0;
    while (UINT64_C(1) << log < n)
        log++;
    return log;
}

/* The common part without its first word, which extended commands have in their header. */
static int create_cq(command_t *command)
{
    struct ib_uverbs_create_cq in = { 0 };
    struct ib_uverbs_ex_create_cq extended = { 0 };
    struct mlx5_ib_create_cq own;
    if (command->extended) {
        take(command, 0, &extended, sizeof extended);
        take(command, sizeof extended, &own, sizeof own);
        in.user_handle = extended.user_handle;
        in.cqe = extended.cqe;
        in.comp_channel = extended.comp_channel;
    } else {
        take(command, 0, &in, sizeof in);
        take(command, sizeof in, &own, sizeof own);
    }
    if (own.cqe_size != sizeof(pgasi_cqe_t) || in.cqe >= 1u << 22)
        return EINVAL;
    shim_object_t *channel =
        in.comp_channel < 0 ? NULL : shim_find_number(SHIM_CHANNEL, (uint32_t)in.comp_channel);
    if (in.comp_channel >= 0 && !channel)
        return EINVAL;
    shim_object_t *cq = shim_new(command->context, SHIM_CQ);
    if (!cq)
        return ENOMEM;
    if (channel && pipe2(cq->pipe, O_CLOEXEC | O_NONBLOCK)) {
        shim_destroy(cq);
        return EMFILE;
    }
    cq->user_handle = in.user_handle;
    cq->record = (uint32_t *)(uintptr_t)own.db_addr;
    pgasi_snic_cq_opts_t opts = {
        .log_entries = log_of(in.cqe + 1),
        .ring = PGASI_SNIC_ADDRESS(own.buf_addr),
        .record = PGASI_SNIC_ADDRESS(own.db_addr),
        .ignore_overrun = extended.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN,
        .event_fd = cq->pipe[1],
    };
    cq->number = pgasi_snic_cq_open(shim_engine(), &opts);
    if (!cq->number) {
        shim_destroy(cq);
        return ENOMEM;
    }
    shim_use(cq, channel);
    cq->seen[1] = cq->record[1] = NO_REQUEST; /* the first request may be a word of zeros */
    struct ib_uverbs_ex_create_cq_resp resp = { .base = { .cq_handle = cq->handle, .cqe = in.cqe },
                                                .response_length = sizeof resp };
    struct mlx5_ib_create_cq_resp own_resp = { .cqn = cq->number };
    size_t common = command->extended ? sizeof resp : sizeof resp.base;
    answer(command, 0, &resp, common);
    answer(command, common, &own_resp, sizeof own_resp);
    return 0;
}

static int destroy_cq(command_t *command)
{
    struct ib_uverbs_destroy_cq in;
    take(command, 0, &in, sizeof in);
    shim_object_t *cq = shim_find(command->context, SHIM_CQ, in.cq_handle);
    if (!cq)
        return EINVAL;
    if (cq->n_users)
        return EBUSY;
    uint32_t n_taken = cq->n_events - shim_retract_events(cq->uses[0], cq,
                                                          sizeof(struct ib_uverbs_comp_event_desc));
    uint32_t n_left = shim_retract_events(command->context->events, cq,
                                          sizeof(struct ib_uverbs_async_event_desc));
    struct ib_uverbs_destroy_cq_resp resp = { .comp_events_reported = n_taken,
                                              .async_events_reported = cq->dead - n_left };
    shim_destroy(cq);
    answer(command, 0, &resp, sizeof resp);
    return 0;
}

static int create_srq(command_t *command)
{
    struct ib_uverbs_create_srq in;
    struct mlx5_ib_create_srq own;
    take(command, 0, &in, sizeof in);
    take(command, sizeof in, &own, sizeof own);
    shim_object_t *pd = shim_find(command->context, SHIM_PD, in.pd_handle);
    if (!pd || own.flags)
        return EINVAL;
    shim_object_t *srq = shim_new(command->context, SHIM_SRQ);
    if (!srq)
        return ENOMEM;
    unsigned stride = 1u << log_of(PGASI_WQE_SEGMENT * (in.max_sge + 1));
    pgasi_snic_srq_opts_t opts = { .log_entries = log_of(in.max_wr + 1),
                                   .stride = stride < 32 ? 32 : stride,
                                   .ring = PGASI_SNIC_ADDRESS(own.buf_addr),
                                   .record = PGASI_SNIC_ADDRESS(own.db_addr),
                                   .pd = pd->number };
    srq->record = (uint32_t *)(uintptr_t)own.db_addr;
    srq->number = pgasi_snic_srq_open(shim_engine(), &opts);
    if (!srq->number) {
        shim_destroy(srq);
        return ENOMEM;
    }
    shim_use(srq, pd);
    struct ib_uverbs_create_srq_resp resp = {
        .srq_handle = srq->handle, .max_wr = in.max_wr, .max_sge = in.max_sge, .srqn = srq->number
    };
    struct mlx5_ib_create_srq_resp own_resp = { .srqn = srq->number };
    answer(command, 0, &resp, sizeof resp);
    answer(command, sizeof resp, &own_resp, sizeof own_resp);
    return 0;
}

/* The extended structure is the plain one without its first word, and four words more. */
static void take_create_qp(command_t *command, struct ib_uverbs_create_qp *in,
                           struct mlx5_ib_create_qp *own, uint32_t *flags)
{
    struct ib_uverbs_ex_create_qp extended = { 0 };
    if (command->extended) {
        take(command, 0, &extended, sizeof extended);
        take(command, sizeof extended, own, sizeof *own);
        memset(in, 0, sizeof *in);
        memcpy(&in->user_handle, &extended,
               sizeof *in - offsetof(struct ib_uverbs_create_qp, user_handle));
    } else {
        take(command, 0, in, sizeof *in);
        take(command, sizeof *in, own, sizeof *own);
    }
    *flags = extended.create_flags | extended.comp_mask;
}

static int create_qp(command_t *command)
{
    struct ib_uverbs_create_qp in;
    struct mlx5_ib_create_qp own;
    uint32_t flags;
    take_create_qp(command, &in, &own, &flags);
    shim_context_t *context = command->context;
    if (in.qp_type != IBV_QPT_RC || flags || own.flags & MLX5_QP_FLAG_SIGNATURE)
        return EOPNOTSUPP;
    shim_qp_t qp = { .pd = shim_find(context, SHIM_PD, in.pd_handle),
                     .send_cq = shim_find(context, SHIM_CQ, in.send_cq_handle),
                     .recv_cq = shim_find(context, SHIM_CQ, in.recv_cq_handle),
                     .srq = in.is_srq ? shim_find(context, SHIM_SRQ, in.srq_handle) : NULL };
    if (!qp.pd || !qp.send_cq || !qp.recv_cq || (in.is_srq && !qp.srq) ||
        own.sq_wqe_count > PGASI_SNIC_QUEUE_MAX)
        return EINVAL;
    bool receives = !in.is_srq && own.rq_wqe_count;
    uint64_t rq_bytes = receives ? (uint64_t)own.rq_wqe_count << own.rq_wqe_shift : 0;
    qp.opts = (pgasi_snic_qp_opts_t){
        .log_sq_blocks = log_of(own.sq_wqe_count),
        .log_rq_entries = receives ? log_of(own.rq_wqe_count) : 0,
        .rq_stride = receives ? 1u << own.rq_wqe_shift : 0,
        .rq = PGASI_SNIC_ADDRESS(own.buf_addr),
        .sq = PGASI_SNIC_ADDRESS(own.buf_addr + rq_bytes),
        .record = PGASI_SNIC_ADDRESS(own.db_addr),
        .flags = PGASI_SNIC_CHECK_OVERRUN,
    };
    shim_object_t *object = shim_qp_new(context, &qp);
    if (!object)
        return ENOMEM;
    object->record = (uint32_t *)(uintptr_t)own.db_addr;
    uint32_t caps[] = { in.max_send_wr, in.max_recv_wr, in.max_send_sge, in.max_recv_sge,
                        in.max_inline_data };
    memcpy(object->caps, caps, sizeof caps);
    struct ib_uverbs_ex_create_qp_resp resp = { .response_length = sizeof resp,
                                                .base = { .qp_handle = object->handle,
                                                          .qpn = object->number,
                                                          .max_send_wr = caps[0],
                                                          .max_recv_wr = caps[1],
                                                          .max_send_sge = caps[2],
                                                          .max_recv_sge = caps[3],
                                                          .max_inline_data = caps[4] } };
    struct mlx5_ib_create_qp_resp own_resp = { 0 };
    size_t common = command->extended ? sizeof resp : sizeof resp.base;
    answer(command, 0, &resp, common);
    answer(command, common, &own_resp, sizeof own_resp);
    return 0;
}

static uint32_t route(const shim_context_t *context, const struct ib_uverbs_qp_dest *dest,
                      uint32_t qpn)
{
    if (dest->is_global && dest->sgid_index >= context->card->n_gids)
        return 0;
    if (!context->card->ethernet)
        return shim_route_lid(context, dest->dlid, qpn);
    if (!dest->is_global)
        return 0;
    return shim_route_gid(context, dest->sgid_index, dest->dgid, NULL, qpn);
}

static int modify_qp(command_t *command)
{
    struct ib_uverbs_modify_qp in;
    take(command, 0, &in, sizeof in);
    shim_object_t *qp = shim_find(command->context, SHIM_QP, in.qp_handle);
    if (!qp)
        return EINVAL;
    if (in.attr_mask & IBV_QP_ACCESS_FLAGS)
        qp->access = shim_access(in.qp_access_flags);
    if (!(in.attr_mask & IBV_QP_STATE))
        return 0;
    pgasi_snic_qp_state_t values = { .access = qp->access };
    switch (in.qp_state) {
    case IBV_QPS_RESET:
        values.state = PGASI_SNIC_RESET;
        break;
    case IBV_QPS_ERR:
        values.state = PGASI_SNIC_ERROR;
        break;
    case IBV_QPS_INIT:
        if (in.port_num != 1 || in.pkey_index)
            return EINVAL;
        values.state = PGASI_SNIC_INIT;
        break;
    case IBV_QPS_RTR:
        if (!(in.attr_mask & IBV_QP_AV) || in.path_mtu < IBV_MTU_256 || in.path_mtu > IBV_MTU_4096)
            return EINVAL;
        values.state = PGASI_SNIC_RTR;
        values.peer_qpn = route(command->context, &in.dest, in.dest_qp_num);
        values.psn_in = in.rq_psn;
        values.reads_max_in = in.max_dest_rd_atomic;
        break;
    case IBV_QPS_RTS:
        values.state = PGASI_SNIC_RTS;
        values.psn = in.sq_psn;
        values.reads_max = in.max_rd_atomic;
        values.retry = in.retry_cnt;
        values.rnr_retry = in.rnr_retry;
        break;
    default:
        return EOPNOTSUPP;
    }
    return shim_qp_modify(qp, in.qp_state, &values);
}

static int query_qp(command_t *command)
{
    static const uint8_t states[] = { [PGASI_SNIC_RESET] = IBV_QPS_RESET,
                                      [PGASI_SNIC_INIT] = IBV_QPS_INIT,
                                      [PGASI_SNIC_RTR] = IBV_QPS_RTR,
                                      [PGASI_SNIC_RTS] = IBV_QPS_RTS,
                                      [PGASI_SNIC_ERROR] = IBV_QPS_ERR };
    struct ib_uverbs_query_qp in;
    take(command, 0, &in, sizeof in);
    shim_object_t *qp = shim_find(command->context, SHIM_QP, in.qp_handle);
    if (!qp)
        return EINVAL;
    struct ib_uverbs_query_qp_resp resp = {
        .max_send_wr = qp->caps[0],
        .max_recv_wr = qp->caps[1],
        .max_send_sge = qp->caps[2],
        .max_recv_sge = qp->caps[3],
        .max_inline_data = qp->caps[4],
        .port_num = 1,
        .qp_state = states[pgasi_snic_qp_query(shim_engine(), qp->number)]
    };
    resp.cur_qp_state = resp.qp_state;
    answer(command, 0, &resp, sizeof resp);
    return 0;
}

/* Objects that are destroyed by a handle at an offset; the answer has counts of events, all 0. */
static int destroy(command_t *command, shim_kind_t kind, size_t at)
{
    uint32_t handle, none[2] = { 0, 0 };
    take(command, at, &handle, sizeof handle);
    shim_object_t *object = shim_find(command->context, kind, handle);
    int error = object ? shim_destroy(object) : EINVAL;
    if (!error)
        answer(command, 0, none, sizeof none);
    return error;
}

/* ---- */

static int carry_out(command_t *command, uint32_t number)
{
    switch (number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT:
        return get_context(command);
    case IB_USER_VERBS_CMD_QUERY_DEVICE:
        return query_device(command);
    case IB_USER_VERBS_CMD_QUERY_PORT:
        return query_port(command);
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
        return create_channel(command);
    case IB_USER_VERBS_CMD_ALLOC_PD:
        return alloc_pd(command);
    case IB_USER_VERBS_CMD_DEALLOC_PD:
        return destroy(command, SHIM_PD, 0);
    case IB_USER_VERBS_CMD_REG_MR:
        return reg_mr(command);
    case IB_USER_VERBS_CMD_DEREG_MR:
        return destroy(command, SHIM_MR, 0);
    case IB_USER_VERBS_CMD_CREATE_AH:
        return create_ah(command);
    case IB_USER_VERBS_CMD_DESTROY_AH:
        return destroy(command, SHIM_AH, 0);
    case IB_USER_VERBS_CMD_CREATE_CQ:
        return create_cq(command);
    case IB_USER_VERBS_CMD_DESTROY_CQ:
        return destroy_cq(command);
    case IB_USER_VERBS_CMD_CREATE_SRQ:
        return create_srq(command);
    case IB_USER_VERBS_CMD_DESTROY_SRQ:
        return destroy(command, SHIM_SRQ, offsetof(struct ib_uverbs_destroy_srq, srq_handle));
    case IB_USER_VERBS_CMD_CREATE_QP:
        return create_qp(command);
    case IB_USER_VERBS_CMD_MODIFY_QP:
        return modify_qp(command);
    case IB_USER_VERBS_CMD_QUERY_QP:
        return query_qp(command);
    case IB_USER_VERBS_CMD_DESTROY_QP:
        return destroy(command, SHIM_QP, offsetof(struct ib_uverbs_destroy_qp, qp_handle));
    default:
        return EOPNOTSUPP;
    }
}

int shim_write(shim_context_t *context, const void *from, size_t bytes)
{
    struct ib_uverbs_cmd_hdr hdr;
    struct ib_uverbs_ex_cmd_hdr extended;
    if (bytes < sizeof hdr)
        return EINVAL;
    memcpy(&hdr, from, sizeof hdr);
    command_t command = { .context = context,
                          .in = (const unsigned char *)from + sizeof hdr,
                          .in_bytes = bytes - sizeof hdr,
                          .extended = hdr.command & IB_USER_VERBS_CMD_FLAG_EXTENDED };
    if (command.extended) {
        if (command.in_bytes < sizeof extended)
            return EINVAL;
        memcpy(&extended, command.in, sizeof extended);
        command.in += sizeof extended;
        command.in_bytes -= sizeof extended;
        command.out = (unsigned char *)(uintptr_t)extended.response;
        command.out_bytes = 8 * (size_t)(hdr.out_words + extended.provider_out_words);
    } else if (hdr.out_words && command.in_bytes >= sizeof(uint64_t)) {
        uint64_t response;
        memcpy(&response, command.in, sizeof response);
        command.out = (unsigned char *)(uintptr_t)response;
        command.out_bytes = 4 * (size_t)hdr.out_words;
    }
    return carry_out(&command, hdr.command & ~IB_USER_VERBS_CMD_FLAG_EXTENDED);
}
