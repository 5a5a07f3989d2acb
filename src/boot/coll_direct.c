/* Collectives of large data among the members of a board, which read each other's buffers by
 * process_vm_readv.
 *
 * Shaped for 16 KiB to many megabytes. Data are copied once, and all members work at one time:
 * each combines one share of the elements, and each fetches what it needs. One call costs 0.3
 * microseconds and then as much as a memcpy (measured). In a team of two, the giver would only wait
 * for the other member to fetch, so it writes half of the data. Larger teams never write to
 * each other: a member that leaves after a death may free its buffers at once.
 *
 * Every collective first exchanges addresses. It ends when no member needs the buffers of others
 * any more. Contributions are combined from member 0 upwards; a commutative operator of two
 * members may do it the other way round, with the same bits. */
#include "boot/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "base/param.h"

/* ---- the memory of other members ---- */

static pid_t pid_of(const pgasi_board_t *board, int member)
{
    return board->pids[board->wakeup_of[member]];
}

/* Whether a member has left a collective because of a death. It may have freed its buffers then,
 * before the others know of the death. */
static uint32_t *has_left(const pgasi_board_t *board, int member)
{
    unsigned char *own = board->own - (size_t)board->me * pgasi_board_own_bytes(board->n) +
                         (size_t)member * pgasi_board_own_bytes(board->n);
    return (uint32_t *)(void *)(own + 2 * PGASI_BOARD_OWN +
                                (size_t)board->n * sizeof(pgasi_offer_t));
}

/* After a transfer that failed: waits until the death is known, so that the caller reports it as
 * every other member does. */
static bool fail(pgasi_board_t *board, int member)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    board->failure = PGAS_ERR_PEER;
    if (errno != ESRCH && !__atomic_load_n(has_left(board, member), __ATOMIC_ACQUIRE)) {
        PGASI_ERROR("coll",
                    "cannot transfer data of process %d: %s; its buffer is invalid, or is memory "
                    "of a device",
                    (int)pid_of(board, member), strerror(errno));
        board->failure = PGAS_ERR_INVALID;
        return false;
    }
    while (board->is_broken && !board->is_broken(board->arg))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return false;
}

typedef ssize_t (*transfer_fn_t)(pid_t pid, const struct iovec *here, unsigned long n_here,
                                 const struct iovec *there, unsigned long n_there,
                                 unsigned long flags);

static bool transfer(transfer_fn_t fn, pgasi_board_t *board, int member, void *here, void *there,
                     size_t bytes)
{
    struct iovec ours = { here, bytes }, theirs = { there, bytes };
    while (ours.iov_len > 0) {
        ssize_t n = fn(pid_of(board, member), &ours, 1, &theirs, 1, 0);
        if (PGAS_UNLIKELY(n <= 0))
            return fail(board, member);
        ours.iov_base = (char *)ours.iov_base + n;
        theirs.iov_base = (char *)theirs.iov_base + n;
        ours.iov_len = theirs.iov_len -= (size_t)n;
    }
    return true;
}

static bool fetch(pgasi_board_t *board, int member, void *to, const void *from, size_t bytes)
{
    if (member != board->me)
        return transfer(process_vm_readv, board, member, to, (void *)(uintptr_t)from, bytes);
    if (bytes > 0)
        memcpy(to, from, bytes);
    return true;
}

/* ---- steps ---- */

static pgas_status_t status_of(const pgasi_board_t *board, bool good)
{
    if (PGAS_LIKELY(good))
        return PGAS_OK;
    pgas_status_t status = board->failure != PGAS_OK ? board->failure : PGAS_ERR_PEER;
    if (status == PGAS_ERR_PEER)
        __atomic_store_n(has_left(board, board->me), 1, __ATOMIC_RELEASE);
    return status;
}

/* Sends the addresses of the own buffers to all members, and stores theirs in board->offers. */
static bool exchange_addresses(pgasi_board_t *board, const void *src, const void *dst)
{
    pgasi_offer_t mine = { src, dst };
    void *out = pgasi_board_begin(board, sizeof mine);
    if (!out)
        return false;
    memcpy(out, &mine, sizeof mine);
    pgasi_board_post_to_all(board);
    for (int i = 0; i < board->n; i++) {
        const void *in = pgasi_board_wait(board, i, sizeof mine);
        if (!in)
            return false;
        memcpy(&board->offers[i], in, sizeof mine);
    }
    board->known = board->step;
    return true;
}

