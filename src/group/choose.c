/* The way of a client: the one that was asked for, or the first one that all have. */
#include "group/client.h"

#include "base/log.h"
#include "group/device.h"

typedef enum { HAS_IT, LACKS_IT, OTHER_DEVICE } answer_t;

static answer_t ask(pgas_group_way_t way, uint32_t ways, const char *provider, const char *own)
{
    if ((ways & PGASI_GROUP_HAS(way)) == 0)
        return LACKS_IT;
    bool by_cards = way != PGAS_GROUP_CALLS;
    return by_cards && !pgasi_group_device_connects(provider, own) ? OTHER_DEVICE : HAS_IT;
}

/* @return the first member that lacks the way; -1: this client does; g->n: none */
static int who_lacks(const pgas_group_t *g, pgas_group_way_t way, const char *own,
                     answer_t *answer_p)
{
    uint32_t ways =
        pgasi_group_device_ways(g->dev) | (g->job_ops ? PGASI_GROUP_HAS(PGAS_GROUP_CALLS) : 0);
    *answer_p = ask(way, ways, own, own);
    if (*answer_p != HAS_IT)
        return -1;
    for (uint32_t i = 0; i < g->n; i++) {
        const pgasi_group_welcome_t *w = &g->links[i].welcome;
        *answer_p = ask(way, w->ways, w->provider, own);
        if (*answer_p != HAS_IT)
            return (int)i;
    }
    return (int)g->n;
}

static void explain(const pgas_group_t *g, pgas_group_way_t way, int i, answer_t answer)
{
    const char *name = i < 0 ? "this client" : g->links[i].name.address;
    if (answer == OTHER_DEVICE)
        PGASI_ERROR("group",
                    "%s and this client have devices that do not connect to each other: set "
                    "PGAS_VERBS_DEVICE to the same kind for both",
                    name);
    else if (way == PGAS_GROUP_CALLS)
        PGASI_ERROR("group",
                    "%s does not have the way calls: only ranks of a job have it, see "
                    "pgas_group_create",
                    name);
    else if (way == PGAS_GROUP_CHAIN)
        PGASI_ERROR("group",
                    "%s does not have the way chain, because its device has no WAIT and ENABLE: "
                    "use the way verbs (PGAS_GROUP_WAY), or another device (PGAS_VERBS_DEVICE)",
                    name);
    else
        PGASI_ERROR("group",
                    "%s does not have the way verbs, because it has no device: set "
                    "PGAS_VERBS_DEVICE",
                    name);
}

pgas_status_t pgasi_group_choose_way(pgas_group_t *g, pgas_group_way_t wanted)
{
    pgas_verbs_info_t info = { .size = sizeof info };
    answer_t answer;
    if (g->dev && pgas_verbs_info(g->dev, &info) != PGAS_OK)
        info.provider[0] = '\0';
    for (int way = PGAS_GROUP_CHAIN; way <= PGAS_GROUP_CALLS; way++) {
        bool may_be = wanted == PGAS_GROUP_AUTO || (int)wanted == way;
        if (may_be && who_lacks(g, (pgas_group_way_t)way, info.provider, &answer) == (int)g->n) {
            g->way = (pgas_group_way_t)way;
            return PGAS_OK;
        }
    }
    pgas_group_way_t way = wanted != PGAS_GROUP_AUTO ? wanted : PGAS_GROUP_VERBS;
    int i = who_lacks(g, way, info.provider, &answer);
    explain(g, way, i, answer);
    return PGAS_ERR_UNSUPPORTED;
}
