/* The kernel's side of libmlx5's ioctls: pages of doorbells, and DEVX, by which a program gives the
 * card's own commands. Of those there are QUERY_HCA_CAP and the life of queue pairs, as the
 * provider mlx5 and rdma-core's tests use them; all else is refused.
 *
 * Bit numbers count from the first bit of a command, fields are big-endian, as in the mlx5_ifc.h of
 * rdma-core. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "t/shim/shim.h"

typedef struct ib_uverbs_ioctl_hdr hdr_t;
typedef struct ib_uverbs_attr attr_t;

static attr_t *attribute(hdr_t *hdr, unsigned id)
{
    for (unsigned k = 0; k < hdr->num_attrs; k++)
        if (hdr->attrs[k].attr_id == id)
            return &hdr->attrs[k];
    return NULL;
}

/* A number that was sent: in place if it is short. */
static uint64_t number(hdr_t *hdr, unsigned id)
{
    attr_t *attr = attribute(hdr, id);
    uint64_t value = 0;
    if (attr)
        memcpy(&value,
               attr->len <= sizeof value ? (void *)&attr->data : (void *)(uintptr_t)attr->data,
               sizeof value);
    return attr && attr->len && attr->len < sizeof value
               ? value & ((UINT64_C(1) << 8 * attr->len) - 1)
               : value;
}

static uint32_t handle_of(hdr_t *hdr, unsigned id)
{
    attr_t *attr = attribute(hdr, id);
    return attr ? (uint32_t)attr->data : 0;
}

