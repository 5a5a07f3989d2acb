/** The software NIC beyond pgas/verbs.h: its process, and knobs for tests that expose programs
 *  that rely on more than hardware promises. */
#ifndef PGAS_VERBS_SNIC_H
#define PGAS_VERBS_SNIC_H

#include "pgas/verbs.h"

PGAS_BEGIN_DECLS

#define PGAS_VERBS_SNIC_PREFETCH 1u /* unmanaged entries are read when their doorbell rings */
#define PGAS_VERBS_SNIC_SHUFFLE  2u /* queue pairs take turns at random, after each step */
#define PGAS_VERBS_SNIC_DELAY    4u /* data, completion, visibility to other queues: own steps */
#define PGAS_VERBS_SNIC_WRAP     8u /* all indices start just before they wrap */
#define PGAS_VERBS_SNIC_ALL      15u

/** For pgas_verbs_dev_opts_t.snic, which needs it only during pgas_verbs_open. */
typedef struct pgas_verbs_snic_opts {
    size_t size;
    uint32_t adversary; /* PGAS_VERBS_SNIC_ bits */
    uint64_t seed;      /* of adversary and step; 0: from the clock. The log has it at level info */
    bool step; /* only pgas_verbs_snic_step executes, in an order that the seed determines */
} pgas_verbs_snic_opts_t;

/** Executes one step of a device opened with `step`. @return whether there was something to do */
PGAS_API bool pgas_verbs_snic_step(pgas_verbs_dev_t *dev);

/** Runs the node's software NIC in the calling process, for devices with the engine PROCESS, until
 *  it has had no client for idle_us. The program pgas_snic calls it. NULL is the name "default".
 *  @return PGAS_ERR_EXISTS  a process of this name runs
 *          PGAS_ERR_IO      a system call failed */
PGAS_API pgas_status_t pgas_verbs_snic_serve(const char *name, int64_t idle_us);

typedef struct {
    size_t size;
    int pid;
    int n_clients; /* devices that are open; each counts as one client */
    int n_clients_max;
    uint64_t up_us; /* time since its start */
} pgas_verbs_snic_info_t;

/** Queries the software NIC's process of this node and user, but never starts one.
 *  @return PGAS_ERR_NOT_FOUND  no such process runs
 *          PGAS_ERR_TIMEOUT    the process does not answer within some 15 seconds
 *          PGAS_ERR_IO         the process belongs to another user, or its answer is invalid */
PGAS_API pgas_status_t pgas_verbs_snic_info(const char *name, pgas_verbs_snic_info_t *info_p);

PGAS_END_DECLS
#endif
