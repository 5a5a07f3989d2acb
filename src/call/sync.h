/** Completion of calls: tokens that name a waiting counter or reply, and the answers to them. */
#ifndef PGASI_SYNC_H
#define PGASI_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/call.h"

pgas_status_t pgasi_sync_start(void);
void pgasi_sync_stop(void);
/** The most that counters and replies take: entries, and what ranks owe to each. */
uint64_t pgasi_sync_table_bytes(uint64_t n_ranks);

/** Sets the internal handlers for answers. */
void pgasi_sync_set_handlers(void);

/** A token for answers that make sync fall: any number (reply NULL), or one of reply_bytes from a rank, which is stored at
 *  reply before. */
pgas_status_t pgasi_token_take(pgas_sync_t *sync, int rank, void *reply, size_t reply_bytes, uint32_t *token_p);
/** A call to the rank is about to name the counter: the rank owes it one completion. PGAS_ERR_INVALID: no live counter;
 *  PGAS_ERR_NO_MEMORY. Costs two atomic additions, and 4 bytes per rank for each counter that was ever used so. */
pgas_status_t pgasi_sync_owe(const pgas_sync_t *sync, int rank);
/** The call could not be sent; false if the counter has fallen for it already, with the rank's death. */
bool pgasi_sync_disown(uint32_t token, int rank);
/** What a dead rank owes, replies and completions, falls with PGAS_ERR_PEER. */
void pgasi_sync_peer_died(int rank);
/** Ends the token; false if somebody else has, by an answer or a death. */
bool pgasi_token_give(uint32_t token);

/** Around a handler whose caller wants an answer; call_end sends it. reply_bytes 0: only that it ran. */
void pgasi_call_begin(pgas_thread_t source, uint32_t token, uint32_t reply_bytes);
void pgasi_call_end(pgas_status_t status);

/** pgas_reply for the library's own handlers, whose answers PGAS_CALL_MAX does not bound. */
pgas_status_t pgasi_reply(const void *data, size_t bytes);

/** pgas_call_return for the library's own handlers too; waits. */
pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply, size_t reply_bytes);

/** A handler that waits lets others run on its thread: puts its call aside meanwhile. */
void pgasi_call_suspend(bool aside);

#endif
