/* Rails: the devices of a rank. PGAS_VERBS_DEVICE lists them, and a place in the list is the same
 * rail on all ranks. A connection uses one rail, at both ends.
 *
 * The rule. The connecting rank takes a rail that both ranks have and whose port is active. Rails
 * whose device is as near to the rank as the nearest one (by hwloc) take its connections in turn.
 * The first connection of context c of rank r takes number (r + c) modulo the number of these
 * rails. The next connection of the context takes the next rail. A farther rail takes connections
 * only if no near one can. So ranks, contexts and peers spread over the near devices.
 *
 * Memory is registered with each rail, because the peer chooses the rail of a connection. */
#include "verbs_backend/transport/inside.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    char names[PGASI_VERBS_RAILS_MAX][80];
    int n;
} list_t;

static bool is_hardware(const pgas_verbs_info_t *info)
{
    return strcmp(info->provider, "snic") != 0;
}

static int distance_to(const pgasi_verbs_tp_t *tp, const char *device)
{
    return tp->opts.device_distance ? tp->opts.device_distance(device) : 0;
}

/* Adds all active ports of cards; with `one` only the nearest of them. */
static pgas_status_t find_ports(const pgasi_verbs_tp_t *tp, bool one, list_t *list)
{
    int n = 0, least = INT32_MAX;
    pgas_status_t status = pgasi_verbs_list(NULL, 0, &n);
    pgas_verbs_info_t *infos =
        status == PGAS_OK ? calloc((size_t)PGASI_MAX(n, 1), sizeof infos[0]) : NULL;
    if (!infos)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    int n_room = n;
    status = pgasi_verbs_list(infos, n_room, &n);
    for (int i = 0; status == PGAS_OK && i < PGASI_MIN(n, n_room); i++) {
        int distance = distance_to(tp, infos[i].name);
        if (!is_hardware(&infos[i]) || !infos[i].active || (one && distance >= least))
            continue;
        least = PGASI_MIN(least, distance);
        if (list->n == PGASI_VERBS_RAILS_MAX) {
            PGASI_WARN("verbs", "port %s:%d is not used: a rank uses at most %d ports",
                       infos[i].name, infos[i].port, PGASI_VERBS_RAILS_MAX);
            continue;
        }
        int at = one ? 0 : list->n;
        snprintf(list->names[at], sizeof list->names[at], "%s:%d", infos[i].name, infos[i].port);
        list->n = at + 1;
    }
    free(infos);
    if (status == PGAS_OK && list->n == 0)
        snprintf(list->names[list->n++], sizeof list->names[0], "snic");
    return status;
}

static pgas_status_t add_name(list_t *list, const char *name, size_t bytes)
{
    while (bytes > 0 && isspace((unsigned char)*name)) {
        name++;
        bytes--;
    }
    while (bytes > 0 && isspace((unsigned char)name[bytes - 1]))
        bytes--;
    if (bytes == 0 || bytes >= sizeof list->names[0])
        return PGAS_ERR_INVALID;
    if (list->n == PGASI_VERBS_RAILS_MAX)
        return PGAS_ERR_LIMIT;
    snprintf(list->names[list->n++], sizeof list->names[0], "%.*s", (int)bytes, name);
    return PGAS_OK;
}

static pgas_status_t make_list(const pgasi_verbs_tp_t *tp, list_t *list)
{
    const char *text = tp->params.verbs_device;
    pgas_status_t status = PGAS_OK;
    list->n = 0;
    if (text[0] == '\0' || strcmp(text, "all") == 0)
        return find_ports(tp, text[0] == '\0', list);
    for (const char *comma; status == PGAS_OK && (comma = strchr(text, ',')); text = comma + 1)
        status = add_name(list, text, (size_t)(comma - text));
    return status == PGAS_OK ? add_name(list, text, strlen(text)) : status;
}

