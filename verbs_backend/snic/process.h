/** The messages between clients and the process of the software NIC, over its socket. */
#ifndef PGASI_VERBS_SNIC_PROCESS_H
#define PGASI_VERBS_SNIC_PROCESS_H

#include "verbs_backend/snic/inside.h"

#define SNIC_WAKEUP_MAGIC  0x42554853u
#define SNIC_WAKEUP_BYTES  4096
#define SNIC_MESSAGE_MAGIC 0x6d43494eu

/** The wakeup page: shared memory of the executing process, in which clients wake it. */
struct snic_wakeup {
    uint32_t magic, version;
    uint32_t seq __attribute__((aligned(64))); /* futex */
    uint32_t sleeping;
};

/** A client's question. With SNIC_JOIN the client passes its device memory. */
typedef struct {
    uint32_t magic;
    enum { SNIC_JOIN = 1, SNIC_STATUS } kind;
    pgasi_snic_id_t id;
} snic_question_t;

/** The process's answer. As the answer to SNIC_JOIN it passes the wakeup page. */
typedef struct {
    uint32_t magic;
    int32_t status;
    /* for PGAS_ERR_LIMIT: what has run out */
    enum { SNIC_NOTHING, SNIC_TOO_MANY, SNIC_NO_DESCRIPTORS } want;
    uint32_t pid, n_clients, n_clients_max;
    uint64_t up_ns;
} snic_answer_t;

#endif
