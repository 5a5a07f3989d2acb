/* Devices and settings of groups. Programs that are linked with libpgas-verbs, or that have not
 * called pgas_init, have no parameters yet; then they are loaded into a copy. */
#include "group/device.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "base/spin.h"

const pgas_verbs_dev_opts_t *pgasi_group_dev_opts;
uint32_t pgasi_group_slots_wanted =
    4096; /* 10 ms of pieces: a thread may wait so long for a core */

#define SPINS 64

typedef struct {
    bool is_loaded, engine_is_set;
    int engine, way;
    char device[PGASI_PARAM_TEXT_BYTES], key[PGASI_PARAM_TEXT_BYTES];
} settings_t;

static settings_t take_settings(const pgasi_params_t *p, const pgasi_param_origin_t *origins)
{
    settings_t s = { .is_loaded = true,
                     .engine_is_set =
                         origins[PGASI_PARAM_ID_VERBS_ENGINE] != PGASI_PARAM_FROM_DEFAULT,
                     .engine = p->verbs_engine,
                     .way = p->group_way };
    memcpy(s.device, p->verbs_device, sizeof s.device);
    memcpy(s.key, p->group_key, sizeof s.key);
    return s;
}

static settings_t load_settings(void)
{
    static pgasi_params_t params;
    static pgasi_param_origin_t origins[PGASI_PARAM_COUNT];
    char why[PGASI_PARAM_WHY_BYTES];
    if (pgasi_param_load(&params, origins, why, sizeof why) != PGAS_OK)
        PGASI_WARN("group", "%s", why);
    return take_settings(&params, origins);
}

static settings_t settings(void)
{
    static int lock;
    static settings_t own;
    if (pgasi_param.heap_size != 0) /* loaded */
        return take_settings(&pgasi_param, pgasi_param_origins);
    pgasi_spin_lock(&lock, SPINS);
    if (!own.is_loaded)
        own = load_settings();
    settings_t result = own;
    pgasi_spin_unlock(&lock);
    return result;
}

/* PGAS_VERBS_DEVICE may be a list, or "all", which is for the transport. A group has one device. */
static const char *first_device(char *list)
{
    char *comma = strchr(list, ',');
    if (comma != NULL)
        *comma = '\0';
    return strcmp(list, "all") != 0 ? list : "";
}

pgas_status_t pgasi_group_device_open(const char *device, pgas_verbs_dev_t **dev_p)
{
    static const pgas_verbs_engine_t engines[] = {
        [PGASI_VERBS_ENGINE_CALLER] = PGAS_VERBS_ENGINE_CALLER,
        [PGASI_VERBS_ENGINE_THREAD] = PGAS_VERBS_ENGINE_THREAD,
        [PGASI_VERBS_ENGINE_PROCESS] = PGAS_VERBS_ENGINE_PROCESS
    };
    settings_t s = settings();
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    if (pgasi_group_dev_opts != NULL)
        opts = *pgasi_group_dev_opts;
    else
        opts.engine = s.engine_is_set ? engines[s.engine] : PGAS_VERBS_ENGINE_PROCESS;
    if (device != NULL && device[0] != '\0')
        opts.device = device;
    else if (opts.device == NULL)
        opts.device = first_device(s.device);
    return pgas_verbs_open(&opts, dev_p);
}

uint32_t pgasi_group_device_ways(const pgas_verbs_dev_t *dev)
{
    pgas_verbs_info_t info = { .size = sizeof info };
    if (dev == NULL || pgas_verbs_info(dev, &info) != PGAS_OK)
        return 0;
    return PGASI_GROUP_HAS(PGAS_GROUP_VERBS) |
           (info.chains ? PGASI_GROUP_HAS(PGAS_GROUP_CHAIN) : 0);
}

bool pgasi_group_device_connects(const char *provider, const char *other)
{
    return (strcmp(provider, "snic") == 0) == (strcmp(other, "snic") == 0);
}

pgas_verbs_address_t pgasi_group_qp_address(const pgas_verbs_qp_t *qp)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    pgas_verbs_qp_info(qp, &info);
    return info.address;
}

bool pgasi_group_device_works(pgas_verbs_dev_t *dev)
{
    pgas_verbs_cq_t *cq = NULL;
    pgas_verbs_completion_t none;
    if (pgas_verbs_cq_create(dev, 1, 0, &cq) != PGAS_OK)
        return true; /* it may lack memory only */
    bool works = pgas_verbs_cq_poll(cq, &none, 1) >= 0;
    pgas_verbs_cq_destroy(cq);
    return works;
}

pgas_status_t pgasi_group_key(const char *text, uint8_t key[PGASI_GROUP_KEY_BYTES])
{
    settings_t s = settings();
    const char *from = text != NULL ? text : s.key;
    size_t bytes = strlen(from);
    if (bytes > PGASI_GROUP_KEY_BYTES)
        return PGAS_ERR_INVALID;
    memset(key, 0, PGASI_GROUP_KEY_BYTES);
    memcpy(key, from, bytes);
    return PGAS_OK;
}

pgas_group_way_t pgasi_group_way(void)
{
    return (pgas_group_way_t)settings().way; /* the words are in the order of the enum */
}

uint64_t pgasi_group_random(void)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = pgasi_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32;
    return number != 0 ? number : 1;
}