static bool all_are_done(pgasi_board_t *board)
{
    return pgasi_board_barrier(board) == PGAS_OK;
}

/* ---- from one to one ---- */

/* Copies the src of one of two members to the dst of the other. The latter fetches the first
 * n_fetched bytes, and the giver writes the rest. If ranks may survive a death, it writes nothing:
 * the other member may have left, and freed its buffer. */
static bool copy_between(pgasi_board_t *board, int giver, size_t bytes, size_t n_fetched)
{
    int me = board->me;
    const char *from = board->offers[giver].src;
    char *to = (char *)(uintptr_t)board->offers[1 - giver].dst;
    if (!from || !to)
        return true;
    if (pgasi_param.on_peer_death != PGASI_ON_PEER_DEATH_ABORT)
        n_fetched = bytes;
    if (me != giver)
        return fetch(board, giver, to, from, n_fetched);
    return transfer(process_vm_writev, board, 1 - me, (void *)(uintptr_t)(from + n_fetched),
                    to + n_fetched, bytes - n_fetched);
}

pgas_status_t pgasi_direct_broadcast(pgasi_board_t *board, void *buffer, size_t bytes, int root)
{
    bool good = exchange_addresses(board, buffer, buffer);
    if (good && board->n == 2)
        good = copy_between(board, root, bytes, bytes / 2);
    else if (good && board->me != root && buffer)
        good = fetch(board, root, buffer, board->offers[root].src, bytes);
    return status_of(board, good && all_are_done(board));
}

/* ---- combining ---- */

typedef struct {
    pgasi_board_t *board;
    const pgas_op_def_t *def;
    size_t elem; /* bytes */
} reduction_t;

/* The memory of the board that only this member uses: an area for the sum, one for a
 * contribution. */
static void *own_area(const pgasi_board_t *board, int number)
{
    return board->own + (size_t)number * PGASI_BOARD_OWN;
}

/* The contribution of a member, of at most OWN bytes: where it is, or a copy. */
static const void *contribution(const reduction_t *r, int member, size_t at, size_t bytes)
{
    pgasi_board_t *board = r->board;
    const char *from = (const char *)board->offers[member].src + at;
    if (member == board->me)
        return from;
    void *to = own_area(board, 0);
    return fetch(board, member, to, from, bytes) ? to : NULL;
}

/* Adds the contributions of members first .. n-1 to the sum. */
static bool add_members(const reduction_t *r, void *sum, int first, size_t at, size_t bytes)
{
    for (int i = first; i < r->board->n; i++) {
        const void *in = contribution(r, i, at, bytes);
        if (!in)
            return false;
        pgasi_op_combine_run(r->def, sum, in, bytes / r->elem);
    }
    return true;
}

/* Combines at most OWN bytes, from byte `at` of each contribution, into `to`. */
static bool combine_piece(const reduction_t *r, char *to, size_t at, size_t bytes)
{
    pgasi_board_t *board = r->board;
    const char *mine = (const char *)board->offers[board->me].src + at;
    bool in_place = to == mine;
    if (board->n == 2 && pgasi_op_commutes(r->def)) {
        const void *in = mine;
        if (in_place)
            in = contribution(r, 1 - board->me, at, bytes);
        else if (!fetch(board, 1 - board->me, to,
                        (const char *)board->offers[1 - board->me].src + at, bytes))
            return false;
        if (!in)
            return false;
        pgasi_op_combine_run(r->def, to, in, bytes / r->elem);
        return true;
    }
    char *sum = in_place && board->me > 0 ? own_area(board, 1) : to;
    if ((sum != mine && !fetch(board, 0, sum, (const char *)board->offers[0].src + at, bytes)) ||
        !add_members(r, sum, 1, at, bytes))
        return false;
    if (sum != to)
        memcpy(to, sum, bytes);
    return true;
}