static void answer(hdr_t *hdr, unsigned id, const void *from, size_t bytes)
{
    attr_t *attr = attribute(hdr, id);
    if (!attr)
        return;
    memcpy((void *)(uintptr_t)attr->data, from, bytes < attr->len ? bytes : attr->len);
    attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

static void answer_handle(hdr_t *hdr, unsigned id, const shim_object_t *object)
{
    attr_t *attr = attribute(hdr, id);
    if (attr) {
        attr->data = object->handle;
        attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    }
}

static int destroy(shim_context_t *context, hdr_t *hdr, shim_kind_t kind, unsigned id)
{
    shim_object_t *object = shim_find(context, kind, handle_of(hdr, id));
    return object ? shim_destroy(object) : ENOENT;
}

/* ---- pages ---- */

/* Two mappings: the program unmaps its own when it likes. */
static int alloc_uar(shim_context_t *context, hdr_t *hdr)
{
    shim_object_t *uar = shim_new(context, SHIM_UAR);
    if (!uar)
        return ENOMEM;
    uar->page_fd = memfd_create("uar", MFD_CLOEXEC);
    void *page = uar->page_fd < 0 || ftruncate(uar->page_fd, SHIM_PAGE)
                     ? MAP_FAILED
                     : mmap(NULL, SHIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, uar->page_fd, 0);
    if (page == MAP_FAILED) {
        shim_destroy(uar);
        return ENOMEM;
    }
    uar->page = page;
    uint64_t offset = (uint64_t)uar->handle * SHIM_PAGE;
    uint32_t bytes = SHIM_PAGE;
    answer_handle(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, uar);
    answer(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof offset);
    answer(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &bytes, sizeof bytes);
    answer(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &uar->handle, sizeof uar->handle);
    return 0;
}

static int reg_umem(shim_context_t *context, hdr_t *hdr)
{
    shim_object_t *umem = shim_new(context, SHIM_UMEM);
    if (!umem)
        return ENOMEM;
    umem->addr = number(hdr, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
    umem->bytes = number(hdr, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
    if (!umem->addr || !umem->bytes) {
        shim_destroy(umem);
        return EINVAL;
    }
    answer_handle(hdr, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, umem);
    answer(hdr, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &umem->handle, sizeof umem->handle);
    return 0;
}

/* ---- commands of the card ---- */

enum {
    QUERY_HCA_CAP = 0x100,
    CREATE_QP = 0x500,
    RST2INIT_QP = 0x502,
    INIT2RTR_QP = 0x503,
    RTR2RTS_QP = 0x504,
    TO_ERROR_QP = 0x507,
    TO_RESET_QP = 0x50a
};
enum {
    IN_OPCODE = 0,
    IN_OP_MOD = 0x30,
    IN_QPN = 0x48,
    IN_CONTEXT = 0xc0,
    OUT_STATUS = 0,
    OUT_SYNDROME = 0x20,
    OUT_QPN = 0x48
};
enum { BAD_PARAMETER = 3, NO_RESOURCES = 6, BAD_STATE = 9 }; /* statuses */

static uint64_t bits(const unsigned char *command, unsigned at, unsigned n)
{
    uint64_t value = 0;
    for (unsigned k = at; k < at + n; k++)
        value = value << 1 | (command[k / 8] >> (7 - k % 8) & 1);
    return value;
}

static void set_bits(unsigned char *command, unsigned at, unsigned n, uint64_t value)
{
    for (unsigned k = at + n; k-- > at; value >>= 1)
        command[k / 8] = (unsigned char)((command[k / 8] & ~(0x80u >> k % 8)) |
                                         (value & 1 ? 0x80u >> k % 8 : 0));
}

/* A field of the queue pair's context, which has one offset in all its commands. */
static uint32_t field(const unsigned char *command, unsigned at, unsigned n)
{
    return (uint32_t)bits(command, IN_CONTEXT + at, n);
}

/* Where a part of registered memory is; 0: it is not all of it. */
static uint64_t umem_part(const shim_context_t *context, uint32_t id, uint64_t offset,
                          uint64_t bytes)
{
    shim_object_t *umem = shim_find(context, SHIM_UMEM, id);
    return !umem || offset > umem->bytes || bytes > umem->bytes - offset ? 0 : umem->addr + offset;
}

/* @return 0, or the card's status */
static int create_qp(shim_context_t *context, const unsigned char *in, shim_object_t **object_p)
{
    enum { NORMAL_RQ = 0, SHARED_RQ = 1, NO_RQ = 3 };
    uint32_t kind = field(in, 0x565, 3);
    shim_qp_t qp = { .pd = shim_find_number(SHIM_PD, field(in, 0x28, 24)),
                     .send_cq = shim_find_number(SHIM_CQ, field(in, 0x3e8, 24)),
                     .recv_cq = shim_find_number(SHIM_CQ, field(in, 0x4e8, 24)),
                     .srq = kind == SHARED_RQ ? shim_find_number(SHIM_SRQ, field(in, 0x568, 24))
                                              : NULL };
    unsigned log_rq = field(in, 0x49, 4), rq_stride = 16u << field(in, 0x4d, 3),
             log_sq = field(in, 0x51, 4);
    uint64_t rq_bytes = kind == NORMAL_RQ ? (uint64_t)rq_stride << log_rq : 0,
             sq_bytes = (uint64_t)PGASI_WQE_BB << log_sq;
    uint32_t flags = field(in, 0x49d, 3);
    uint64_t ring =
        umem_part(context, (uint32_t)bits(in, 0x840, 32), bits(in, 0x800, 64), rq_bytes + sq_bytes);
    uint64_t record = umem_part(context, field(in, 0x720, 32), bits(in, IN_CONTEXT + 0x500, 64), 8);
    if (!qp.pd || !qp.send_cq || !qp.recv_cq || (kind == SHARED_RQ && !qp.srq) ||
        field(in, 0x8, 8) || !field(in, 0x13, 2) || !ring || !record || !bits(in, 0x860, 1) ||
        !field(in, 0x683, 1) || (flags && !context->card->chains) ||
        !shim_find(context, SHIM_UAR, field(in, 0x68, 24)) || 1u << log_sq > PGASI_SNIC_QUEUE_MAX)
        return BAD_PARAMETER;
    qp.opts = (pgasi_snic_qp_opts_t){
        .log_sq_blocks = log_sq,
        .log_rq_entries = kind == NORMAL_RQ ? log_rq : 0,
        .rq_stride = kind == NORMAL_RQ ? rq_stride : 0,
        .rq = PGASI_SNIC_ADDRESS(ring),
        .sq = PGASI_SNIC_ADDRESS(ring + rq_bytes),
        .record = PGASI_SNIC_ADDRESS(record),
        .flags = PGASI_SNIC_CHECK_OVERRUN | (flags & 1 ? PGASI_SNIC_MASTER : 0) |
                 (flags & 2 ? PGASI_SNIC_MANAGED_SEND : 0) |
                 (flags & 4 ? PGASI_SNIC_MANAGED_RECV : 0),
    };
    shim_object_t *object = shim_qp_new(context, &qp);
    if (!object)
        return NO_RESOURCES;
    object->record = (uint32_t *)(uintptr_t)record;
    *object_p = object;
    return 0;
}

static int create(shim_context_t *context, hdr_t *hdr)
{
    attr_t *in_attr = attribute(hdr, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    attr_t *out_attr = attribute(hdr, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT);
    enum { IN_BYTES = 0x110, OUT_BYTES = 16 };
    if (!in_attr || !out_attr || in_attr->len < IN_BYTES || out_attr->len < OUT_BYTES)
        return EINVAL;
    const unsigned char *in = (const unsigned char *)(uintptr_t)in_attr->data;
    unsigned char out[OUT_BYTES] = { 0 };
    if (bits(in, IN_OPCODE, 16) != CREATE_QP)
        return EOPNOTSUPP;
    shim_object_t *qp = NULL;
    int status = create_qp(context, in, &qp);
    set_bits(out, OUT_STATUS, 8, (uint64_t)status);
    if (qp) {
        set_bits(out, OUT_QPN, 24, qp->number);
        answer_handle(hdr, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, qp);
    }
    answer(hdr, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out, sizeof out);
    return status ? EREMOTEIO : 0;
}

static uint32_t route(const shim_context_t *context, const unsigned char *in, uint32_t qpn)
{
    enum { PATH = 0xc0 };
    if (!context->card->ethernet)
        return shim_route_lid(context, (uint16_t)field(in, PATH + 0x30, 16), qpn);
    unsigned char gid[16], mac[6];
    for (unsigned k = 0; k < sizeof gid; k++)
        gid[k] = (unsigned char)field(in, PATH + 0x80 + 8 * k, 8);
    for (unsigned k = 0; k < sizeof mac; k++)
        mac[k] = (unsigned char)field(in, PATH + 0x130 + 8 * k, 8);
    int gid_index = (int)field(in, PATH + 0x48, 8);
    bool v2 = gid_index < context->card->n_gids && context->card->gid_v2[gid_index];
    if (v2 && (!field(in, PATH + 0x110, 16) || !field(in, PATH + 0x58, 8)))
        return 0; /* no port, or no hop: such packets are dropped */
    return shim_route_gid(context, gid_index, gid, mac, qpn);
}

static int modify_qp(shim_context_t *context, shim_object_t *qp, const unsigned char *in)
{
    pgasi_snic_qp_state_t values = { .access = qp->access };
    int state;
    switch (bits(in, IN_OPCODE, 16)) {
    case RST2INIT_QP:
        qp->access = values.access = (field(in, 0x490, 1) ? PGAS_VERBS_REMOTE_READ : 0) |
                                     (field(in, 0x491, 1) ? PGAS_VERBS_REMOTE_WRITE : 0) |
                                     (field(in, 0x492, 1) ? PGAS_VERBS_REMOTE_ATOMIC : 0) |
                                     PGAS_VERBS_LOCAL_WRITE;
        values.state = PGASI_SNIC_INIT;
        state = IBV_QPS_INIT;
        if (field(in, 0xc0 + 0x128, 8) != 1 || field(in, 0x13, 2) != 3)
            return EINVAL;
        break;
    case INIT2RTR_QP:
        values.state = PGASI_SNIC_RTR;
        state = IBV_QPS_RTR;
        values.peer_qpn = route(context, in, field(in, 0xa8, 24));
        values.psn_in = field(in, 0x4a8, 24);
        values.reads_max_in = 1u << field(in, 0x488, 3);
        if (!field(in, 0x40, 3))
            return EINVAL;
        break;
    case RTR2RTS_QP:
        values.state = PGASI_SNIC_RTS;
        state = IBV_QPS_RTS;
        values.psn = field(in, 0x3c8, 24);
        values.reads_max = 1u << field(in, 0x388, 3);
        values.retry = field(in, 0x38d, 3);
        values.rnr_retry = field(in, 0x390, 3);
        break;
    case TO_ERROR_QP:
        values.state = PGASI_SNIC_ERROR;
        state = IBV_QPS_ERR;
        break;
    case TO_RESET_QP:
        values.state = PGASI_SNIC_RESET;
        state = IBV_QPS_RESET;
        break;
    default:
        return EOPNOTSUPP;
    }
    return shim_qp_modify(qp, state, &values);
}

static int modify(shim_context_t *context, hdr_t *hdr)
{
    attr_t *in_attr = attribute(hdr, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN);
    shim_object_t *qp =
        shim_find(context, SHIM_QP, handle_of(hdr, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE));
    enum { IN_BYTES = 0x100, IN_SHORT = 16 };
    if (!qp || !in_attr || in_attr->len < IN_SHORT)
        return EINVAL;
    const unsigned char *in = (const unsigned char *)(uintptr_t)in_attr->data;
    uint64_t opcode = bits(in, IN_OPCODE, 16);
    if ((opcode != TO_ERROR_QP && opcode != TO_RESET_QP && in_attr->len < IN_BYTES) ||
        bits(in, IN_QPN, 24) != qp->number)
        return EINVAL;
    int error = modify_qp(context, qp, in);
    unsigned char out[16] = { 0 };
    set_bits(out, OUT_STATUS, 8, error ? BAD_STATE : 0);
    answer(hdr, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, out, sizeof out);
    return error ? EREMOTEIO : 0;
}

/* Capabilities that are not named here read as 0: not there. */
static int general(shim_context_t *context, hdr_t *hdr)
{
    attr_t *in_attr = attribute(hdr, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
    attr_t *out_attr = attribute(hdr, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);
    if (!in_attr || !out_attr || in_attr->len < 16 || out_attr->len < 16)
        return EINVAL;
    /* Short input is in the attribute itself. */
    const unsigned char *in =
        in_attr->len <= 8 ? (void *)&in_attr->data : (void *)(uintptr_t)in_attr->data;
    unsigned char *out = (void *)(uintptr_t)out_attr->data;
    memset(out, 0, out_attr->len);
    out_attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    enum { CURRENT = 1, OUT_CAP = 0x80, CAP_CD = 0x22c };
    if (bits(in, IN_OPCODE, 16) != QUERY_HCA_CAP || bits(in, IN_OP_MOD, 16) > CURRENT) {
        set_bits(out, OUT_STATUS, 8, BAD_PARAMETER);
        return EREMOTEIO;
    }
    if (8 * out_attr->len > OUT_CAP + CAP_CD)
        set_bits(out, OUT_CAP + CAP_CD, 1, context->card->chains);
    return 0;
}

static int general_object(shim_context_t *context, hdr_t *hdr)
{
    uint32_t one = 1;
    switch (hdr->method_id) {
    case MLX5_IB_METHOD_DEVX_OTHER:
        return general(context, hdr);
    case MLX5_IB_METHOD_DEVX_QUERY_EQN:
        answer(hdr, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, &one, sizeof one);
        return 0;
    default:
        return EPROTONOSUPPORT;
    }
}

int shim_ioctl(shim_context_t *context, hdr_t *hdr)
{
    switch (hdr->object_id) {
    case MLX5_IB_OBJECT_UAR:
        return hdr->method_id == MLX5_IB_METHOD_UAR_OBJ_ALLOC
                   ? alloc_uar(context, hdr)
                   : destroy(context, hdr, SHIM_UAR, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE);
    case MLX5_IB_OBJECT_DEVX_UMEM:
        return hdr->method_id == MLX5_IB_METHOD_DEVX_UMEM_REG
                   ? reg_umem(context, hdr)
                   : destroy(context, hdr, SHIM_UMEM, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE);
    case MLX5_IB_OBJECT_DEVX:
        return general_object(context, hdr);
    case MLX5_IB_OBJECT_DEVX_OBJ:
        switch (hdr->method_id) {
        case MLX5_IB_METHOD_DEVX_OBJ_CREATE:
            return create(context, hdr);
        case MLX5_IB_METHOD_DEVX_OBJ_MODIFY:
            return modify(context, hdr);
        case MLX5_IB_METHOD_DEVX_OBJ_DESTROY:
            return destroy(context, hdr, SHIM_QP, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
        default:
            return EPROTONOSUPPORT;
        }
    default:
        return EPROTONOSUPPORT; /* libibverbs then writes a command */
    }
}