static pgas_status_t open_rail(pgasi_verbs_tp_t *tp, const char *name)
{
    static const pgas_verbs_engine_t engines[] = { PGAS_VERBS_ENGINE_CALLER,
                                                   PGAS_VERBS_ENGINE_THREAD,
                                                   PGAS_VERBS_ENGINE_PROCESS };
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgasi_verbs_rail_t *rail = &tp->rails[tp->n_rails];
    opts.device = name;
    opts.gid_index = tp->params.verbs_gid_index;
    opts.engine = engines[tp->params.verbs_engine];
    pgas_status_t status = pgas_verbs_open(&opts, &rail->dev);
    if (status != PGAS_OK)
        return status;
    tp->n_rails++;
    rail->distance = distance_to(tp, rail->dev->info.name);
    rail->is_active = rail->dev->info.active;
    if (is_hardware(&rail->dev->info) != is_hardware(&tp->rails[0].dev->info)) {
        PGASI_ERROR("verbs",
                    "%s and %s do not reach each other: PGAS_VERBS_DEVICE names cards or "
                    "software NICs, but not both",
                    tp->rails[0].dev->info.name, rail->dev->info.name);
        return PGAS_ERR_MISMATCH;
    }
    return PGAS_OK;
}

/* Rails that are as near as the nearest active one are near. */
static void find_near(pgasi_verbs_tp_t *tp)
{
    int least = INT32_MAX;
    for (int i = 0; i < tp->n_rails; i++)
        if (tp->rails[i].is_active)
            least = PGASI_MIN(least, tp->rails[i].distance);
    for (int i = 0; i < tp->n_rails; i++) {
        pgasi_verbs_rail_t *rail = &tp->rails[i];
        rail->is_near = rail->is_active && rail->distance == least;
        tp->address.rails |= (uint8_t)(rail->is_active ? 1u << i : 0);
        if (!rail->is_active && tp->n_rails > 1)
            PGASI_WARN("verbs", "port %s:%d is down: other devices take its connections",
                       rail->dev->info.name, rail->dev->info.port);
    }
    if (tp->n_rails == 1) { /* the port may become active later */
        tp->rails[0].is_near = true;
        tp->address.rails = 1;
    }
}

pgas_status_t pgasi_verbs_rails_open(pgasi_verbs_tp_t *tp)
{
    list_t list;
    const char *name = tp->params.verbs_device;
    pgas_status_t status = make_list(tp, &list);
    for (int i = 0; status == PGAS_OK && i < list.n; i++) {
        name = list.names[i];
        status = open_rail(tp, name);
    }
    if (status == PGAS_OK) {
        tp->dev = tp->rails[0].dev;
        find_near(tp);
        return PGAS_OK;
    }
    PGASI_ERROR("verbs",
                "opening the device %s failed: %s; `pgas_info --devices` lists the devices, "
                "PGAS_VERBS_DEVICE selects up to %d, separated by commas",
                name, pgas_status_text(status), PGASI_VERBS_RAILS_MAX);
    pgasi_verbs_rails_close(tp);
    return status;
}

void pgasi_verbs_rails_close(pgasi_verbs_tp_t *tp)
{
    for (int i = 0; i < tp->n_rails; i++) {
        const pgasi_verbs_rail_t *rail = &tp->rails[i];
        PGASI_INFO("verbs", "device %d (%s:%d): %llu connections with %llu requests", i,
                   rail->dev->info.name, rail->dev->info.port,
                   (unsigned long long)rail->n_connections, (unsigned long long)rail->n_requests);
        if (pgas_verbs_close(rail->dev) != PGAS_OK)
            PGASI_WARN("verbs", "memory is still registered: the device stays open");
    }
    tp->n_rails = 0;
}

/* The rail of a set, which is not empty, whose turn it is. */
static int in_turn(const pgasi_verbs_ctx_t *ctx, uint32_t set)
{
    uint32_t skip = ctx->turn % (uint32_t)__builtin_popcount(set);
    while (skip-- > 0)
        set &= set - 1;
    return __builtin_ctz(set);
}

