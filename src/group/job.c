/* Groups of ranks: pgas_group_create and the end of such groups.
 *
 * Each member starts a replica that listens on this host's address, with a key that rank 0 has
 * drawn. When all addresses are known, each replica gets the name of the next one. Then clients
 * join by the address of the first replica, as with any other process. All ranks agree on a status
 * after each step, so that they undo the same steps. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "boot/boot.h"
#include "group/calls.h"
#include "group/client.h"
#include "group/device.h"
#include "group/replica.h"
#include "pgas/coll.h"

#define REGION_BYTES   ((size_t)1 << 20)
#define KEY_TEXT_BYTES 33
#define END_NS         (2 * PGASI_NS_PER_S) /* for clients that leave after a death */
#define END_LOOK_NS    PGASI_NS_PER_MS

/* A rank's part of a group. */
typedef struct {
    pgas_team_t *team;
    int size, n_replicas;
    int place; /* in the chain; -1: this rank is no member */
    bool is_client;
    char key[KEY_TEXT_BYTES];
    pgasi_group_name_t names[PGAS_GROUP_REPLICAS_MAX];
    pgas_replica_t *replica;
    pgas_group_t *group;
} job_t;

/* ---- options ---- */

/* The options that all ranks must give equally, their statuses, and rank 0's key. */
typedef struct {
    uint64_t way, window, piece, full, events, device, timeout, region_bytes, replicas, all_clients;
    uint64_t key[2];
    int64_t status;
} given_t;

static pgas_status_t check_replicas(const pgas_group_opts_t *o, int n)
{
    if (!o->replicas)
        return o->n_replicas ? PGAS_ERR_INVALID : PGAS_OK;
    if (o->n_replicas < 1)
        return PGAS_ERR_INVALID;
    if (o->n_replicas > PGAS_GROUP_REPLICAS_MAX)
        return PGAS_ERR_LIMIT;
    for (int i = 0; i < o->n_replicas; i++) {
        if (o->replicas[i] < 0 || o->replicas[i] >= n)
            return PGAS_ERR_INVALID;
        for (int k = 0; k < i; k++)
            if (o->replicas[k] == o->replicas[i])
                return PGAS_ERR_INVALID;
    }
    return PGAS_OK;
}

static pgas_status_t read_opts(const pgas_group_opts_t *opts, int n, pgas_group_opts_t *o)
{
    pgas_status_t status = pgasi_group_read_opts(opts, o);
    if (status != PGAS_OK)
        return status;
    if (o->region_bytes > PGASI_GROUP_REGION_MAX)
        return PGAS_ERR_LIMIT;
    o->region_bytes = o->region_bytes ? o->region_bytes : REGION_BYTES;
    if (o->way == PGAS_GROUP_AUTO)
        o->way = pgasi_group_way();
    if (!o->replicas && n - 1 > PGAS_GROUP_REPLICAS_MAX)
        return PGAS_ERR_LIMIT;
    return check_replicas(o, n);
}

static given_t describe(const pgas_group_opts_t *o, pgas_status_t status)
{
    given_t g = { .key = { pgasi_group_random(), pgasi_group_random() }, .status = status };
    if (status != PGAS_OK)
        return g;
    g.way = o->way;
    g.window = o->window;
    g.piece = o->piece;
    g.full = o->full;
    g.events = o->events;
    g.device = pgasi_hash_text(o->device ? o->device : "");
    g.timeout = (uint64_t)o->timeout_us;
    g.region_bytes = o->region_bytes;
    if (o->replicas)
        g.replicas = pgasi_hash_bytes(o->replicas, (size_t)o->n_replicas * sizeof(int), 1);
    g.all_clients = o->all_are_clients;
    return g;
}

static pgas_status_t compare(const given_t *all, int n, bool logs)
{
    static const char *const names[] = { "way",      "window",         "piece",      "full",
                                         "events",   "device",         "timeout_us", "region_bytes",
                                         "replicas", "all_are_clients" };
    pgas_status_t worst = PGAS_OK;
    for (int r = 0; r < n; r++)
        worst = PGASI_MIN(worst, (pgas_status_t)all[r].status);
    for (int r = 1; r < n && worst == PGAS_OK; r++) {
        const uint64_t *first = &all[0].way, *other = &all[r].way;
        size_t f = 0;
        while (f < PGASI_ARRAY_LENGTH(names) && first[f] == other[f])
            f++;
        if (f == PGASI_ARRAY_LENGTH(names))
            continue;
        worst = PGAS_ERR_MISMATCH;
        if (!logs)
            return worst;
        PGASI_ERROR("group", "pgas_group_create: the team's ranks 0 and %d give different %s", r,
                    names[f]);
    }
    return worst;
}

