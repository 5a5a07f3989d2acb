/* t/unit/group_nic.c
 *   what:   When the process of the software NIC has been killed, all replicas and clients of its
 *           node are as dead: operations, re-forming and joining end with PGAS_ERR_PEER soon, and
 *           nothing hangs.
 *   needs:  no-sanitizers
 *   log:    process of the software NIC has ended|own device does not work
 *   source: include/pgas/group.h, docs/groups.md (failures)
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include "group/device.h"
#include "pgas/group.h"
#include "pgas/verbs_snic.h"
#include "t/must.h"
#include "t/tap.h"

#define N        2
#define REGION   65536
#define HANG_S   60
#define LIMIT_US INT64_C(30000000)

static pgas_replica_t *replicas[N];
static pgas_replica_info_t first = { .size = sizeof first };

static void start_replicas(void)
{
    for (int i = N - 1; i >= 0; i--) {
        pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
        opts.listen = "127.0.0.1:0";
        opts.next = i < N - 1 ? first.address : NULL;
        opts.region_bytes = REGION;
        must(pgas_replica_create(&opts, &replicas[i]), "a replica");
        must(pgas_replica_info(replicas[i], &first), "its address");
    }
}

static void kill_nic(const char *name)
{
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    must(pgas_verbs_snic_info(name, &info), "the software NIC's process");
    kill(info.pid, SIGKILL);
}

static void check_way(const char *name, pgas_group_way_t way)
{
    const char *word = way == PGAS_GROUP_CHAIN ? "chain" : "verbs";
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    pgas_group_t *group = NULL, *another = NULL;
    pgas_status_t status;
    opts.way = way;
    start_replicas();
    must(pgas_group_join(first.address, &opts, &group), "the group");
    must(pgas_group_write(group, 0, "x", 1), "a write");
    kill_nic(name);
    while ((status = pgas_group_write(group, 0, "y", 1)) == PGAS_OK)
        ;
    is_int(status, PGAS_ERR_PEER, "%s: operations end with PGAS_ERR_PEER", word);
    is_int(pgas_group_reform(group, LIMIT_US), PGAS_ERR_PEER, "%s: no chain can be formed", word);
    is_int(pgas_group_join(first.address, &opts, &another), PGAS_ERR_PEER,
           "%s: the replicas count as dead, also for a client with another device", word);
    is_int(pgas_group_destroy(group), PGAS_OK, "%s: the client ends", word);
    for (int i = 0; i < N; i++)
        pgas_replica_destroy(replicas[i]);
}

int main(void)
{
    static pgas_verbs_dev_opts_t dev_opts = PGAS_VERBS_DEV_OPTS_INIT;
    char name[32];
    alarm(HANG_S);
    snprintf(name, sizeof name, "group_nic.%d", (int)getpid());
    dev_opts.device = "snic";
    dev_opts.engine = PGAS_VERBS_ENGINE_PROCESS;
    dev_opts.engine_name = name;
    pgasi_group_dev_opts = &dev_opts;
    plan(8);
    check_way(name, PGAS_GROUP_CHAIN);
    check_way(name, PGAS_GROUP_VERBS);
    return done();
}
