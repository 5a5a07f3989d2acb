/** The shim: a preloaded object that shows fake mlx5 cards to the stock libibverbs and libmlx5 of
 *  the system, and has the engine of the software NIC execute their requests. It works within one
 *  process and needs no privileges.
 *
 *  interpose.c  the few functions of libc that those libraries reach the kernel by uverbs.c     the
 *  kernel's commands, as they are written to the device devx.c       the kernel's ioctls for
 *  objects by DEVX: pages of doorbells, memory, queue pairs card.c the objects, and the thread that
 *  polls doorbells: libmlx5 rings by a plain store
 *               to a mapped page
 *
 *  All other ioctls are refused as an old kernel does, so libibverbs falls back to written
 *  commands. */
#ifndef T_SHIM_H
#define T_SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "verbs_backend/snic/snic.h"

#define SHIM_CARDS    5
#define SHIM_CONTEXTS 64
#define SHIM_PAGE     4096

typedef struct {
    bool ethernet;
    bool chains; /* has the capability cd */
    uint16_t lid;
    uint8_t mac[6];
    int n_gids;
    uint8_t gids[4][16];
    bool gid_v2[4];
} shim_card_t;
extern const shim_card_t shim_cards[SHIM_CARDS];

typedef struct shim_object shim_object_t;

/* An opened device file. */
typedef struct {
    int fd; /* of /dev/null; -1: this entry is free */
    const shim_card_t *card;
    shim_object_t *events; /* the channel of asynchronous events: overruns */
} shim_context_t;

typedef enum {
    SHIM_PD = 1,
    SHIM_MR,
    SHIM_CQ,
    SHIM_SRQ,
    SHIM_QP,
    SHIM_AH,
    SHIM_CHANNEL,
    SHIM_UAR,
    SHIM_UMEM
} shim_kind_t;

struct shim_object {
    shim_kind_t kind;
    shim_context_t *context;
    uint32_t handle;
    uint32_t number; /* the engine's: domain, key, cqn, srqn, qpn */
    int n_users;     /* that keep it from being destroyed */
    shim_object_t *uses[4];
    uint32_t *record; /* CQ, SRQ, QP */
    uint32_t seen[2]; /* of the record, as stored there */
    /* CQ */
    uint64_t user_handle;
    /* CQ: from the engine to us; CHANNEL: from us to the program (its own copy is closed by it) */
    int pipe[2];
    uint32_t n_events; /* put into the channel */
    bool dead;         /* has overrun, and the context's channel says so */
    /* QP */
    bool managed_send;
    uint32_t access;
    int state; /* enum ibv_qp_state */
    /* send and receive requests, spans of both, inline bytes: as they were asked for */
    uint32_t caps[5];
    /* UAR, UMEM */
    unsigned char *page;
    int page_fd;
    uint64_t bells[8]; /* seen last in the registers from 0x800 on */
    uint64_t addr, bytes;
};

/* ---- card.c; all of it under the lock of shim_begin and shim_end ---- */

void shim_begin(void);
void shim_end(void);
/** The engine; opens it and starts the thread the first time. NULL: neither is possible */
pgasi_snic_t *shim_engine(void);
shim_object_t *shim_new(shim_context_t *context, shim_kind_t kind);
void shim_use(shim_object_t *user, shim_object_t *used);
shim_object_t *shim_find(const shim_context_t *context, shim_kind_t kind, uint32_t handle);
shim_object_t *shim_find_number(shim_kind_t kind, uint32_t number);
/** @return 0, or EBUSY */
int shim_destroy(shim_object_t *object);
/** Everything of a device file that is closed. */
void shim_destroy_all(const shim_context_t *context);
/** Takes a queue's events back that a channel still holds. @return how many */
uint32_t shim_retract_events(const shim_object_t *channel, const shim_object_t *cq,
                             size_t event_bytes);
/** Where the page of a UAR is found by mmap. */
int shim_page_fd(uint32_t page_index);

/* what queue pairs of both kinds are made by */
typedef struct {
    shim_object_t *pd, *send_cq, *recv_cq, *srq;
    pgasi_snic_qp_opts_t opts;
} shim_qp_t;
shim_object_t *shim_qp_new(shim_context_t *context, shim_qp_t *qp);
int shim_qp_modify(shim_object_t *qp, int state, const pgasi_snic_qp_state_t *values);
/** The number of the peer that this address reaches, 0 if it leads nowhere. */
uint32_t shim_route_lid(const shim_context_t *context, uint16_t lid, uint32_t qpn);
uint32_t shim_route_gid(const shim_context_t *context, int gid_index, const uint8_t *gid,
                        const uint8_t *mac, uint32_t qpn);
uint32_t shim_access(uint32_t ibv_access_flags);

/* ---- the kernel's side; 0 or an errno ---- */

struct ib_uverbs_ioctl_hdr;
int shim_write(shim_context_t *context, const void *command, size_t bytes);
int shim_ioctl(shim_context_t *context, struct ib_uverbs_ioctl_hdr *hdr);

#endif
