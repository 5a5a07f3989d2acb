/* what: Replicas and clients are processes that are killed at any moment, also two at a time, and
 *       while a replica is added; others are stopped for a while. Nothing that was acknowledged is
 *       lost, each operation is executed once, a stopped replica stays a member, no client waits
 *       longer than 10 s, and in the end all regions are equal. A lost entry is found.
 * log: is dead or cannot be reached|did not come to rest|took too long
 * needs: no-sanitizers
 * source: each client appends entries to a ring, and counts them by cas, from the number to the
 *         next one; GROUP_KILLS: number of kills */
#include <sys/mman.h>
#include "base/checks.h"
#include "base/hash.h"
#include "t/random.h"
#include "t/unit/group_children.h"

#define MEMBERS 3
#define CLIENTS 2
#define ENTRIES 4096u
#define BATCH   32u
#define WINDOW  64u
#define PART    ((size_t)128 << 10) /* of a client: counter, ring, copies */
#define REGION  (CLIENTS * PART)
#define RING    4096u /* offset in the part */
#define TIME_NS (10 * PGASI_NS_PER_S)
#define TIME_US INT64_C(10000000)
#define TAIL    64u /* entries that are compared */

typedef struct {
    uint64_t number, check;
} entry_t;

/* Shared by all processes. */
typedef struct {
    char addresses[MEMBERS][64]; /* "": the place is free */
    bool stop;
    struct {
        uint64_t acked;
        uint32_t n_wrong, n_reforms;
    } clients[CLIENTS];
    char problem[200];
} board_t;

static board_t *board;
static child_t members[MEMBERS];
static pid_t clients[CLIENTS];
static int n_kills, n_wrong;

static void complain(const char *what, pgas_status_t status)
{
    snprintf(board->problem, sizeof board->problem, "%s: %s", what, pgas_status_name(status));
}

/* ---- entries ---- */

static entry_t make_entry(uint32_t client, uint64_t number)
{
    const uint64_t words[] = { client, number };
    return (entry_t){ number, pgasi_hash_bytes(words, sizeof words, 1) };
}

static uint64_t place_of(uint32_t client, uint64_t number)
{
    return client * PART + RING + number % ENTRIES * sizeof(entry_t);
}

/* ---- clients ---- */

static pgas_group_t *join_any(void)
{
    uint64_t limit_ns = pgasi_now_ns() + TIME_NS;
    for (uint32_t k = 0; pgasi_now_ns() < limit_ns; k++) {
        pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
        pgas_group_t *group = NULL;
        char address[64];
        memcpy(address, board->addresses[k % MEMBERS], sizeof address);
        opts.window = WINDOW;
        opts.timeout_us = 1000000;
        if (address[0] != '\0' && pgas_group_join(address, &opts, &group) == PGAS_OK)
            return group;
    }
    return NULL;
}

static pgas_status_t reform(pgas_group_t *group, uint32_t client)
{
    __atomic_fetch_add(&board->clients[client].n_reforms, 1, __ATOMIC_RELAXED);
    return pgas_group_reform(group, TIME_US);
}

/* Submits up to a window, and waits, through any deaths. */
static pgas_status_t run(pgas_group_t *group, uint32_t client, const pgas_group_op_t *ops, size_t n)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_status_t status;
    while ((status = pgas_group_submit(group, ops, n, &sync)) == PGAS_ERR_PEER)
        if ((status = reform(group, client)) != PGAS_OK)
            return status;
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, TIME_US);
    return status == PGAS_ERR_PEER ? reform(group, client) : status;
}

/* Appends entries; counters of replicas that have them stay. @return false: something is wrong */
static bool append(pgas_group_t *group, uint32_t client, uint64_t first, uint32_t n, bool again)
{
    static entry_t entries[BATCH];
    static uint64_t old[BATCH][PGAS_GROUP_REPLICAS_MAX];
    static pgas_group_op_t ops[2 * BATCH];
    memset(old, 0xff, sizeof old);
    for (uint32_t k = 0; k < n; k++) {
        uint64_t number = first + k;
        entries[k] = make_entry(client, number);
        ops[2 * k] =
            (pgas_group_op_t)PGAS_GWRITE(place_of(client, number), &entries[k], sizeof entries[k]);
        ops[2 * k + 1] =
            (pgas_group_op_t)PGAS_GCAS(client * PART, number, number + 1, UINT64_MAX, old[k]);
    }
    pgas_status_t status = run(group, client, ops, (size_t)2 * n);
    if (status != PGAS_OK)
        complain("append", status);
    bool right = status == PGAS_OK;
    for (uint32_t k = 0; k < n && !again; k++) {
        right = right && old[k][0] == first + k;
        for (int i = 1; i < MEMBERS; i++)
            right = right && (old[k][i] == first + k || old[k][i] == UINT64_MAX);
    }
    if (!right && status == PGAS_OK)
        complain("an old word is wrong", PGAS_OK);
    return right;
}

