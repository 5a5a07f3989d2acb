/* Devices: the list of providers, and which of them opens a device by its name. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include "base/info_fill.h"
#include "verbs_backend/queue/device.h"

const pgasi_verbs_ops_t *const pgasi_verbs_providers[] = {
#ifdef PGAS_HAVE_MLX5DV
    &pgasi_verbs_mlx5,
#endif
#ifdef PGAS_HAVE_VERBS
    &pgasi_verbs_ibv,
#endif
    &pgasi_verbs_snic,
    NULL,
};

pgas_status_t pgasi_verbs_list(pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    int n = 0;
    pgas_status_t status = PGAS_OK;
    for (int i = 0; status == PGAS_OK && pgasi_verbs_providers[i]; i++)
        status = pgasi_verbs_providers[i]->list(infos, n_max, &n);
    if (status == PGAS_OK)
        *n_p = n;
    return status;
}

/* All ports, which the caller frees. */
static pgas_status_t list_all(pgas_verbs_info_t **infos_p, int *n_p)
{
    int n = 0, n_room;
    pgas_status_t status = pgasi_verbs_list(NULL, 0, &n);
    pgas_verbs_info_t *infos =
        status == PGAS_OK ? calloc((size_t)PGASI_MAX(n, 1), sizeof *infos) : NULL;
    if (!infos)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    n_room = n;
    status = pgasi_verbs_list(infos, n_room, &n);
    if (status != PGAS_OK) {
        free(infos);
        return status;
    }
    *infos_p = infos;
    *n_p = PGASI_MIN(n, n_room);
    return PGAS_OK;
}

pgas_status_t pgas_verbs_list(int i, pgas_verbs_info_t *info_p)
{
    pgas_verbs_info_t *infos;
    int n;
    pgas_status_t status = i < 0 || !info_p ? PGAS_ERR_INVALID : list_all(&infos, &n);
    if (status != PGAS_OK)
        return status;
    status = i < n ? pgasi_info_fill(info_p, &infos[i], sizeof infos[i]) : PGAS_ERR_NOT_FOUND;
    free(infos);
    return status;
}

pgas_status_t pgas_verbs_gid(const char *device, int port, int i, pgas_verbs_gid_t *gid_p)
{
    if (!device || port < 1 || port > 255 || i < 0 || !gid_p)
        return PGAS_ERR_INVALID;
#ifdef PGAS_HAVE_VERBS
    int n = 0;
    pgas_verbs_gid_t *gids = calloc((size_t)i + 1, sizeof *gids);
    if (!gids)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_verbs_gids(device, port, gids, i + 1, &n);
    if (status == PGAS_OK && i >= n)
        status = PGAS_ERR_NOT_FOUND;
    if (status == PGAS_OK)
        *gid_p = gids[i];
    free(gids);
    return status;
#else
    return PGAS_ERR_NOT_FOUND;
#endif
}

/** The parts of a name that the user has given. */
typedef struct {
    const pgasi_verbs_ops_t *ops; /* NULL: the provider that has the device */
    char device[64];
    int port; /* 0: not given */
} name_t;

static const pgasi_verbs_ops_t *find_provider(const char *name, size_t bytes)
{
    for (int i = 0; pgasi_verbs_providers[i] != NULL; i++)
        if (strlen(pgasi_verbs_providers[i]->name) == bytes &&
            strncmp(pgasi_verbs_providers[i]->name, name, bytes) == 0)
            return pgasi_verbs_providers[i];
    return NULL;
}

