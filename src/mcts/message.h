/** The messages between the ranks of a search, and the functions that send them (send.c).
 *
 *  Any message may overtake any other. Quiescence counts messages by itself. Jobs in queues, and
 *  calls that had to be postponed, are counted in m->work when they are made and when they end. A
 *  worker counts as one piece of work while it is active. It becomes active when it finds a job,
 *  and ends when it has passed on all results of its jobs. */
#ifndef PGASI_MCTS_MESSAGE_H
#define PGASI_MCTS_MESSAGE_H

#include "mcts/mcts.h"
#include "pgas/handler.h"

typedef enum {
    HANDLER_CREATE, /* make a child and its first rollouts, or simulate a state once */
    HANDLER_SELECT, /* rollouts continue at a node */
    HANDLER_REPORT, /* the report of rollouts */
    HANDLER_MARK,   /* a node can be reached from the root */
    HANDLER_AUDIT,  /* a parent counts so many visits of a node */
    HANDLER_RESULT, /* requests the state of the root */
    HANDLER_PV,     /* requests the best child, or that of a move */
    HANDLER_STOP,   /* start no more rollouts */
    HANDLERS
} handler_number_t;

/* The searches of this rank by their numbers, and the handlers of all. */
typedef struct {
    pgas_mcts_t *search[PGASI_MCTS_SEARCHES];
    pgas_handler_t handler[HANDLERS];
} pgasi_mcts_registry_t;
extern pgasi_mcts_registry_t pgasi_mcts_registry;

/* In place of the number of a child: the report is of the node itself. */
#define SELF UINT32_MAX

enum { CREATE_APPLIED = 1, CREATE_TEMPORARY = 2 };

typedef struct {
    uint32_t search;
    uint16_t flags; /* APPLIED: state is that of the child; TEMPORARY: make no node */
    uint16_t depth;
    node_id_t parent; /* with child: the receiver of the report */
    uint32_t child, n;
    pgas_mcts_move_t move;
    uint32_t owner;
    node_id_t parent_node; /* in a graph, where parent is a path element */
    char state[];          /* of the parent, or of the child */
} create_message_t;

typedef struct {
    uint32_t search, depth;
    node_id_t node;
    node_id_t parent; /* with child: the receiver of the report */
    uint32_t child, n;
} select_message_t;

typedef struct {
    uint32_t search, proven;
    node_id_t parent; /* with child: the receiver */
    node_id_t child_id;
    uint32_t child;
    uint32_t n;      /* 0: it only says where the child is */
    uint64_t data[]; /* sums by player; if proven, the outcome by player, 32 bits each */
} report_message_t;

typedef struct {
    uint32_t search;
    uint16_t why;
    uint16_t number; /* the lower bits of n_searches: a late message must not end a later search */
} stop_message_t;

/* MARK, AUDIT, INFO and PV. */
typedef struct {
    uint32_t search;
    uint32_t move; /* PV: of the child to go to; NO_MOVE: the best one */
    node_id_t node;
    uint64_t visits; /* AUDIT: as the parent counts them */
} node_message_t;

typedef struct {
    uint64_t busy; /* the root changes: repeat the request */
    pgas_mcts_result_t result;
} result_answer_t;

typedef struct {
    node_id_t child;
    uint64_t move;
} pv_answer_t;

/* The search of a message with this number. Returns NULL if it has ended. */
static inline pgas_mcts_t *pgasi_mcts_search_of(uint32_t number)
{
    return number < PGASI_MCTS_SEARCHES ? pgasi_mcts_registry.search[number] : NULL;
}
/* The same for a message of MARK, AUDIT, INFO or PV. Returns NULL also if its length is wrong. */
static inline pgas_mcts_t *pgasi_mcts_search_of_node(const void *args, size_t bytes)
{
    const node_message_t *message = args;
    return bytes == sizeof *message ? pgasi_mcts_search_of(message->search) : NULL;
}

/* ---- send.c ---- */

/* Sends a message. A handler that finds no room postpones it; another thread waits with
 * progress. */
void pgasi_mcts_post(worker_t *w, int rank, handler_number_t handler, const void *args,
                     size_t bytes);
void pgasi_mcts_post_postponed(worker_t *w);
size_t pgasi_mcts_report_bytes(const pgas_mcts_t *m, bool proven);
void pgasi_mcts_post_report(worker_t *w, node_id_t parent, uint32_t child, const report_t *r);
/* Sends a report later: with others of the same child, or by pgasi_mcts_flush. */
void pgasi_mcts_combine(worker_t *w, node_id_t parent, uint32_t child, const report_t *r);
/* Sends all that waits. */
void pgasi_mcts_flush(worker_t *w);

/* ---- handlers of other files, for handlers.c ---- */

void pgasi_mcts_handle_mark(const void *args, size_t bytes, pgas_thread_t source, void *context);
void pgasi_mcts_handle_audit(const void *args, size_t bytes, pgas_thread_t source, void *context);
void pgasi_mcts_handle_result(const void *args, size_t bytes, pgas_thread_t source, void *context);
void pgasi_mcts_handle_pv(const void *args, size_t bytes, pgas_thread_t source, void *context);

#endif
