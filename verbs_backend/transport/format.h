/** The data on the network: the address of a rank, and the prefix of messages. */
#ifndef PGASI_VERBS_FORMAT_H
#define PGASI_VERBS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

/** The prefix of each message. The message's header follows, padded to 8 bytes, then the data. */
typedef struct {
    uint32_t cookie;      /* the receiver's, from its address */
    uint32_t inbound;     /* the receiver's number of the queue pair */
    uint8_t kind;         /* PGASI_VERBS_MESSAGE and so on */
    uint8_t header_bytes; /* MESSAGE: bytes of the header; ATOMIC: bytes of the word */
    uint8_t op;           /* pgasi_amo_t */
    uint8_t reserved;
    uint32_t bytes; /* MESSAGE: data bytes of all pieces; ATOMIC: number of the request */
} pgasi_verbs_prefix_t;

enum { PGASI_VERBS_MESSAGE = 1, PGASI_VERBS_MORE, PGASI_VERBS_ATOMIC };

/** An atomic request to the owner of a word. compare is sent for CSWAP only. */
typedef struct {
    uint64_t addr, operand;
    uint32_t mem;  /* pgasi_verbs_mem_t.name */
    uint32_t slot; /* for the reply */
    uint64_t compare;
} pgasi_verbs_amo_request_t;

/** The reply to an atomic request; a card, too, writes an old value there. The reply is complete
 *  when check fits, because it may arrive in two parts. */
typedef struct {
    uint64_t result;
    uint64_t check; /* pgasi_verbs_amo_reply_check of result, number and status */
} pgasi_verbs_amo_reply_t;

uint64_t pgasi_verbs_amo_reply_check(uint64_t result, uint32_t number, bool refused);

#define PGASI_VERBS_HOSTS_MAX 8
/** The address of context 0: how to connect to it, and the data that a sender needs for the first
 *  message. */
typedef struct {
    uint32_t magic;
    uint32_t cookie;  /* before every message */
    uint64_t secret;  /* a connecting rank must send it */
    uint64_t machine; /* boot id, hashed; equal: the ranks can share memory */
    uint64_t network; /* network namespace of the machine; equal: 127.0.0.1 is the same */
    /* software NIC: the address of a byte of process pid, which peers copy to find out whether they
     * may */
    uint64_t sample;
    uint32_t pid;
    uint32_t message_bytes; /* header and data of one message */
    uint8_t is_snic, n_hosts;
    uint8_t rails; /* a bit for each rail whose port is active */
    /* ports at which the rank listens, one for each of these addresses and no other */
    uint16_t ports[PGASI_VERBS_HOSTS_MAX];
    uint8_t hosts[PGASI_VERBS_HOSTS_MAX][16]; /* IPv6, or IPv4 mapped into it */
} pgasi_verbs_tp_address_t;
#define PGASI_VERBS_TP_MAGIC 0x33505456u

#endif
