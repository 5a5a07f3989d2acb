/** The coherence protocol as a table: (state, event) to (state, actions). Pure: no memory but the
 *  table.
 *
 *  One chunk has a directory entry at its home and at most one line in the cache of every rank of
 *  other nodes. Messages of one home to one cache arrive in the order sent, and the other way
 *  round; a request waits at the home, in order, while the chunk is in transition (a state that is
 *  not stable). protocol.pml is the same table for spin.
 *
 *  Home, stable:  U Unshared   home's node reads, writes, operates
 *                 S Shared     home's node reads, sharers read
 *                 D Dirty      one rank elsewhere has all
 *                 O Operated   home's node and the operators combine operands of one operator
 *         transit: Uw home's writers leave; Uq home's threads leave; Sv sharers give back, home's
 *         threads leave; Su the same, but
 *                 for the one that wants to write; Sx sharers give back; Dr the owner gives back;
 *                 Dl the owner goes on reading; Or operators give back, home's threads leave; Om
 *                 home's threads leave for a moment, so that operands can be merged
 *         instant: Z nobody has anything, Y only the one that wants to write reads: left at once,
 *         by serving the first request
 *  Cache, stable:  I none  S reads  D has all  O operates transit: IS, IW, IO asked for it; SW
 *                                              reads, asked for the rest; Sq threads leave, then
 *                                              dropped in silence; Si threads
 *                 leave, the home waits; SWi the same, and wants to write; Dq, Oq threads leave,
 *                 then written back; Dd writers leave, then written back and still read; Sa reads,
 *                 and what was written back is under way; W written back, under way: nothing is
 *                 asked for before the home has it */
#ifndef PGASI_ARRAY_STATE_H
#define PGASI_ARRAY_STATE_H

#include <stdint.h>

typedef enum { PGASI_ARRAY_HOME, PGASI_ARRAY_CACHE } pgasi_array_role_t;

/* clang-format off */
#define PGASI_ARRAY_STATES(X)                                                                   \
    X(H_U) X(H_S) X(H_D) X(H_O) X(H_Uw) X(H_Uq) X(H_Sv) X(H_Su) X(H_Sx) X(H_Dr) X(H_Dl)         \
    X(H_Or) X(H_Om) X(H_Z) X(H_Y) X(C_I) X(C_S) X(C_D) X(C_O) X(C_IS) X(C_IW) X(C_IO) X(C_SW)   \
    X(C_Sq) X(C_Si) X(C_SWi) X(C_Dq) X(C_Dd) X(C_Sa) X(C_Oq) X(C_W)
/* clang-format on */

/* Requests at the home: FETCH_R, FETCH_W, FETCH_O a line; UPGRADE of a line that is Shared, by one
 * that still is a sharer (if it is none any more it is a FETCH_W); OP_R, OP_W, OP_A one access that
 * the home carries out, also for threads of its own node. _OTHER: with another operator than that
 * of state O. Answers: ACK (nothing left there), WB (elements), WB_KEEP (elements, and it goes on
 * reading), WB_O (operands). QUIET: threads here have left. ALL_IN: all answers and QUIET have
 * come. At the cache: NEED_* of its threads, EVICT, QUIET; the home's GIVE (back), LEND (go on
 * reading), DATA_R, DATA_W (the line is filled), GRANT_W, GRANT_O, WB_ACK. */
/* clang-format off */
#define PGASI_ARRAY_EVENTS(X)                                                                   \
    X(FETCH_R) X(FETCH_W) X(FETCH_O) X(FETCH_O_OTHER) X(UPGRADE) X(OP_R) X(OP_W) X(OP_A)        \
    X(OP_A_OTHER) X(ACK) X(WB) X(WB_KEEP) X(WB_O) X(QUIET) X(ALL_IN) X(NEED_R) X(NEED_W)        \
    X(NEED_O) X(EVICT) X(GIVE) X(LEND) X(DATA_R) X(DATA_W) X(GRANT_W) X(GRANT_O) X(WB_ACK)
