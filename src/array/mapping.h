/** Mapping entries: inline functions read them to see which accesses a thread may make to a
 *  sub-block.
 *
 *  Every rank has a table with an entry for each sub-block of the array, and a summary of it for
 *  reads. The grant's lock is held in all functions here. Withdrawn entries stop new accesses;
 *  pgasi_array_mapping_wait_left waits for those that have begun. */
#ifndef PGASI_ARRAY_MAPPING_H
#define PGASI_ARRAY_MAPPING_H

#include "array/grant.h"

/** Publishes entries with these rights to the threads of this rank. */
void pgasi_array_mapping_publish(const pgasi_array_site_t *site, uint64_t rights);

/** Withdraws the entries of one rank of the node, of the owner, or of all readers. */
void pgasi_array_mapping_withdraw(const pgasi_array_site_t *site, int node_rank);
void pgasi_array_mapping_withdraw_owner(const pgasi_array_site_t *site);
void pgasi_array_mapping_withdraw_readers(const pgasi_array_site_t *site);

/** Waits until all threads have left the accesses that they began by withdrawn entries. Such
 *  threads never need the grant's lock. */
void pgasi_array_mapping_wait_left(const pgasi_array_site_t *site);

#endif