/* ---- agreement ---- */

static pgas_status_t agree(const job_t *job, pgas_status_t mine)
{
    int64_t worst = mine;
    pgas_status_t status = pgas_allreduce(job->team, &worst, &worst, 1, PGAS_I64, PGAS_MIN);
    return status == PGAS_OK ? (pgas_status_t)worst : status;
}

static pgas_status_t agree_on_opts(job_t *job, const pgas_group_opts_t *o, pgas_status_t mine)
{
    given_t own = describe(o, mine), *all = malloc((size_t)job->size * sizeof *all);
    pgas_status_t status = agree(job, all ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK)
        status = pgas_allgather(job->team, &own, all, sizeof own);
    if (status == PGAS_OK)
        status = compare(all, job->size, pgas_team_rank(job->team) == 0);
    if (status == PGAS_OK)
        snprintf(job->key, sizeof job->key, "%016" PRIx64 "%016" PRIx64, all[0].key[0],
                 all[0].key[1]);
    free(all);
    return status;
}

/* ---- members ---- */

/* The place of a team's rank in the chain, or -1. */
static int place_of(const job_t *job, const pgas_group_opts_t *o, int rank)
{
    int first = job->size > 1;
    if (!o->replicas)
        return rank >= first ? rank - first : -1;
    for (int i = 0; i < o->n_replicas; i++)
        if (o->replicas[i] == rank)
            return i;
    return -1;
}

/* The ways and the device of a rank, and the name of its replica. */
typedef struct {
    pgasi_group_name_t name; /* of its replica; otherwise the address is empty */
    uint32_t ways;
    char provider[16];
    int64_t status;
} member_t;

static pgas_status_t start_replica(job_t *job, const pgas_group_opts_t *o, const char *host,
                                   member_t *me)
{
    char listen[PGASI_BOOT_ADDRESS_BYTES + 2];
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    snprintf(listen, sizeof listen, "%s:0", host);
    opts.listen = listen;
    opts.region_bytes = o->region_bytes;
    opts.region = o->region;
    opts.key = job->key;
    opts.device = o->device;
    opts.clients_max = (uint32_t)PGASI_MAX(job->size, PGAS_GROUP_REPLICAS_MAX);
    pgas_status_t status = pgasi_replica_make(&opts, o->way != PGAS_GROUP_CALLS, &job->replica);
    if (status != PGAS_OK)
        return status;
    me->name.id = job->replica->id;
    memcpy(me->name.address, job->replica->address, sizeof me->name.address);
    memcpy(me->provider, job->replica->provider, sizeof me->provider);
    me->ways = job->replica->ways;
    return PGAS_OK;
}

/* A client that is no member has the ways of its device. */
static void probe_client(const pgas_group_opts_t *o, member_t *me)
{
    pgas_verbs_dev_t *dev = NULL;
    pgas_verbs_info_t info = { .size = sizeof info };
    me->ways = PGASI_GROUP_HAS(PGAS_GROUP_CALLS);
    if (o->way == PGAS_GROUP_CALLS || pgasi_group_device_open(o->device, &dev) != PGAS_OK)
        return;
    me->ways |= pgasi_group_device_ways(dev);
    if (pgas_verbs_info(dev, &info) == PGAS_OK)
        memcpy(me->provider, info.provider, sizeof me->provider);
    pgas_verbs_close(dev);
}

/* The software NIC connects to itself only, and does not leave its host. */
static bool can_connect(const member_t *all, const bool *takes_part, int n, bool one_host)
{
    int n_parts = 0, n_software = 0;
    for (int r = 0; r < n; r++) {
        n_parts += takes_part[r];
        n_software += takes_part[r] && strcmp(all[r].provider, "snic") == 0;
    }
    return n_software == 0 || (n_software == n_parts && one_host);
}