/* clang-format on */

/* In the order in which they are carried out. QUIESCE, QUIESCE_WRITES: no new accesses (writes) of
 * threads here; QUIET when those under way have ended, pins too; counted as one answer at the home.
 * COUNT: one answer less to wait for. STORE: what came is the chunk's contents. KEEP: operands are
 * kept. MERGE: all kept operands are brought into the elements. GIVE_*, LEND_OWNER: sent, each an
 * answer to wait for. DROP: whom it is from is no sharer, operator or owner any more; JOIN: is a
 * sharer. OPEN_*: what threads here may do now. ADD, OWN: the requester becomes sharer or operator,
 * owner. SET_OP: the request's operator. SEND_*: to the requester, or to the home. EXEC: the first
 * request's access is carried out. SERVE: the first request is looked at again in the new state.
 * NEXT: it is done, the next is looked at. RUN: accesses of threads that wait for the line are
 * carried out as far as may be. FREE: the line is. */
/* clang-format off */
#define PGASI_ARRAY_ACTIONS(X)                                                                  \
    X(QUIESCE) X(QUIESCE_WRITES) X(STORE) X(KEEP) X(MERGE) X(DROP) X(JOIN) X(GIVE_ALL)          \
    X(GIVE_OTHERS) X(GIVE_OWNER) X(LEND_OWNER) X(SET_OP) X(OWN) X(ADD) X(OPEN_ALL)              \
    X(OPEN_READ) X(OPEN_OPERATE) X(SEND_DATA_R) X(SEND_DATA_W) X(SEND_GRANT_W) X(SEND_GRANT_O)  \
    X(SEND_WB_ACK) X(SEND_FETCH_R) X(SEND_FETCH_W) X(SEND_FETCH_O) X(SEND_UPGRADE) X(SEND_ACK)  \
    X(SEND_WB) X(SEND_WB_KEEP) X(SEND_WB_O) X(COUNT) X(EXEC) X(RUN) X(FREE) X(SERVE) X(NEXT)
/* clang-format on */

#define PGASI_ARRAY_NAME_STATE(name)  PGASI_##name,
#define PGASI_ARRAY_NAME_EVENT(name)  PGASI_E_##name,
#define PGASI_ARRAY_NAME_ACTION(name) PGASI_A_##name,
typedef enum {
    PGASI_ARRAY_STATES(PGASI_ARRAY_NAME_STATE) PGASI_ARRAY_N_STATES
} pgasi_array_state_t;
typedef enum {
    PGASI_ARRAY_EVENTS(PGASI_ARRAY_NAME_EVENT) PGASI_ARRAY_N_EVENTS
} pgasi_array_event_t;
typedef enum {
    PGASI_ARRAY_ACTIONS(PGASI_ARRAY_NAME_ACTION) PGASI_ARRAY_N_ACTIONS
} pgasi_array_action_t;

/** A transition: actions is a set, bit PGASI_A_x, carried out in ascending order. */
typedef struct {
    uint8_t known; /* 0: such an event cannot happen in that state */
    uint8_t next;
    uint64_t actions;
} pgasi_array_step_t;

/** What the event does in the state. known is 0 if it cannot happen. */
const pgasi_array_step_t *pgasi_array_step(pgasi_array_state_t state, pgasi_array_event_t event);

/** Requests wait, in order, while a home is in such a state. (In Z and Y the first is served at
 *  once.) */
static inline int pgasi_array_is_transit(pgasi_array_state_t state)
{
    return state > PGASI_H_O && state < PGASI_H_Z;
}

/** Names without prefix, for logs and tests. */
const char *pgasi_array_state_name(pgasi_array_state_t state);
const char *pgasi_array_event_name(pgasi_array_event_t event);
const char *pgasi_array_action_name(pgasi_array_action_t action);

#endif
