/** What goes over the network: the address of a rank, and what a message begins with. */
#ifndef PGASI_VERBS_FORMAT_H
#define PGASI_VERBS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

/** Before each message. The header follows, padded to 8 bytes, then data. */
typedef struct {
    uint32_t cookie;      /* the receiver's, from its address */
    uint32_t inbound;     /* what the receiver calls the queue pair */
    uint8_t kind;         /* PGASI_VERBS_MESSAGE .. */
    uint8_t header_bytes; /* MESSAGE; of an atomic: the word's bytes */
    uint8_t op;           /* pgas_amo_t */
    uint8_t reserved;
    uint32_t bytes; /* MESSAGE: data, of all pieces; of an atomic: its number */
} pgasi_verbs_prefix_t;

enum { PGASI_VERBS_MESSAGE = 1, PGASI_VERBS_MORE, PGASI_VERBS_ATOMIC };

/** A question to the owner of a word. compare is sent for CSWAP only. */
typedef struct {
    uint64_t addr, operand;
    uint32_t mem;  /* pgasi_verbs_mem_t.name */
    uint32_t slot; /* for the answer */
    uint64_t compare;
} pgasi_verbs_amo_request_t;

/** The answer, and where a card puts the old value. It is there when check fits: it may arrive in
 *  two parts. */
typedef struct {
    uint64_t result;
    uint64_t check; /* pgasi_verbs_amo_reply_check of result, number and status */
} pgasi_verbs_amo_reply_t;

uint64_t pgasi_verbs_amo_reply_check(uint64_t result, uint32_t number, bool refused);

#define PGASI_VERBS_HOSTS_MAX 8
/** The address of context 0: how to come to talk with it, and what to know before the first
 *  message. */
typedef struct {
    uint32_t magic;
    uint32_t cookie;  /* in front of every message */
    uint64_t secret;  /* that who connects must know */
    uint64_t machine; /* boot id, hashed: whether memory can be shared */
    uint64_t network; /* network namespace of the machine: whether 127.0.0.1 is the same */
    /* software NIC: address of a byte of process pid; peers copy it to find out whether they may */
    uint64_t sample;
    uint32_t pid;
    uint32_t message_bytes; /* header and data of one message */
    uint8_t is_snic, n_hosts;
    /* where the rank listens: one at each of these addresses, and nowhere else */
    uint16_t ports[PGASI_VERBS_HOSTS_MAX];
    uint8_t hosts[PGASI_VERBS_HOSTS_MAX][16]; /* IPv6, or IPv4 in it */
} pgasi_verbs_tp_address_t;
#define PGASI_VERBS_TP_MAGIC 0x32505456u

#endif
