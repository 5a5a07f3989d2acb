/** The control messages of groups over TCP: encoded, checked and decoded without I/O. Clients send
 *  requests, replicas answer each one, in order. A replica sends notices between answers.
 *
 *  A message is a head and a body of at most PGASI_GROUP_BODY_MAX bytes. All fields are
 *  little-endian and of fixed size; a peer with another byte order fails by the magic number. */
#ifndef PGASI_GROUP_WIRE_H
#define PGASI_GROUP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "group/program.h"
#include "pgas/verbs.h"

#define PGASI_GROUP_MAGIC      0x67736770u
#define PGASI_GROUP_VERSION    1u
#define PGASI_GROUP_BODY_MAX   (256u << 10)
#define PGASI_GROUP_KEY_BYTES  64u
#define PGASI_GROUP_NAME_BYTES 64u   /* "ADDR:PORT" */
#define PGASI_GROUP_OLD_MAX    2048u /* old words in a message: no window is larger */

typedef struct {
    uint32_t magic;
    uint16_t version;
    uint16_t type;   /* pgasi_group_type_t */
    uint32_t bytes;  /* of the body */
    uint32_t number; /* the request's, repeated in its answer; 0: a notice */
} pgasi_group_head_t;

/* request -> answer; REFUSED answers any request */
typedef enum {
    PGASI_GROUP_HELLO = 1, /* hello_t -> WELCOME: the first request of a connection */
    PGASI_GROUP_WELCOME,   /* welcome_t with members */
    PGASI_GROUP_MEMBERS,   /* members_t -> DONE, or REFUSED with PGAS_ERR_EXISTS: a newer list */
    PGASI_GROUP_OPEN,      /* open_t -> OPENED: makes the queues of one chain, ends a former one */
    PGASI_GROUP_OPENED,    /* opened_t with old words */
    PGASI_GROUP_CONNECT,   /* connect_t -> DONE: connected, and all slots are armed */
    PGASI_GROUP_CLOSE,     /* empty -> DONE: ends the chain, if there is one */
    PGASI_GROUP_LEAVE,     /* empty -> DONE: CLOSE, and the replica forgets the client */
    PGASI_GROUP_READ,      /* read_t -> DATA: bytes of the region, at most 64 KiB (dump, copies) */
    PGASI_GROUP_DATA,      /* the bytes */
    PGASI_GROUP_STATE,     /* empty -> STATE: state_t */
    PGASI_GROUP_COPY,      /* copy_t -> DONE: fetch the region from another replica */
    PGASI_GROUP_TRACK,     /* empty -> DONE: note changed ranges for this connection from now on */
    PGASI_GROUP_CHANGED,   /* empty -> CHANGED: ranges since the last time, as range_t[] */
    PGASI_GROUP_TABLE,     /* table_t -> RECORD: the replica's record of one client */
    PGASI_GROUP_RECORD,    /* record_t with old words */
    PGASI_GROUP_DONE,      /* empty */
    PGASI_GROUP_REFUSED,   /* refused_t */
    PGASI_GROUP_NOTICE,    /* notice_t, number 0: the chain has been closed, or is broken */
    PGASI_GROUP_N_TYPES
} pgasi_group_type_t;

typedef struct {
    uint8_t key[PGASI_GROUP_KEY_BYTES]; /* zeros behind the text */
    uint64_t client;                    /* random, of this client or copying replica */
    uint32_t is_replica;                /* 1: it copies the region and never opens a chain */
    uint32_t reserved;
} pgasi_group_hello_t;

typedef struct {
    uint64_t id; /* of the replica, random, fixed for its life */
    char address[PGASI_GROUP_NAME_BYTES];
} pgasi_group_name_t;