/* Combines the bytes from begin to end of all contributions into those of dst. */
static bool combine_bytes(const reduction_t *r, char *dst, size_t begin, size_t end)
{
    size_t piece = PGASI_BOARD_OWN / r->elem * r->elem;
    for (size_t at = begin; at < end; at += piece)
        if (!combine_piece(r, dst + at, at, PGASI_MIN(piece, end - at)))
            return false;
    return true;
}

/* Member i has the bytes from share_of(i) to share_of(i + 1). */
static size_t share_of(const reduction_t *r, size_t bytes, int member)
{
    size_t share = PGASI_DIV_UP(bytes / r->elem, (size_t)r->board->n) * r->elem;
    return PGASI_MIN(share * (size_t)member, bytes);
}

pgas_status_t pgasi_direct_allreduce(pgasi_board_t *board, const void *src, void *dst,
                                     size_t n_elems, const pgas_op_def_t *def)
{
    reduction_t r = { board, def, def->operand_bytes };
    size_t bytes = n_elems * r.elem;
    int me = board->me, n = board->n;
    bool good = exchange_addresses(board, src, dst) &&
                combine_bytes(&r, dst, share_of(&r, bytes, me), share_of(&r, bytes, me + 1)) &&
                all_are_done(board);
    for (int i = (me + 1) % n; good && i != me; i = (i + 1) % n) {
        size_t begin = share_of(&r, bytes, i), end = share_of(&r, bytes, i + 1);
        good = fetch(board, i, (char *)dst + begin, (const char *)board->offers[i].dst + begin,
                     end - begin);
    }
    return status_of(board, good && all_are_done(board));
}

/* Blocks of one piece for each member, which combines it in its area of the board. */
static bool reduce_block(const reduction_t *r, char *dst, size_t begin, size_t bytes, int root)
{
    pgasi_board_t *board = r->board;
    int me = board->me;
    size_t mine = share_of(r, bytes, me), end = share_of(r, bytes, me + 1);
    char *out = pgasi_board_begin(board, PGASI_BOARD_AREA);
    if (!out || !combine_piece(r, me == root ? dst + begin + mine : out, begin + mine, end - mine))
        return false;
    pgasi_board_post_to(board, root);
    for (int i = 0; me == root && i < board->n; i++) {
        size_t from = share_of(r, bytes, i), to = share_of(r, bytes, i + 1);
        const void *in = pgasi_board_wait(board, i, PGASI_BOARD_AREA);
        if (!in)
            return false;
        if (i != me)
            memcpy(dst + begin + from, in, to - from);
    }
    return true;
}

pgas_status_t pgasi_direct_reduce(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                  const pgas_op_def_t *def, int root)
{
    reduction_t r = { board, def, def->operand_bytes };
    size_t bytes = n_elems * r.elem;
    size_t block = PGASI_BOARD_AREA / r.elem * r.elem * (size_t)board->n;
    bool good = exchange_addresses(board, src, dst);
    /* of two members the other one would make the root wait for its memory, not relieve it */
    if (good && board->n == 2 && board->me == root)
        good = combine_bytes(&r, dst, 0, bytes);
    for (size_t at = 0; good && board->n > 2 && at < bytes; at += block)
        good = reduce_block(&r, dst, at, PGASI_MIN(block, bytes - at), root);
    return status_of(board, good && all_are_done(board));
}

/* The second member copies while the first fills its dst. */
pgas_status_t pgasi_direct_exscan(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                  const pgas_op_def_t *def)
{
    bool good = exchange_addresses(board, src, dst), is_first = board->me == 0;
    if (good && !is_first)
        good = fetch(board, 0, dst, board->offers[0].src, n_elems * def->operand_bytes);
    if (is_first && dst != src)
        pgasi_op_fill_neutral(def, dst, n_elems);
    good = good && all_are_done(board);
    if (is_first && dst == src)
        pgasi_op_fill_neutral(def, dst, n_elems);
    return status_of(board, good);
}

/* ---- collecting and exchanging ---- */

