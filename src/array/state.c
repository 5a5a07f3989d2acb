/* The protocol's table. Each row is one transition. An event that has no row in a state cannot
 * happen there, and ends the job if it does.
 *
 * Invariants (checked by the model in protocol.pml, and in t/unit/array_state over a simulated
 * network): no rank reads a chunk that another rank has Dirty. Contributions to a chunk have one
 * operator. A chunk's elements are complete at home in U, S, Z and Y. Every request is answered. */
#include "array/state.h"

#include <stddef.h>

#define A(name) PGASI_ARRAY_BIT(name)
#define ROW(state, event, next, actions) \
    [PGASI_##state][PGASI_E_##event] = { 1, PGASI_##next, actions },
#define NONE 0

/* clang-format off */
const pgasi_array_step_t pgasi_array_steps[PGASI_ARRAY_N_STATES][PGASI_ARRAY_N_EVENTS] = {
    /* home */
    ROW(H_U, FETCH_R, H_Uw, A(QUIESCE_WRITES))
    ROW(H_U, FETCH_W, H_Uq, A(QUIESCE))
    ROW(H_U, UPGRADE, H_Uq, A(QUIESCE))
    ROW(H_U, FETCH_O, H_Uq, A(QUIESCE))
    ROW(H_U, OP_R, H_U, A(EXEC) | A(NEXT))
    ROW(H_U, OP_W, H_U, A(EXEC) | A(NEXT))
    ROW(H_U, OP_A, H_U, A(EXEC) | A(NEXT))
    ROW(H_Uw, QUIET, H_Uw, A(COUNT))
    ROW(H_Uw, ALL_IN, H_S, A(OPEN_READ) | A(SERVE))
    ROW(H_Uq, QUIET, H_Uq, A(COUNT))
    ROW(H_Uq, ALL_IN, H_Z, A(SERVE))

    ROW(H_S, FETCH_R, H_S, A(ADD) | A(SEND_DATA_R) | A(NEXT))
    ROW(H_S, OP_R, H_S, A(EXEC) | A(NEXT))
    ROW(H_S, FETCH_W, H_Sv, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_S, FETCH_O, H_Sv, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_S, UPGRADE, H_Su, A(QUIESCE) | A(GIVE_OTHERS))
    ROW(H_S, OP_W, H_Sx, A(GIVE_ALL))
    ROW(H_S, OP_A, H_Sx, A(GIVE_ALL))
    ROW(H_Sv, ACK, H_Sv, A(DROP) | A(COUNT))
    ROW(H_Sv, QUIET, H_Sv, A(COUNT))
    ROW(H_Sv, ALL_IN, H_Z, A(SERVE))
    ROW(H_Su, ACK, H_Su, A(DROP) | A(COUNT))
    ROW(H_Su, QUIET, H_Su, A(COUNT))
    ROW(H_Su, ALL_IN, H_Y, A(SERVE))
    ROW(H_Sx, ACK, H_Sx, A(DROP) | A(COUNT))
    ROW(H_Sx, ALL_IN, H_U, A(OPEN_ALL) | A(SERVE))

    ROW(H_D, FETCH_R, H_Dl, A(LEND_OWNER))
    ROW(H_D, OP_R, H_Dl, A(LEND_OWNER))
    ROW(H_D, FETCH_W, H_Dr, A(GIVE_OWNER))
    ROW(H_D, UPGRADE, H_Dr, A(GIVE_OWNER))
    ROW(H_D, FETCH_O, H_Dr, A(GIVE_OWNER))
    ROW(H_D, OP_W, H_Dr, A(GIVE_OWNER))
    ROW(H_D, OP_A, H_Dr, A(GIVE_OWNER))
    ROW(H_D, WB, H_U, A(STORE) | A(DROP) | A(OPEN_ALL) | A(SEND_WB_ACK))
    ROW(H_Dr, WB, H_Dr, A(STORE) | A(DROP) | A(SEND_WB_ACK) | A(COUNT))
    ROW(H_Dr, ALL_IN, H_Z, A(SERVE))
    ROW(H_Dl, WB, H_Dl, A(STORE) | A(DROP) | A(SEND_WB_ACK) | A(COUNT))
    ROW(H_Dl, WB_KEEP, H_Dl, A(STORE) | A(JOIN) | A(SEND_WB_ACK) | A(COUNT))
    ROW(H_Dl, ALL_IN, H_S, A(OPEN_READ) | A(SERVE))

    ROW(H_O, FETCH_O, H_O, A(ADD) | A(SEND_GRANT_O) | A(NEXT))
    ROW(H_O, OP_A, H_O, A(EXEC) | A(NEXT))
    ROW(H_O, FETCH_O_OTHER, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, OP_A_OTHER, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, FETCH_R, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, FETCH_W, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, UPGRADE, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, OP_R, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, OP_W, H_Or, A(QUIESCE) | A(GIVE_ALL))
    ROW(H_O, WB_O, H_Om, A(QUIESCE) | A(KEEP) | A(DROP) | A(SEND_WB_ACK))
    ROW(H_Om, WB_O, H_Om, A(KEEP) | A(DROP) | A(SEND_WB_ACK))
    ROW(H_Om, QUIET, H_Om, A(COUNT))
    ROW(H_Om, ALL_IN, H_O, A(MERGE) | A(OPEN_OPERATE) | A(SERVE))
    ROW(H_Or, WB_O, H_Or, A(KEEP) | A(DROP) | A(SEND_WB_ACK) | A(COUNT))
    ROW(H_Or, ACK, H_Or, A(DROP) | A(COUNT))
    ROW(H_Or, QUIET, H_Or, A(COUNT))
    ROW(H_Or, ALL_IN, H_Z, A(MERGE) | A(SERVE))

    ROW(H_Z, FETCH_R, H_S, A(ADD) | A(OPEN_READ) | A(SEND_DATA_R) | A(NEXT))
    ROW(H_Z, FETCH_W, H_D, A(OWN) | A(SEND_DATA_W) | A(NEXT))
    ROW(H_Z, UPGRADE, H_D, A(OWN) | A(SEND_DATA_W) | A(NEXT))
    ROW(H_Z, FETCH_O, H_O, A(SET_OP) | A(ADD) | A(OPEN_OPERATE) | A(SEND_GRANT_O) | A(NEXT))
    ROW(H_Z, OP_R, H_U, A(OPEN_ALL) | A(EXEC) | A(NEXT))
    ROW(H_Z, OP_W, H_U, A(OPEN_ALL) | A(EXEC) | A(NEXT))
    ROW(H_Z, OP_A, H_U, A(OPEN_ALL) | A(EXEC) | A(NEXT))
    ROW(H_Y, UPGRADE, H_D, A(OWN) | A(SEND_GRANT_W) | A(NEXT))

    /* cache */
    ROW(C_I, NEED_R, C_IS, A(SEND_FETCH_R))
    ROW(C_I, NEED_W, C_IW, A(SEND_FETCH_W))
    ROW(C_I, NEED_O, C_IO, A(SEND_FETCH_O))
    ROW(C_I, GIVE, C_I, A(SEND_ACK))
    ROW(C_IS, DATA_R, C_S, A(OPEN_READ) | A(RUN))
    ROW(C_IS, GIVE, C_IS, A(SEND_ACK))
    ROW(C_IW, DATA_W, C_D, A(OPEN_ALL) | A(RUN))
    ROW(C_IW, GIVE, C_IW, A(SEND_ACK))
    ROW(C_IO, GRANT_O, C_O, A(OPEN_OPERATE) | A(RUN))
    ROW(C_IO, GIVE, C_IO, A(SEND_ACK))

    ROW(C_S, NEED_W, C_SW, A(SEND_UPGRADE))
    ROW(C_S, EVICT, C_Sq, A(QUIESCE))
    ROW(C_S, GIVE, C_Si, A(QUIESCE))
    ROW(C_SW, GRANT_W, C_D, A(OPEN_ALL) | A(RUN))
    ROW(C_SW, GIVE, C_SWi, A(QUIESCE))
    ROW(C_SWi, QUIET, C_IW, A(SEND_ACK))
    ROW(C_Sq, QUIET, C_I, A(FREE))
    ROW(C_Sq, GIVE, C_Si, NONE)
    ROW(C_Si, QUIET, C_I, A(SEND_ACK) | A(FREE))

    ROW(C_D, EVICT, C_Dq, A(QUIESCE))
    ROW(C_D, GIVE, C_Dq, A(QUIESCE))
    ROW(C_D, LEND, C_Dd, A(QUIESCE_WRITES))
    ROW(C_Dq, QUIET, C_W, A(SEND_WB))
    ROW(C_Dq, GIVE, C_Dq, NONE)
    ROW(C_Dq, LEND, C_Dq, NONE)
    ROW(C_Dd, QUIET, C_Sa, A(OPEN_READ) | A(SEND_WB_KEEP))
    ROW(C_Sa, WB_ACK, C_S, A(RUN))

    ROW(C_O, EVICT, C_Oq, A(QUIESCE))
    ROW(C_O, GIVE, C_Oq, A(QUIESCE))
    ROW(C_Oq, QUIET, C_W, A(SEND_WB_O))
    ROW(C_Oq, MERGED, C_I, A(FREE))
    ROW(C_Oq, GIVE, C_Oq, NONE)
    ROW(C_W, WB_ACK, C_I, A(FREE))
    ROW(C_W, GIVE, C_W, NONE)
    ROW(C_W, LEND, C_W, NONE)
};
/* clang-format on */

#define TEXT(name) #name,

const char *pgasi_array_state_name(pgasi_array_state_t state)
{
    static const char *const names[] = { PGASI_ARRAY_STATES(TEXT) };
    return names[state];
}

const char *pgasi_array_event_name(pgasi_array_event_t event)
{
    static const char *const names[] = { PGASI_ARRAY_EVENTS(TEXT) };
    return names[event];
}

const char *pgasi_array_action_name(pgasi_array_action_t action)
{
    static const char *const names[] = { PGASI_ARRAY_ACTIONS(TEXT) };
    return names[action];
}