#define PGASI_GROUP_HAS(way) (1u << (way)) /* of pgas_group_way_t */
typedef struct {
    uint64_t id;
    uint64_t region_bytes;
    uint64_t epoch; /* 0: no list yet, follow `next` */
    uint32_t ways;  /* PGASI_GROUP_HAS bits */
    uint32_t n_members;
    uint32_t flags; /* PGASI_GROUP_FREEZE: it opens no chains now */
    uint32_t reserved;
    char next[PGASI_GROUP_NAME_BYTES]; /* "": none */
    char provider[16];                 /* of its device, or "" */
    /* pgasi_group_name_t members[n_members] follow */
} pgasi_group_welcome_t;

#define PGASI_GROUP_FREEZE 1u /* closes all chains and opens none until a list comes without it */
typedef struct {
    uint64_t epoch; /* see members.h */
    uint32_t flags;
    uint32_t n_members;
    /* pgasi_group_name_t members[n_members] follow */
} pgasi_group_members_t;

typedef struct {
    uint64_t epoch; /* this, n and position must fit the replica's list: otherwise REFUSED with
                       PGAS_ERR_AGAIN */
    uint64_t first; /* pieces of this client that are complete: the chain begins behind them. More
                       than the replica has executed: REFUSED with PGAS_ERR_RANGE */
    uint32_t way;
    uint32_t slots; /* a power of two, at least the window */
    uint32_t piece; /* bytes */
    uint32_t n, position;
    uint32_t reserved;
} pgasi_group_open_t;

typedef struct {
    pgasi_group_member_t member;
    pgas_verbs_address_t prev, next, control; /* the replica's queue pairs; calls: zeros */
    uint64_t status;                          /* pgasi_group_status_t, which the client reads */
    uint32_t status_rkey;
    int32_t rank;      /* way calls; otherwise -1 */
    uint64_t executed; /* pieces of this client since its start, at least `first` */
    uint32_t n_old;    /* words that follow: of the pieces executed - n_old .. executed - 1 */
    uint32_t reserved;
} pgasi_group_opened_t;

/** Words in the replica's memory that the client reads by its control queue pair. */
typedef struct {
    uint64_t armed;     /* pieces below this number can be taken */
    uint64_t n_refills; /* of this chain */
    uint64_t refill_ns;
    uint64_t error; /* a negative pgas_status_t: the chain is broken here */
} pgasi_group_status_t;

typedef struct {
    pgas_verbs_address_t prev, next, control; /* the peers of the replica's queue pairs */
    int32_t next_rank, client_rank;           /* way calls; next_rank -1: this is the last one */
} pgasi_group_connect_t;

typedef struct {
    uint64_t offset;
    uint64_t bytes;
} pgasi_group_range_t; /* READ, CHANGED */

typedef struct {
    uint64_t epoch, n_executed, n_refills, refill_ns;
    uint32_t n_clients, reserved;
} pgasi_group_state_t;

typedef struct {
    char from[PGASI_GROUP_NAME_BYTES];
    uint32_t is_last; /* 0: the whole region, then changed ranges until they are few; 1: the rest */
    uint32_t reserved;
} pgasi_group_copy_t;

typedef struct {
    uint64_t index; /* from 0 */
} pgasi_group_table_t;

typedef struct {
    uint64_t client; /* 0: there is no such record */
    uint64_t executed;
    uint32_t n_old; /* words that follow, as in opened_t */
    uint32_t reserved;
} pgasi_group_record_t;

typedef struct {
    int32_t status;
    char reason[124];
} pgasi_group_refused_t;

typedef struct {
    int32_t status; /* PGAS_OK: the list of members has changed; otherwise the chain is broken */
    uint32_t reserved;
    uint64_t epoch;
} pgasi_group_notice_t;

/** Checks a head. @return the bytes of the body; -1: not a message of this version */
int64_t pgasi_group_head_check(const pgasi_group_head_t *head);

/** Checks a whole message: lengths, counts, texts that end, ways, powers of two.
 *  @return PGAS_OK
 *          PGAS_ERR_FORMAT  malformed
 *          PGAS_ERR_LIMIT   more than a stated limit */
pgas_status_t pgasi_group_message_check(uint16_t type, const void *body, uint32_t bytes);

#endif
