/** Interfaces shared by the files of the watch (watch.c, links.c, address.c). boot.h has the
 *  functions that other modules call.
 *
 *  Everything in links.c runs under the lock of watch.c and never waits. */
#ifndef PGASI_WATCH_H
#define PGASI_WATCH_H

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
    uint16_t bits;    /* of the network */
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
/** Chooses the address of `me` on the network that most ranks of other hosts share, or the loopback
 *  if all ranks are in one network namespace. It skips an address that another host has as well (a
 *  bridge of containers). Pure. @return false: there is none. */
bool pgasi_address_choose(const pgasi_card_t *cards, int n, int me, pgasi_address_t *address_p);

/* ---- links.c: sockets ---- */

/** Listens at the address and fills in its port. */
pgas_status_t pgasi_links_listen(pgasi_address_t *address_io);
/** addresses: [n_ranks], owned by the caller, used until the end. epoll events of links have the
 *  bit PGASI_LINKS_EVENT. */
void pgasi_links_begin(int epoll_fd, pgasi_ring_t *ring, const pgasi_address_t *addresses);
void pgasi_links_end(void);
#define PGASI_LINKS_EVENT (UINT64_C(1) << 63)
void pgasi_links_event(uint64_t data);
/** Does everything that is due. @return the time of the next call, as pgasi_now_ns; UINT64_MAX:
 *  never */
uint64_t pgasi_links_timers(void);
/** Whether the rank is linked to the next one, or has none. */
bool pgasi_links_closed(void);
int pgasi_links_count(void);
const char *pgasi_links_listener(void); /* its address and port as text */
/** Closes the sockets in a forked child: its copies would make a dead rank look alive. */
void pgasi_links_forked(void);
void pgasi_links_say_bye(void);
void pgasi_links_say_abort(int exit_code);
extern const pgasi_ring_ops_t pgasi_links_ops; /* its `died` is pgasi_watch_died */

/* ---- report.c: stacks of ranks that do not go on ---- */

typedef enum { PGASI_REPORT_NONE, PGASI_REPORT_HERE, PGASI_REPORT_ALL } pgasi_report_from_t;
/** Called on the initial thread. wake_fd: an eventfd that wakes the watch after a signal. */
void pgasi_report_start(int wake_fd);
void pgasi_report_stop(void);
/** Returns which ranks a signal has asked for reports since the last call. */
pgasi_report_from_t pgasi_report_asked(void);
/** Asks the other ranks of this host by signals. A job without a service ring needs it. */
void pgasi_report_ask_host(void);
/** Logs the stack of the initial thread, at most once a second. */
void pgasi_report_log(void);

/* ---- watch.c ---- */

/** The ring's operation `died`; runs under the lock. */
void pgasi_watch_died(void *arg, int rank, pgasi_ring_cause_t cause);
/** The ring's operation `report`. */
void pgasi_watch_told_report(void *arg);
/** A peer ends the job with this exit code. */
void pgasi_watch_told_abort(int rank, int exit_code);

#endif