static pgas_status_t choose_way(pgas_group_opts_t *o, const member_t *all, const bool *takes_part,
                                int n, bool one_host)
{
    uint32_t ways = PGASI_GROUP_HAS(PGAS_GROUP_CALLS);
    if (can_connect(all, takes_part, n, one_host))
        ways |= PGASI_GROUP_HAS(PGAS_GROUP_CHAIN) | PGASI_GROUP_HAS(PGAS_GROUP_VERBS);
    for (int r = 0; r < n; r++)
        if (takes_part[r])
            ways &= all[r].ways;
    for (int way = PGAS_GROUP_CHAIN; way <= PGAS_GROUP_CALLS; way++)
        if ((ways & PGASI_GROUP_HAS(way)) && (o->way == PGAS_GROUP_AUTO || (int)o->way == way)) {
            o->way = (pgas_group_way_t)way;
            return PGAS_OK;
        }
    return PGAS_ERR_UNSUPPORTED;
}

/* Learns the names of all replicas, and gives this rank's replica the name of the next one. */
static void learn_names(job_t *job, const pgas_group_opts_t *o, const member_t *all)
{
    for (int r = 0; r < job->size; r++) {
        int place = place_of(job, o, r);
        if (place >= 0)
            job->names[place] = all[r].name;
    }
    if (!job->replica || job->place + 1 == job->n_replicas)
        return;
    pthread_mutex_lock(&job->replica->lock);
    memcpy(job->replica->next, job->names[job->place + 1].address, sizeof job->replica->next);
    pthread_mutex_unlock(&job->replica->lock);
}

static pgas_status_t exchange(job_t *job, pgas_group_opts_t *o, const member_t *me, bool one_host)
{
    size_t n = (size_t)job->size;
    member_t *all = malloc(n * sizeof *all);
    bool *takes_part = calloc(n, sizeof *takes_part);
    pgas_status_t status = agree(job, all && takes_part ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK)
        status = pgas_allgather(job->team, me, all, sizeof *me);
    for (int r = 0; r < job->size && status == PGAS_OK; r++) {
        status = (pgas_status_t)all[r].status;
        takes_part[r] = place_of(job, o, r) >= 0 || r == 0 || o->all_are_clients;
    }
    if (status == PGAS_OK)
        status = choose_way(o, all, takes_part, job->size, one_host);
    if (status == PGAS_OK) {
        learn_names(job, o, all);
        status = pgas_barrier(job->team);
    }
    if (status == PGAS_ERR_UNSUPPORTED && pgas_team_rank(job->team) == 0)
        PGASI_ERROR("group", "pgas_group_create: some members or clients do not have the way %s",
                    o->way == PGAS_GROUP_CHAIN ? "chain" : "verbs");
    free(all);
    free(takes_part);
    return status;
}

static pgas_status_t make_members(job_t *job, pgas_group_opts_t *o)
{
    char host[PGASI_BOOT_ADDRESS_BYTES];
    bool one_host;
    member_t me;
    memset(&me, 0, sizeof me);
    pgas_status_t status = pgasi_boot_address(job->team, host, &one_host);
    if (status != PGAS_OK)
        return status;
    if (job->place >= 0)
        me.status = start_replica(job, o, host, &me);
    else if (job->is_client)
        probe_client(o, &me);
    return exchange(job, o, &me, one_host);
}

/* ---- clients ---- */

static const pgasi_group_job_ops_t ops;

static pgas_status_t join(job_t *job, const pgas_group_opts_t *o)
{
    pgas_group_opts_t opts = *o;
    opts.key = job->key;
    pgas_status_t status = pgasi_group_make(&opts, &job->group);
    if (status != PGAS_OK)
        return status;
    pgas_group_t *g = job->group;
    g->job_ops = &ops;
    g->job = job;
    if (o->way == PGAS_GROUP_CALLS)
        g->carrier = &pgasi_group_by_calls;
    return pgasi_group_enter(g, job->names[0].address);
}