/* [provider:]device[:port] */
static pgas_status_t parse_name(const char *text, name_t *name_p)
{
    const char *colon = strchr(text, ':');
    memset(name_p, 0, sizeof *name_p);
    if (colon) {
        name_p->ops = find_provider(text, (size_t)(colon - text));
        if (name_p->ops && strcmp(name_p->ops->name, "snic") != 0)
            text = colon + 1;
    }
    colon = strchr(text, ':');
    size_t bytes = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (bytes == 0 || bytes >= sizeof name_p->device)
        return PGAS_ERR_INVALID;
    memcpy(name_p->device, text, bytes);
    if (colon) {
        char *end;
        long port = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end != '\0' || port < 1 || port > 255)
            return PGAS_ERR_INVALID;
        name_p->port = (int)port;
    }
    return PGAS_OK;
}

/* Finds the provider that has the device. Without a name: the first active port. */
static pgas_status_t choose(name_t *name)
{
    pgas_verbs_info_t *infos;
    int n;
    pgas_status_t status = list_all(&infos, &n);
    if (status != PGAS_OK)
        return status;
    const pgas_verbs_info_t *found = NULL;
    for (int i = 0; i < n && !found; i++) {
        bool named = strcmp(infos[i].name, name->device) == 0 &&
                     (name->port == 0 || infos[i].port == name->port);
        if (name->device[0] == '\0' ? infos[i].active : named)
            found = &infos[i];
    }
    status = found ? PGAS_OK : PGAS_ERR_NOT_FOUND;
    if (found) {
        name->ops = find_provider(found->provider, strlen(found->provider));
        memmove(name->device, found->name, sizeof name->device);
        name->port = name->port != 0 || !found->active ? name->port : found->port;
    }
    free(infos);
    return status;
}

/* Copies and checks options. */
static pgas_status_t take_opts(const pgas_verbs_dev_opts_t *given, pgas_verbs_dev_opts_t *opts_p)
{
    *opts_p = (pgas_verbs_dev_opts_t)PGAS_VERBS_DEV_OPTS_INIT;
    if (!given)
        return PGAS_OK;
    if (given->size != sizeof *given)
        return PGAS_ERR_INVALID;
    *opts_p = *given;
    const pgas_verbs_snic_opts_t *snic = given->snic;
    bool sane =
        (unsigned)given->engine <= PGAS_VERBS_ENGINE_PROCESS && given->gid_index >= -1 &&
        (!snic || (snic->size == sizeof *snic && (snic->adversary & ~PGAS_VERBS_SNIC_ALL) == 0));
    return sane ? PGAS_OK : PGAS_ERR_INVALID;
}

pgas_status_t pgas_verbs_open(const pgas_verbs_dev_opts_t *given, pgas_verbs_dev_t **dev_p)
{
    pgas_verbs_dev_opts_t opts;
    name_t name;
    memset(&name, 0, sizeof name);
    pgas_status_t status = !dev_p ? PGAS_ERR_INVALID : take_opts(given, &opts);
    if (status == PGAS_OK && opts.device && opts.device[0] != '\0')
        status = parse_name(opts.device, &name);
    if (status == PGAS_OK && !name.ops)
        status = choose(&name);
    if (status != PGAS_OK)
        return status;
    pgas_verbs_dev_t *dev = NULL;
    status = name.ops->open(&opts, name.device, name.port, &dev);
    if (status == PGAS_OK) {
        dev->ops = name.ops;
        dev->n_open = 0;
        *dev_p = dev;
    }
    return status;
}

pgas_status_t pgas_verbs_close(pgas_verbs_dev_t *dev)
{
    if (!dev)
        return PGAS_OK;
    if (__atomic_load_n(&dev->n_open, __ATOMIC_ACQUIRE) != 0)
        return PGAS_ERR_BUSY;
    dev->ops->close(dev);
    return PGAS_OK;
}

pgas_status_t pgas_verbs_info(const pgas_verbs_dev_t *dev, pgas_verbs_info_t *info_p)
{
    return dev ? pgasi_info_fill(info_p, &dev->info, sizeof dev->info) : PGAS_ERR_INVALID;
}

bool pgas_verbs_snic_step(pgas_verbs_dev_t *dev)
{
    return dev->ops->step && dev->ops->step(dev);
}