pgas_status_t pgasi_direct_gather(pgasi_board_t *board, const void *src, void *dst, size_t bytes,
                                  int root)
{
    int me = board->me, n = board->n;
    bool here = me == root;
    char *other = here && n == 2 ? (char *)dst + (size_t)(1 - me) * bytes : dst;
    bool good = exchange_addresses(board, src, other);
    if (good && here)
        memcpy((char *)dst + (size_t)me * bytes, src, bytes);
    if (good && n == 2)
        good = copy_between(board, 1 - root, bytes, bytes / 8);
    for (int i = 0; good && here && n > 2 && i < n; i++)
        if (i != me)
            good = fetch(board, i, (char *)dst + (size_t)i * bytes, board->offers[i].src, bytes);
    return status_of(board, good && all_are_done(board));
}

/* Block i of dst is from member i: `at` bytes behind the start of its src. */
static bool fetch_blocks(pgasi_board_t *board, char *dst, size_t bytes, size_t at)
{
    int me = board->me, n = board->n;
    bool good = true;
    for (int k = 1; good && k <= n; k++) { /* the own block last */
        int i = (me + k) % n;
        good = fetch(board, i, dst + (size_t)i * bytes, (const char *)board->offers[i].src + at,
                     bytes);
    }
    return good;
}

pgas_status_t pgasi_direct_allgather(pgasi_board_t *board, const void *src, void *dst, size_t bytes)
{
    bool good = exchange_addresses(board, src, dst) && fetch_blocks(board, dst, bytes, 0);
    return status_of(board, good && all_are_done(board));
}

pgas_status_t pgasi_direct_alltoall(pgasi_board_t *board, const void *src, void *dst, size_t bytes)
{
    bool good = exchange_addresses(board, src, dst) &&
                fetch_blocks(board, dst, bytes, (size_t)board->me * bytes);
    return status_of(board, good && all_are_done(board));
}

/* ---- blocks of any sizes ---- */

/* The blocks of dst, from that of the next member to the own one, so that not all members fetch
 * from one at a time. */
typedef struct {
    int member, left;
    char *dst, *to; /* NULL with all blocks empty */
} turn_t;

static void next_turn(const pgasi_board_t *board, turn_t *t, const size_t *bytes_of)
{
    t->left--;
    if (bytes_of[t->member] > 0)
        t->to += bytes_of[t->member];
    if (++t->member == board->n) {
        t->member = 0;
        t->to = t->dst;
    }
}

static turn_t first_turn(const pgasi_board_t *board, char *dst, const size_t *bytes_of)
{
    turn_t t = { 0, 0, dst, dst };
    for (int i = 0; i <= board->me; i++)
        next_turn(board, &t, bytes_of);
    t.left = board->n;
    return t;
}

/* A block that fits into an area is the message itself, a larger one is offered by its address. The
 * member and the root both know its size. */
static bool give_block(pgasi_board_t *board, const void *src, size_t bytes, int root)
{
    bool by_address = bytes > PGASI_BOARD_AREA;
    size_t n = by_address ? sizeof src : bytes;
    if (n == 0) {
        pgasi_board_pass(board);
    } else {
        void *out = pgasi_board_begin(board, n);
        if (!out)
            return false;
        memcpy(out, by_address ? (const void *)&src : src, n);
    }
    pgasi_board_post_to(board, root);
    pgasi_board_pass(board);
    pgasi_board_post_to(board, root);
    return !by_address || pgasi_board_wait(board, root, 0);
}

static bool take_blocks(pgasi_board_t *board, const void *src, char *dst, const size_t *bytes_of)
{
    pgasi_board_pass(board);
    pgasi_board_post_to_all(board);
    for (int i = 0; i < board->n; i++) {
        size_t bytes = bytes_of[i];
        bool by_address = bytes > PGASI_BOARD_AREA;
        const void *in = pgasi_board_wait(board, i, by_address ? sizeof src : bytes);
        if (!in)
            return false;
        if (by_address)
            memcpy(&in, in, sizeof in);
        if (i == board->me)
            in = src;
        if (bytes == 0)
            continue;
        if (!by_address || i == board->me)
            memcpy(dst, in, bytes);
        else if (!fetch(board, i, dst, in, bytes))
            return false;
        dst += bytes;
    }
    pgasi_board_pass(board);
    pgasi_board_post_to_all(board);
    return true;
}