/* The handle of a rank that is only a member. */
static pgas_status_t make_handle(job_t *job, const pgas_group_opts_t *o)
{
    pgas_group_opts_t opts = *o;
    opts.way = PGAS_GROUP_CALLS; /* it needs no device */
    pgas_status_t status = pgasi_group_make(&opts, &job->group);
    if (status != PGAS_OK)
        return status;
    pgas_group_t *g = job->group;
    g->is_client = false;
    g->way = o->way;
    g->job_ops = &ops;
    g->job = job;
    g->n = (uint32_t)job->n_replicas;
    for (int i = 0; i < job->n_replicas; i++) {
        g->links[i].fd = -1;
        g->links[i].name = job->names[i];
    }
    g->region_bytes = PGASI_ALIGN_UP(o->region_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    g->epoch = 1;
    return PGAS_OK;
}

/* The first client makes the list of members, then the others find it. */
static pgas_status_t make_clients(job_t *job, const pgas_group_opts_t *o)
{
    pgas_status_t status = PGAS_OK;
    bool is_first = pgas_team_rank(job->team) == 0;
    if (is_first)
        status = join(job, o);
    status = agree(job, status);
    if (status == PGAS_OK && !is_first)
        status = agree(job, job->is_client ? join(job, o) : make_handle(job, o));
    else if (status == PGAS_OK)
        status = agree(job, PGAS_OK);
    return status;
}

/* ---- the end ---- */

/* Clients have left, or a rank is dead: then those that are alive have some time to leave. */
static void end_replica(job_t *job, bool some_dead)
{
    static const struct timespec pause = { 0, END_LOOK_NS };
    pgas_replica_info_t info = { .size = sizeof info };
    uint64_t limit = pgasi_now_ns() + END_NS;
    while (some_dead && job->replica && pgasi_now_ns() < limit &&
           pgas_replica_info(job->replica, &info) == PGAS_OK && info.n_clients > 0)
        nanosleep(&pause, NULL);
    pgas_replica_destroy(job->replica);
}

static void free_job(job_t *job, bool some_dead)
{
    if (job->group)
        pgasi_group_free(job->group);
    job->group = NULL;
    some_dead = pgas_barrier(job->team) != PGAS_OK || some_dead;
    end_replica(job, some_dead);
    free(job);
}

/* A replica ends when no client uses it any more. After a death the group ends as well. */
static pgas_status_t destroy(pgas_group_t *g)
{
    job_t *job = g->job;
    pgas_status_t status = pgasi_boot_enter(job->team);
    if (status != PGAS_OK && status != PGAS_ERR_PEER)
        return status;
    if (g->is_client)
        pgasi_group_settle(g);
    free_job(job, status != PGAS_OK);
    return PGAS_OK;
}

static void add_to_info(const pgas_group_t *g, pgas_group_info_t *info)
{
    const job_t *job = g->job;
    pgas_replica_info_t replica = { .size = sizeof replica };
    if (!job->replica || pgas_replica_info(job->replica, &replica) != PGAS_OK)
        return;
    info->region = replica.region;
    if (!g->is_client)
        info->epoch = replica.epoch;
}

static const pgasi_group_job_ops_t ops = { .destroy = destroy, .describe = add_to_info };

/* ---- creation ---- */

static pgas_status_t create(job_t *job, const pgas_group_opts_t *opts)
{
    pgas_group_opts_t o;
    pgas_status_t status = agree_on_opts(job, &o, read_opts(opts, job->size, &o));
    if (status != PGAS_OK)
        return status;
    job->n_replicas = o.replicas ? o.n_replicas : PGASI_MAX(job->size - 1, 1);
    job->place = place_of(job, &o, pgas_team_rank(job->team));
    job->is_client = o.all_are_clients || pgas_team_rank(job->team) == 0;
    pgasi_calls_start();
    status = make_members(job, &o);
    return status == PGAS_OK ? make_clients(job, &o) : status;
}

pgas_status_t pgas_group_create(pgas_team_t *team, const pgas_group_opts_t *opts,
                                pgas_group_t **group_p)
{
    pgas_status_t status = pgasi_boot_enter(team);
    if (status != PGAS_OK)
        return status;
    job_t *job = calloc(1, sizeof *job), none = { .team = team };
    status = job && group_p ? PGAS_OK : PGAS_ERR_INVALID;
    none.size = pgas_team_size(team);
    status = agree(&none, job ? status : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK) {
        free(job);
        return status;
    }
    *job = none;
    status = create(job, opts);
    if (status != PGAS_OK) {
        free_job(job, false);
        return status;
    }
    *group_p = job->group;
    return PGAS_OK;
}