/* The process before may have died when some replicas had executed more than others. */
static bool recover(pgas_group_t *group, uint32_t client, uint64_t *next_p)
{
    uint64_t old[PGAS_GROUP_REPLICAS_MAX], least = UINT64_MAX, most = 0;
    pgas_group_op_t look = PGAS_GCAS(client * PART, UINT64_MAX, UINT64_MAX, UINT64_MAX, old);
    memset(old, 0xff, sizeof old);
    pgas_status_t status = run(group, client, &look, 1);
    for (int i = 0; i < MEMBERS; i++)
        if (old[i] != UINT64_MAX) {
            least = PGASI_MIN(least, old[i]);
            most = PGASI_MAX(most, old[i]);
        }
    if (status != PGAS_OK || most - least > WINDOW) {
        complain("recover", status);
        return false;
    }
    for (; least < most; least++)
        if (!append(group, client, least, 1, true))
            return false;
    *next_p = most;
    return true;
}

__attribute__((noreturn)) static void be_client(uint32_t client)
{
    uint64_t next = 0;
    pgas_group_t *group = join_any();
    bool right = group && recover(group, client, &next);
    if (!group)
        complain("join", PGAS_ERR_TIMEOUT);
    while (right && !__atomic_load_n(&board->stop, __ATOMIC_ACQUIRE)) {
        uint32_t n = 1 + (uint32_t)below(BATCH);
        right = append(group, client, next, n, false);
        next += n;
        if (right)
            __atomic_store_n(&board->clients[client].acked, next, __ATOMIC_RELEASE);
    }
    if (!right)
        __atomic_fetch_add(&board->clients[client].n_wrong, 1, __ATOMIC_RELEASE);
    pgas_group_destroy(group);
    _exit(0);
}

/* ---- a client that adds and compares ---- */

static bool check_client(pgas_group_t *group, int replica, uint32_t client)
{
    entry_t ring[ENTRIES];
    uint64_t before, after,
        acked = __atomic_load_n(&board->clients[client].acked, __ATOMIC_ACQUIRE);
    if (pgas_group_read(group, replica, client * PART, &before, sizeof before) != PGAS_OK ||
        pgas_group_read(group, replica, client * PART + RING, ring, sizeof ring) != PGAS_OK ||
        pgas_group_read(group, replica, client * PART, &after, sizeof after) != PGAS_OK)
        return false;
    bool right = before >= acked;
    for (uint64_t k = before > TAIL ? before - TAIL : 0; k < before; k++) {
        entry_t want = make_entry(client, k);
        if (k + ENTRIES < after + WINDOW)
            continue; /* it may have been overwritten meanwhile */
        right = right && memcmp(&ring[k % ENTRIES], &want, sizeof want) == 0;
    }
    return right;
}

/* @return 0: all is well; 1: it cannot be read; 2: something acknowledged is not there */
static int check_all(pgas_group_t *group, int n_wanted)
{
    pgas_group_info_t info = { .size = sizeof info };
    uint64_t limit_ns = pgasi_now_ns() + TIME_NS;
    pgas_group_info(group, &info);
    if (info.n_replicas != n_wanted)
        return 1;
    for (int i = 0; i < n_wanted; i++)
        for (uint32_t c = 0; c < CLIENTS; c++)
            while (!check_client(group, i, c))
                if (pgas_group_info(group, &info) != PGAS_OK || info.dead >= 0 ||
                    pgasi_now_ns() > limit_ns)
                    return 2;
    return 0;
}

static int compare_regions(pgas_group_t *group)
{
    static unsigned char first[REGION], other[REGION];
    bool equal = pgas_group_read(group, 0, 0, first, sizeof first) == PGAS_OK;
    for (int i = 1; i < MEMBERS; i++)
        equal = equal && pgas_group_read(group, i, 0, other, sizeof other) == PGAS_OK &&
                memcmp(first, other, sizeof first) == 0;
    return equal ? 0 : 3;
}

