/** Interfaces shared by the files of the watch (watch.c, watch_start.c, procs.c, links.c,
 *  address.c, report.c). boot.h has the functions that other modules call.
 *
 *  Everything in links.c runs under the lock of watch.c and never waits. */
#ifndef PGASI_WATCH_H
#define PGASI_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/internal.h"
#include "boot/ring.h"

/* ---- address.c: choice of an address that other hosts can reach ---- */

#define PGASI_ADDRESSES_MAX 8

typedef struct {
    uint8_t host[16]; /* IPv6, or IPv4 inside */
    uint16_t port;    /* 0: not known yet */
    uint16_t bits;    /* length of the network's prefix */
} pgasi_address_t;

/** The data that each rank sends to all others before any of them listens. */
typedef struct {
    uint64_t machine, network; /* network namespace */
    int32_t leader;            /* lowest of the ranks that can see each other's processes */
    int32_t n_addresses;
    pgasi_address_t address[PGASI_ADDRESSES_MAX];
} pgasi_card_t;

/** Fills in all fields but the leader, with the addresses of interfaces that are up, IPv4 first.
 *  @param wanted the name of one interface, or "" for all */
void pgasi_address_collect(const char *wanted, pgasi_card_t *card_p);
/** Chooses the address of `me` on the network that most ranks of other hosts share. If all ranks
 *  are in one network namespace, it chooses the loopback. It skips an address that another host has
 *  as well (a bridge of containers). Pure. @return false: there is none */
bool pgasi_address_choose(const pgasi_card_t *cards, int n, int me, pgasi_address_t *address_p);

/* ---- links.c ---- */

/** Listens at the address and fills in its port. */
pgas_status_t pgasi_links_listen(pgasi_address_t *address_io);
/** Starts the links. addresses: [n_ranks], owned by the caller, used until the end. epoll events of
 *  links have the bit PGASI_LINKS_EVENT. aborted: a peer ends the job with this exit code. */
void pgasi_links_begin(int epoll_fd, pgasi_ring_t *ring, const pgasi_address_t *addresses,
                       void (*aborted)(int rank, int exit_code));
void pgasi_links_end(void);
#define PGASI_LINKS_EVENT (UINT64_C(1) << 63)
void pgasi_links_event(uint64_t data);
/** Carries out the checks that are due. @return the time of the next call, as pgasi_now_ns;
 *  UINT64_MAX: never */
uint64_t pgasi_links_timers(void);
/** Whether the rank is linked to the next rank, or has no next rank. */
bool pgasi_links_closed(void);
int pgasi_links_count(void);
const char *pgasi_links_listener(void); /* its address and port as text */
/** Closes the sockets in a forked child: its copies would make a dead rank look alive. */
void pgasi_links_forked(void);
void pgasi_links_say_bye(void);
void pgasi_links_say_abort(int exit_code);
extern const pgasi_ring_ops_t pgasi_links_ops; /* without died and report */

/* ---- report.c: stacks of ranks that do not proceed ---- */

typedef enum { PGASI_REPORT_NONE, PGASI_REPORT_HERE, PGASI_REPORT_ALL } pgasi_report_from_t;
/** Called on the initial thread. wake_fd: an eventfd that wakes the watch after a signal. */
void pgasi_report_start(int wake_fd);
void pgasi_report_stop(void);
/** Returns the ranks from which a signal has requested reports since the last call. */
pgasi_report_from_t pgasi_report_asked(void);
/** Requests reports from the other ranks of this host by signals. A job without a service ring
 *  needs it. */
void pgasi_report_ask_host(void);
/** Logs the stack of the initial thread, at most once a second. */
void pgasi_report_log(void);

/* ---- procs.c: processes of the own host ---- */

/** @return false: no memory */
bool pgasi_procs_init(void);
void pgasi_procs_fini(void);
/** Starts to watch. epoll events of processes are their indices in pgasi_boot.host_members. */
void pgasi_procs_watch(int epoll_fd);
/** @return the rank whose process has ended, or -1 */
int pgasi_procs_event(uint64_t data);
/** Looks at processes without a pidfd. @return the rank of one that has ended, or -1 */
int pgasi_procs_poll(void);
/** @return 1: the rank's process has ended; 0: it runs; -1: unknown */
int pgasi_procs_has_ended(int rank);
void pgasi_procs_count(int *n_by_fd_p, int *n_polled_p);

/* ---- watch.c ---- */

typedef struct {
    int rank;
    pgasi_ring_cause_t cause;
} pgasi_watch_news_t;

/** The state of the watch of this rank, for watch.c and watch_start.c. The lock protects all fields
 *  that are not read and written by atomic operations. */
typedef struct {
    enum {
        PGASI_WATCH_OFF,
        PGASI_WATCH_STARTING,
        PGASI_WATCH_INIT,
        PGASI_WATCH_RUN,
        PGASI_WATCH_ENDING
    } phase;
    pthread_mutex_t lock;
    pthread_mutex_t hook_lock;  /* protects hooks.rank_died and blocked */
    const pgas_team_t *blocked; /* MPI blocks for its members */
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool has_thread, stopping;
    int polling; /* a thread is in look_around */

    bool is_far; /* the processes of some ranks are not visible here */
    bool has_ring;
    pgasi_ring_t ring;
    int *leader_of;             /* [n_ranks] the ring's number of each rank's host */
    pgasi_address_t *addresses; /* [n_ranks] */

    unsigned char *suspects; /* [n_ranks] */
    bool some_suspect;
    pgasi_watch_news_t *news; /* [n_ranks] deaths that are not reported yet */
    int n_news;
    int abort_code;       /* >= 0: a peer ends the job with it */
    bool must_report;     /* log the stack of the initial thread */
    bool is_torn;         /* STARTING: some ranks cannot reach each other */
    uint64_t vanished_ns; /* ENDING: when the first process ended; 0: none has */
    bool lost_in_the_end; /* ENDING: a rank is dead */
} pgasi_watch_t;
extern pgasi_watch_t pgasi_watch;

#define PGASI_WATCH_EVENT UINT64_MAX /* the epoll event of wake_fd */

pgas_status_t pgasi_watch_start_thread(void);
void pgasi_watch_stop_thread(void);
/** Wakes the thread. */
void pgasi_watch_wake(void);
/** Handles everything that is due, unless another thread is doing so. */
void pgasi_watch_look_around(void);

/** The ring's operation `died`; runs under the lock. */
void pgasi_watch_died(void *arg, int rank, pgasi_ring_cause_t cause);
/** The ring's operation `report`. */
void pgasi_watch_report_wanted(void *arg);
/** A peer ends the job with this exit code. */
void pgasi_watch_job_aborted(int rank, int exit_code);

#endif