static uint32_t near_rails(const pgasi_verbs_tp_t *tp)
{
    uint32_t near = 0;
    for (int i = 0; i < tp->n_rails; i++)
        near |= tp->rails[i].is_near ? 1u << i : 0;
    return near ? near : 1;
}

int pgasi_verbs_rail_first(const pgasi_verbs_ctx_t *ctx)
{
    return in_turn(ctx, near_rails(ctx->tp));
}

int pgasi_verbs_rail_choose(pgasi_verbs_ctx_t *ctx, const pgasi_verbs_tp_address_t *peer)
{
    const pgasi_verbs_tp_t *tp = ctx->tp;
    uint32_t both = tp->address.rails & peer->rails, near = near_rails(tp), sound = 0;
    for (int i = 0; i < tp->n_rails; i++) {
        bool failed = __atomic_load_n(&tp->rails[i].has_failed, __ATOMIC_RELAXED);
        sound |= failed ? 0 : both & 1u << i;
    }
    sound = sound ? sound : both;
    if (!sound)
        return -1;
    int rail = in_turn(ctx, (sound & near) != 0 ? sound & near : sound);
    ctx->turn++;
    return rail;
}

void pgasi_verbs_rail_failed(pgasi_verbs_tp_t *tp, int i)
{
    pgasi_verbs_rail_t *rail = &tp->rails[i];
    if (tp->n_rails > 1 && !__atomic_exchange_n(&rail->has_failed, true, __ATOMIC_RELAXED))
        PGASI_WARN("verbs", "device %s:%d has failed: new connections use the other devices",
                   rail->dev->info.name, rail->dev->info.port);
}

void pgasi_verbs_rail_count(pgasi_verbs_tp_t *tp, int i, const pgas_verbs_tx_t *tx)
{
    pgas_verbs_tx_info_t info = { .size = sizeof info };
    if (pgas_verbs_tx_info(tx, &info) == PGAS_OK) {
        __atomic_fetch_add(&tp->rails[i].n_connections, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&tp->rails[i].n_requests, info.posted, __ATOMIC_RELAXED);
    }
}

void pgasi_verbs_rails_describe(const pgasi_verbs_tp_t *tp, char *text, size_t bytes)
{
    int at = 0;
    for (int i = 0; i < tp->n_rails && at < (int)bytes; i++) {
        const pgas_verbs_info_t *info = &tp->rails[i].dev->info;
        const char *state = tp->rails[i].is_near ? "" : " (far)";
        at += snprintf(text + at, bytes - (size_t)at,
                       tp->n_rails > 1 ? "%s%s:%d%s" : "%s%s port %d%s", i > 0 ? " + " : "",
                       info->name, info->port, tp->rails[i].is_active ? state : " (down)");
    }
}

/* ---- memory ---- */

pgas_status_t pgasi_verbs_mem_join(pgasi_verbs_tp_t *tp, pgas_verbs_mem_t *mems, int rail,
                                   uint32_t access)
{
    return mems[rail].addr
               ? PGAS_OK
               : pgasi_verbs_register_again(tp->rails[rail].dev, &mems[0], access, &mems[rail]);
}

pgas_status_t pgasi_verbs_mem_join_all(pgasi_verbs_tp_t *tp, pgas_verbs_mem_t *mems,
                                       uint32_t access)
{
    pgas_status_t status = PGAS_OK;
    for (int i = 1; i < tp->n_rails && status == PGAS_OK; i++)
        status = pgasi_verbs_mem_join(tp, mems, i, access);
    return status;
}

void pgasi_verbs_mem_leave(pgasi_verbs_tp_t *tp, pgas_verbs_mem_t *mems)
{
    for (int i = tp->n_rails - 1; i >= 0; i--) /* rail 0 may unmap the memory */
        pgas_verbs_mem_release(tp->rails[i].dev, &mems[i]);
}