/* A large block of one of two members: it is written and fetched while the root copies its own. */
static bool gatherv_of_two(pgasi_board_t *board, const void *src, size_t bytes, char *dst,
                           const size_t *bytes_of, int root)
{
    bool here = board->me == root;
    char *own = here && root == 1 ? dst + bytes_of[0] : dst,
         *other = here && root == 0 ? dst + bytes_of[0] : dst;
    if (!exchange_addresses(board, src, other))
        return false;
    if (here && bytes_of[root] > 0)
        memcpy(own, src, bytes_of[root]);
    size_t n = here ? bytes_of[1 - root] : bytes;
    return copy_between(board, 1 - root, n, n / 8) && all_are_done(board);
}

pgas_status_t pgasi_direct_gatherv(pgasi_board_t *board, const void *src, size_t bytes, void *dst,
                                   const size_t *bytes_of, int root)
{
    if (board->n == 2 && (board->me == root ? bytes_of[1 - root] : bytes) > PGASI_BOARD_AREA)
        return status_of(board, gatherv_of_two(board, src, bytes, dst, bytes_of, root));
    return status_of(board, board->me == root ? take_blocks(board, src, dst, bytes_of)
                                              : give_block(board, src, bytes, root));
}

pgas_status_t pgasi_direct_allgatherv(pgasi_board_t *board, const void *src, void *dst,
                                      const size_t *bytes_of)
{
    bool good = exchange_addresses(board, src, dst);
    turn_t t = first_turn(board, dst, bytes_of);
    for (; good && t.left > 0; next_turn(board, &t, bytes_of))
        if (bytes_of[t.member] > 0)
            good = fetch(board, t.member, t.to, board->offers[t.member].src, bytes_of[t.member]);
    return status_of(board, good && all_are_done(board));
}

#define PACKED_MAX ((size_t)8 << 10)

/* The message of an all-to-all: for each member the place of its block, which is an offset in the
 * message or, from AREA on, an address in the sender's memory; then the blocks of the first kind.
 * @return the number of blocks that have addresses; -1: a member died */
static int post_places(pgasi_board_t *board, const char *src, const size_t *bytes_of)
{
    int n_addresses = 0;
    char *out = pgasi_board_begin(board, PGASI_BOARD_AREA);
    size_t *places = (size_t *)(void *)out, at = (size_t)board->n * sizeof *places;
    if (!out)
        return -1;
    for (int i = 0; i < board->n; i++) {
        size_t bytes = bytes_of[i];
        if (i != board->me && bytes > 0 && bytes <= PACKED_MAX && bytes <= PGASI_BOARD_AREA - at) {
            places[i] = at;
            memcpy(out + at, src, bytes);
            at += bytes;
        } else {
            places[i] = (size_t)(uintptr_t)src;
            n_addresses += bytes > 0 && i != board->me;
        }
        src = bytes > 0 ? src + bytes : src;
    }
    pgasi_board_post_to_all(board);
    return n_addresses;
}

pgas_status_t pgasi_direct_alltoallv(pgasi_board_t *board, const void *src, const size_t *src_bytes,
                                     void *dst, const size_t *dst_bytes)
{
    int me = board->me, n_addresses = post_places(board, src, src_bytes);
    bool good = n_addresses >= 0;
    turn_t t = first_turn(board, dst, dst_bytes);
    for (; good && t.left > 0; next_turn(board, &t, dst_bytes)) {
        const char *in = pgasi_board_wait(board, t.member, PGASI_BOARD_AREA);
        size_t bytes = dst_bytes[t.member], place = in ? ((const size_t *)(const void *)in)[me] : 0;
        good = in != NULL;
        if (!good || bytes == 0)
            continue;
        if (place < PGASI_BOARD_AREA)
            memcpy(t.to, in + place, PGASI_MIN(bytes, PGASI_BOARD_AREA - place));
        else
            good = fetch(board, t.member, t.to, (const void *)(uintptr_t)place, bytes);
    }
    if (!good)
        return status_of(board, false);
    board->known = board->step;
    pgasi_board_pass(board);
    pgasi_board_post_to_all(board);
    for (int i = 0; n_addresses > 0 && good && i < board->n; i++)
        good = pgasi_board_wait(board, i, 0) != NULL;
    return status_of(board, good);
}
