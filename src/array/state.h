/** The coherence protocol as a table: (state, event) to (state, actions). Pure: no memory but the
 *  table.
 *
 *  One chunk has a directory entry at its home, and at most one cache line at every rank of other
 *  nodes. Messages from one home to one cache arrive in the order sent, and so do messages from one
 *  cache to one home. A request waits at the home, in order, while the chunk is in transition (a
 *  state that is not stable). protocol.pml is the same table for spin. */
#ifndef PGASI_ARRAY_STATE_H
#define PGASI_ARRAY_STATE_H

#include <stdint.h>

typedef enum { PGASI_ARRAY_HOME, PGASI_ARRAY_CACHE } pgasi_array_role_t;

/* clang-format off */
#define PGASI_ARRAY_STATES(X)                                                                 \
    /* home, stable */                                                                        \
    X(H_U)   /* Unshared: the home's node reads, writes and operates */                       \
    X(H_S)   /* Shared: the home's node and the sharers read */                               \
    X(H_D)   /* Dirty: one rank of another node does everything */                            \
    X(H_O)   /* Operated: the home's node and the operators combine with one operator */      \
    /* home, in transition */                                                                 \
    X(H_Uw)  /* to Shared: the home's writers leave */                                        \
    X(H_Uq)  /* from Unshared: the home's threads leave */                                    \
    X(H_Sv)  /* from Shared: sharers give back, the home's threads leave */                   \
    X(H_Su)  /* the same, but the sharer that wants to write keeps its copy */                \
    X(H_Sx)  /* to Unshared: sharers give back */                                             \
    X(H_Dr)  /* from Dirty: the owner gives back */                                           \
    X(H_Dl)  /* to Shared: the owner writes back and continues to read */                     \
    X(H_Or)  /* from Operated: operators give back, the home's threads leave */               \
    X(H_Om)  /* the home's threads leave for a moment, so that contributions can be merged */ \
    /* home, instant: left at once, when the first request is served */                       \
    X(H_Z)   /* no rank has the chunk */                                                      \
    X(H_Y)   /* only the sharer that wants to write has it */                                 \
    /* cache, stable */                                                                       \
    X(C_I)   /* no copy */                                                                    \
    X(C_S)   /* reads */                                                                      \
    X(C_D)   /* does everything */                                                            \
    X(C_O)   /* combines */                                                                   \
    /* cache, in transition */                                                                \
    X(C_IS)  /* asked to read */                                                              \
    X(C_IW)  /* asked to write */                                                             \
    X(C_IO)  /* asked to combine */                                                           \
    X(C_SW)  /* reads, and asked to write */                                                  \
    X(C_Sq)  /* threads leave, then the copy is dropped without a message */                  \
    X(C_Si)  /* threads leave, and the home waits for the answer */                           \
    X(C_SWi) /* the same, and asked to write */                                               \
    X(C_Dq)  /* threads leave, then the elements are written back */                          \
    X(C_Dd)  /* writers leave, then the elements are written back and still read */           \
    X(C_Sa)  /* reads, and the elements written back are under way */                         \
    X(C_Oq)  /* threads leave, then the contribution is merged at home, or written back */   \
    X(C_W)   /* written back and under way: the cache asks for nothing before it arrives */
/* clang-format on */

/* clang-format off */
#define PGASI_ARRAY_EVENTS(X)                                                                    \
    /* at the home: requests */                                                                  \
    X(FETCH_R)       /* a cache asks for a copy to read */                                       \
    X(FETCH_W)       /* to write */                                                              \
    X(FETCH_O)       /* to combine */                                                            \
    X(FETCH_O_OTHER) /* the same, with another operator than that of H_O */                      \
    X(UPGRADE)       /* a sharer asks to write; if it has lost its copy, it is a FETCH_W */      \
    X(OP_R)          /* an access that the home carries out, also for its own threads: a read */ \
    X(OP_W)          /* a write */                                                               \
    X(OP_A)          /* an operation */                                                          \
    X(OP_A_OTHER)    /* the same, with another operator than that of H_O */                      \
    /* at the home: answers */                                                                   \
    X(ACK)           /* the cache has nothing left */                                            \
    X(WB)            /* the cache writes elements back */                                        \
    X(WB_KEEP)       /* the same, and continues to read */                                       \
    X(WB_O)          /* the cache writes its contribution back */                                \
    /* at both sides */                                                                          \
    X(QUIET)         /* threads here have left */                                                \
    /* at the home */                                                                            \
    X(ALL_IN)        /* all answers and QUIET have arrived */                                    \
    /* at the cache */                                                                           \
    X(NEED_R)        /* a thread here needs the chunk to read */                                 \
    X(NEED_W)        /* to write */                                                              \
    X(NEED_O)        /* to combine */                                                            \
    X(EVICT)         /* the cache line is needed for another chunk */                            \
    X(GIVE)          /* the home wants the chunk back */                                         \
    X(LEND)          /* the home wants the elements, and the cache may continue to read */       \
    X(DATA_R)        /* the line is filled, to read */                                           \
    X(DATA_W)        /* the line is filled, to write */                                          \
    X(GRANT_W)       /* a sharer may write */                                                    \
    X(GRANT_O)       /* the cache may combine */                                                 \
    X(WB_ACK)        /* what was written back has arrived */                                     \
    X(MERGED)        /* threads here have left, and the cache has merged its contribution into   \
                      * the elements, while no thread of the home combined */
