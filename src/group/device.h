/** The settings of groups in the environment, and the devices that groups open. */
#ifndef PGASI_GROUP_DEVICE_H
#define PGASI_GROUP_DEVICE_H

#include "group/wire.h"
#include "pgas/verbs.h"

/** For tests: options of all devices that are opened from now on, also their engine. NULL: none. */
extern const pgas_verbs_dev_opts_t *pgasi_group_dev_opts;

/** Pieces for which replicas have entries ready, unless the window needs more or there is no room
 *  for their data. Tests lower it, so that entries are used again soon. */
extern uint32_t pgasi_group_slots_wanted;

/** Opens the device of a client or replica. The software NIC runs in a process of its own, unless
 *  PGAS_VERBS_ENGINE is set.
 *  @param device  NULL or "": PGAS_VERBS_DEVICE, else the first active port, hardware first
 *  @return as pgas_verbs_open */
pgas_status_t pgasi_group_device_open(const char *device, pgas_verbs_dev_t **dev_p);

/** The ways that an open device has, as PGASI_GROUP_HAS bits; NULL: none. */
uint32_t pgasi_group_device_ways(const pgas_verbs_dev_t *dev);

/** Whether the device still executes requests. The software NIC's process may have ended. */
bool pgasi_group_device_works(pgas_verbs_dev_t *dev);

/** Whether devices of two providers connect to each other. Cards that libibverbs knows do so with
 *  any provider. The software NIC connects to itself only. */
bool pgasi_group_device_connects(const char *provider, const char *other);

/** The address of a queue pair. */
pgas_verbs_address_t pgasi_group_qp_address(const pgas_verbs_qp_t *qp);

/** Fills in a key with zeros behind it. text NULL: PGAS_GROUP_KEY.
 *  @return PGAS_ERR_INVALID  it is too long */
pgas_status_t pgasi_group_key(const char *text, uint8_t key[PGASI_GROUP_KEY_BYTES]);

/** PGAS_GROUP_WAY. */
pgas_group_way_t pgasi_group_way(void);

/** A random number that is not 0. */
uint64_t pgasi_group_random(void);

#endif