/* @param address  of a new replica; NULL: none */
__attribute__((noreturn)) static void be_adder(const char *address, int n_wanted, bool at_end)
{
    pgas_status_t status = PGAS_ERR_PEER;
    pgas_group_t *group = join_any();
    if (!group)
        _exit(4);
    if (address)
        status = pgas_group_add(group, address, TIME_US);
    if (address && status != PGAS_OK) {
        complain("add", status);
        _exit(5);
    }
    int result = check_all(group, n_wanted);
    if (result == 0 && at_end)
        result = compare_regions(group);
    pgas_group_destroy(group);
    _exit(result);
}

/* ---- processes ---- */

static pid_t start(void)
{
    pid_t parent = getpid(), child = fork();
    pgasi_rng_u64(&rng); /* so that children differ */
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return child;
}

static void start_member(int i, const char *next)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        bail("no sockets");
    members[i].pid = start();
    if (members[i].pid == 0) {
        close(ends[0]);
        be_replica(ends[1], next, REGION);
    }
    close(ends[1]);
    members[i].socket = ends[0];
    receive_all(ends[0], members[i].address, sizeof members[i].address);
}

static void start_client(uint32_t c)
{
    clients[c] = start();
    if (clients[c] == 0)
        be_client(c);
}

static void kill_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    n_kills++;
}

static void kill_member(int i)
{
    memset(board->addresses[i], 0, sizeof board->addresses[i]);
    close(members[i].socket);
    kill_process(members[i].pid);
    members[i].pid = 0;
}

static void kill_client(uint32_t c)
{
    kill_process(clients[c]);
    clients[c] = 0;
}

/* Lets the others run for some time: up to some milliseconds. */
static void pass_time(uint64_t most_us)
{
    uint64_t end_ns = pgasi_now_ns() + below(most_us) * 1000;
    while (pgasi_now_ns() < end_ns)
        sched_yield();
}

/* ---- waiting ---- */

static void await_progress(const char *after)
{
    uint64_t limit_ns = pgasi_now_ns() + TIME_NS;
    for (uint32_t c = 0; c < CLIENTS; c++) {
        uint64_t before = __atomic_load_n(&board->clients[c].acked, __ATOMIC_ACQUIRE);
        while (__atomic_load_n(&board->clients[c].acked, __ATOMIC_ACQUIRE) == before) {
            sched_yield();
            bool failed = __atomic_load_n(&board->clients[c].n_wrong, __ATOMIC_ACQUIRE) > 0;
            if (!failed && pgasi_now_ns() < limit_ns)
                continue;
            diag("after %s, client %d: %s", after, (int)c, failed ? board->problem : "it hangs");
            n_wrong++;
            return;
        }
    }
}

