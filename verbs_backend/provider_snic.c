/* The provider "snic": queues of our own bytes (raw.h) on the software NIC (engine.h). */
#include "verbs_backend/raw.h"

static pgas_status_t snic_list(pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    if (*n_p < n_max)
        infos[*n_p] = (pgas_verbs_info_t){ .name = "snic", .provider = "snic", .port = 1, .link = "memory", .gid_index = -1,
                                           .numa_node = -1, .chains = true };
    (*n_p)++;
    return PGAS_OK;
}

static pgas_status_t snic_open(const pgas_verbs_dev_opts_t *opts, const char *device, int port, pgas_verbs_dev_t **dev_p)
{
    (void)opts, (void)device, (void)port, (void)dev_p;
    return PGAS_ERR_UNSUPPORTED;
}

const pgasi_verbs_ops_t pgasi_verbs_snic = { .name = "snic", .list = snic_list, .open = snic_open };