/* clang-format on */

/* In the order in which they are carried out. */
/* clang-format off */
#define PGASI_ARRAY_ACTIONS(X)                                                                     \
    /* at both sides; at the home each of these two counts as one answer to wait for */            \
    X(QUIESCE)        /* threads here leave: no new accesses; QUIET follows, after pins too */     \
    X(QUIESCE_WRITES) /* writers here leave */                                                     \
    /* at the home */                                                                              \
    X(STORE)          /* the elements that arrived are the chunk's contents */                     \
    X(KEEP)           /* the contribution that arrived is kept */                                  \
    X(MERGE)          /* all kept contributions are merged into the elements */                    \
    X(DROP)           /* the source is no sharer, operator or owner any more */                    \
    X(JOIN)           /* the source is a sharer */                                                 \
    X(GIVE_ALL)       /* GIVE is sent to all sharers or operators, each an answer to wait for */   \
    X(GIVE_OTHERS)    /* the same, except the requester  */                                        \
    X(GIVE_OWNER)     /* GIVE is sent to the owner, an answer to wait for */                       \
    X(LEND_OWNER)     /* LEND is sent to the owner, an answer to wait for */                       \
    X(SET_OP)         /* the request's operator becomes the chunk's */                             \
    X(OWN)            /* the requester becomes the owner */                                        \
    X(ADD)            /* the requester becomes a sharer or operator */                             \
    /* at both sides */                                                                            \
    X(OPEN_ALL)       /* threads here may do everything */                                         \
    X(OPEN_READ)      /* threads here may read */                                                  \
    X(OPEN_OPERATE)   /* threads here may combine */                                               \
    /* messages to the requester */                                                                \
    X(SEND_DATA_R)                                                                                 \
    X(SEND_DATA_W)                                                                                 \
    X(SEND_GRANT_W)                                                                                \
    X(SEND_GRANT_O)                                                                                \
    X(SEND_WB_ACK)                                                                                 \
    /* messages to the home */                                                                     \
    X(SEND_FETCH_R)                                                                                \
    X(SEND_FETCH_W)                                                                                \
    X(SEND_FETCH_O)                                                                                \
    X(SEND_UPGRADE)                                                                                \
    X(SEND_ACK)                                                                                    \
    X(SEND_WB)                                                                                     \
    X(SEND_WB_KEEP)                                                                                \
    X(SEND_WB_O)                                                                                   \
    /* at the home */                                                                              \
    X(COUNT)          /* one answer less to wait for */                                            \
    X(EXEC)           /* the first request's access is carried out */                              \
    /* at the cache */                                                                             \
    X(RUN)            /* accesses that wait for the line are carried out, while it permits them */ \
    X(FREE)           /* the line is free */                                                       \
    /* at the home */                                                                              \
    X(SERVE)          /* the first request is evaluated again, in the new state */                 \
    X(NEXT)           /* the first request is done, and the next one starts */
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

#define PGASI_ARRAY_BIT(action) (UINT64_C(1) << PGASI_A_##action)
#define PGASI_ARRAY_QUIESCES    (PGASI_ARRAY_BIT(QUIESCE) | PGASI_ARRAY_BIT(QUIESCE_WRITES))

/** A transition. actions is a set of PGASI_ARRAY_BIT(x), carried out in ascending order. */
typedef struct {
    uint8_t known; /* 0: the event cannot happen in that state */
    uint8_t next;
    uint64_t actions;
} pgasi_array_step_t;

/** The effect of an event in a state. */
extern const pgasi_array_step_t pgasi_array_steps[PGASI_ARRAY_N_STATES][PGASI_ARRAY_N_EVENTS];
static inline const pgasi_array_step_t *pgasi_array_step(pgasi_array_state_t state,
                                                         pgasi_array_event_t event)
{
    return &pgasi_array_steps[state][event];
}

/** Whether requests at the home wait in this state. (In Z and Y the first is served at once.) */
static inline int pgasi_array_is_transit(pgasi_array_state_t state)
{
    return state > PGASI_H_O && state < PGASI_H_Z;
}

/** Names without prefix, for logs and tests. */
const char *pgasi_array_state_name(pgasi_array_state_t state);
const char *pgasi_array_event_name(pgasi_array_event_t event);
const char *pgasi_array_action_name(pgasi_array_action_t action);

#endif