/* @return its exit status */
static int await_adder(pid_t adder)
{
    uint64_t limit_ns = pgasi_now_ns() + 3 * TIME_NS;
    int status;
    while (waitpid(adder, &status, WNOHANG) == 0) {
        if (pgasi_now_ns() > limit_ns) {
            kill(adder, SIGKILL);
            waitpid(adder, NULL, 0);
            return 6;
        }
        sched_yield();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 7;
}

static pid_t start_adder(const char *address, int n_wanted, bool at_end)
{
    pid_t adder = start();
    if (adder == 0)
        be_adder(address, n_wanted, at_end);
    return adder;
}

static void expect(int result, const char *after)
{
    static const char *const texts[] = { "all is well",
                                         "the number of members is wrong",
                                         "something acknowledged is lost",
                                         "regions differ",
                                         "nobody can join",
                                         "nobody can be added",
                                         "the client that adds hangs",
                                         "the client that adds crashed" };
    if (result == 0)
        return;
    diag("after %s: %s (%s)", after, texts[result], board->problem);
    n_wrong++;
}

/* ---- events ---- */

static int n_members(void)
{
    int n = 0;
    for (int i = 0; i < MEMBERS; i++)
        n += members[i].pid != 0 && board->addresses[i][0] != '\0';
    return n;
}

/* All places are filled again, one after the other. */
static void restore(const char *after)
{
    for (uint32_t c = 0; c < CLIENTS; c++)
        if (clients[c] == 0)
            start_client(c);
    await_progress(after);
    for (int i = 0; i < MEMBERS && n_wrong == 0; i++) {
        if (members[i].pid != 0)
            continue;
        start_member(i, NULL);
        expect(await_adder(start_adder(members[i].address, n_members() + 1, false)), after);
        memcpy(board->addresses[i], members[i].address, sizeof board->addresses[i]);
    }
    if (n_wrong == 0)
        expect(await_adder(start_adder(NULL, MEMBERS, false)), after);
    await_progress(after);
}

/* Kills a process while a replica is added; afterwards the new one may be a member or not. */
static void kill_in_add(bool the_new_one)
{
    kill_member((int)below(MEMBERS));
    await_progress("a kill");
    int i = 0;
    while (members[i].pid != 0)
        i++;
    start_member(i, NULL);
    pid_t adder = start_adder(members[i].address, MEMBERS, false);
    pass_time(20000);
    if (the_new_one) {
        kill_member(i);
        await_adder(adder); /* whatever it has found */
    } else {
        kill_process(adder);
        kill_member(i); /* so that the missing ones are known */
    }
}

static void stop_and_continue(void)
{
    int i = (int)below(MEMBERS);
    uint32_t before = board->clients[0].n_reforms + board->clients[1].n_reforms;
    kill(members[i].pid, SIGSTOP);
    pass_time(300000);
    kill(members[i].pid, SIGCONT);
    await_progress("a stop");
    if (board->clients[0].n_reforms + board->clients[1].n_reforms != before) {
        diag("a stopped replica was taken for dead");
        n_wrong++;
    }
}

static const char *disturb(uint64_t event)
{
    int i = (int)below(MEMBERS);
    pass_time(20000);
    switch (event) {
    case 0:
        kill_member(i);
        return "the death of a replica";
    case 1:
        kill_client((uint32_t)below(CLIENTS));
        return "the death of a client";
    case 2:
        kill_member(i);
        pass_time(5000);
        kill_member((i + 1) % MEMBERS);
        return "the death of two replicas";
    case 3:
        kill_client((uint32_t)below(CLIENTS));
        kill_member(i);
        return "the death of a replica and a client";
    case 4:
        kill_in_add(true);
        return "the death of a new replica";
    case 5:
        kill_in_add(false);
        return "the death of a client that adds a replica";
    default:
        stop_and_continue();
        return "a stop";
    }
}

/* ---- the test ---- */

static void start_all(void)
{
    for (int i = MEMBERS - 1; i >= 0; i--)
        start_member(i, i + 1 < MEMBERS ? members[i + 1].address : NULL);
    for (int i = 0; i < MEMBERS; i++)
        memcpy(board->addresses[i], members[i].address, sizeof board->addresses[i]);
    for (uint32_t c = 0; c < CLIENTS; c++)
        start_client(c);
    await_progress("the start");
}

static void stop_clients(void)
{
    __atomic_store_n(&board->stop, true, __ATOMIC_RELEASE);
    for (uint32_t c = 0; c < CLIENTS; c++)
        if (clients[c] != 0)
            expect(await_adder(clients[c]) == 0 ? 0 : 6, "the end");
}

/* Planted: the counter of a client is ahead of its entries. */
static void test_planted(void)
{
    board->clients[0].acked++;
    is_int(await_adder(start_adder(NULL, MEMBERS, false)), 2, "a lost entry is found");
    board->clients[0].acked--;
}

int main(void)
{
    const char *wanted = getenv("GROUP_KILLS");
    int n_wanted = wanted ? atoi(wanted) : 6;
    plan(3);
    pgasi_rng_seed(&rng, tap_seed(17));
    use_own_nic();
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        bail("no memory");
    start_all();
    for (uint64_t round = 0; n_kills < n_wanted && n_wrong == 0; round++)
        restore(disturb(round < 7 ? (round * 3 + 2) % 7 : below(7)));
    is_int(n_wrong, 0, "%d kills: nothing acknowledged is lost (%d and %d entries)", n_kills,
           (int)board->clients[0].acked, (int)board->clients[1].acked);
    stop_clients();
    is_int(await_adder(start_adder(NULL, MEMBERS, true)), 0, "in the end all regions are equal");
    test_planted();
    for (int i = 0; i < MEMBERS; i++)
        kill_member(i);
    return done();
}
