/* Collectives of the members of a team that share memory, over its board.
 *
 * Small data: each member posts its data and reads those of all (flat), so 2n cache lines move at
 * one time; two ranks on two cores exchange one line each. With more than FLAT_MAX members, groups
 * of GROUP report to their first member, these report to member 0, and all read the result there:
 * three steps instead of n^2 reads. Larger data travel in pieces of one area; the slots of the
 * board let the writer run ahead of the readers. Members read still larger data in each other's
 * buffers (coll_direct.c) where the table below says so. An allreduce of a piece among more than
 * two members is a reduce-scatter and an allgather. In the reduce-scatter each member combines one
 * share of the piece.
 *
 * Contributions are combined from member 0 upwards, so all members get the same bits. */
#include "boot/internal.h"

#include <string.h>

#define FLAT_MAX 16
#define GROUP    16
/* bytes that all members combine at one time: they stay in the first-level cache */
#define PIECE       ((size_t)8 << 10)
#define SCATTER_MIN ((size_t)1024) /* bytes; each member combines a smaller piece whole */
#define CHAIN_MIN   ((size_t)8 << 10)

/* The bytes from which members read each other's buffers, as measured. With more ranks than cores
 * every step that waits for all costs switches of processes. The slots of the board avoid these for
 * data that flow in one direction. The last column: from here on the root of two members is better
 * off with slots, because the buffers of both exceed the cache of its core. */
typedef struct {
    size_t least, least_oversubscribed, most_of_two;
} range_t;
#define KIB(n) ((size_t)(n) << 10)
static const range_t direct_broadcast = { KIB(16), SIZE_MAX, SIZE_MAX },
                     direct_reduce = { KIB(32), SIZE_MAX, KIB(512) },
                     direct_allreduce = { KIB(16), KIB(128), SIZE_MAX },
                     direct_exscan = { KIB(16), SIZE_MAX, SIZE_MAX },
                     direct_gather = { KIB(16), SIZE_MAX, SIZE_MAX },
                     direct_allgather = { KIB(8), KIB(256), SIZE_MAX },
                     direct_alltoall = { KIB(8), KIB(16), SIZE_MAX };
size_t pgasi_direct_least = SIZE_MAX;

static bool is_within(const pgasi_board_t *board, size_t bytes, const range_t *range)
{
    if (!board->pids || board->n == 1)
        return false;
    if (bytes >= pgasi_direct_least)
        return true;
    return bytes >= (pgasi_boot.oversubscribed ? range->least_oversubscribed : range->least) &&
           (board->n > 2 || bytes <= range->most_of_two);
}

static inline bool is_direct(const pgasi_board_t *board, size_t bytes, const range_t *range)
{
    return PGAS_UNLIKELY(bytes >= PGASI_MIN(KIB(8), pgasi_direct_least)) &&
           is_within(board, bytes, range);
}

/* A board with one member has no memory: its operations are copies. */
static pgas_status_t alone(const void *src, void *dst, size_t bytes)
{
    if (bytes > 0)
        memmove(dst, src, bytes);
    return PGAS_OK;
}

/* ---- steps ---- */

void pgasi_board_post_to(pgasi_board_t *board, int waiter)
{
    pgasi_board_post(board);
    pgasi_board_ring_begin();
    if (board->n > FLAT_MAX && board->me != waiter) {
        pgasi_board_ring(board, waiter);
        return;
    }
    for (int i = 0; i < board->n; i++)
        pgasi_board_ring(board, i);
}

void pgasi_board_post_to_all(pgasi_board_t *board)
{
    pgasi_board_post_to(board, board->me);
}

static void pass(pgasi_board_t *board, int waiter)
{
    pgasi_board_pass(board);
    pgasi_board_post_to(board, waiter);
}

static bool wait_for_all(pgasi_board_t *board)
{
    for (int i = 0; i < board->n; i++)
        if (!pgasi_board_wait(board, i, 0))
            return false;
    board->known = board->step;
    return true;
}

static inline void copy(void *dst, const void *src, size_t bytes)
{
    if (bytes == sizeof(uint64_t))
        memcpy(dst, src, sizeof(uint64_t));
    else
        memcpy(dst, src, bytes);
}

/* Posts data as the next step. */
static inline bool put(pgasi_board_t *board, const void *src, size_t bytes, int waiter)
{
    void *out = pgasi_board_begin(board, bytes);
    if (PGAS_UNLIKELY(!out))
        return false;
    copy(out, src, bytes);
    pgasi_board_post_to(board, waiter);
    return true;
}

/* Combines the messages of members first, first + stride .. below end into dst, in this order. */
static inline bool combine_messages(pgasi_board_t *board, int first, int end, int stride, void *dst,
                                    size_t n_elems, size_t bytes, const pgas_op_def_t *def)
{
    for (int i = first; i < end; i += stride) {
        const void *in = pgasi_board_wait(board, i, bytes);
        if (PGAS_UNLIKELY(!in))
            return false;
        if (i == first)
            copy(dst, in, bytes);
        else
            pgasi_op_combine_run(def, dst, in, n_elems);
    }
    return true;
}

static pgas_status_t status_of(bool good)
{
    return good ? PGAS_OK : PGAS_ERR_PEER;
}

/* ---- barriers ---- */

static int group_of(int member)
{
    return member - member % GROUP;
}

/* The first member of a group sees the step of all its members, with the data already posted.
 * Member 0 sees the next step of the groups. */
pgas_status_t pgasi_board_arrive(pgasi_board_t *board)
{
    if (board->n == 1)
        return PGAS_OK;
    bool flat = board->n <= FLAT_MAX, good = true;
    int leader = flat ? 0 : group_of(board->me),
        end = flat ? board->n : PGASI_MIN(leader + GROUP, board->n);
    pass(board, leader);
    for (int i = leader; board->me == leader && good && i < end; i++)
        good = pgasi_board_wait(board, i, 0) != NULL;
    if (!good || flat)
        return status_of(good);
    pass(board, 0);
    for (int i = 0; board->me == 0 && good && i < board->n; i += GROUP)
        good = pgasi_board_wait(board, i, 0) != NULL;
    return status_of(good);
}

pgas_status_t pgasi_board_release(pgasi_board_t *board)
{
    if (board->n == 1)
        return PGAS_OK;
    pass(board, 0);
    if (!pgasi_board_wait(board, 0, 0))
        return PGAS_ERR_PEER;
    /* member 0 had seen the arrival of all: one step ago when flat, two steps otherwise */
    board->known = board->step - (board->n <= FLAT_MAX ? 1 : 2);
    return PGAS_OK;
}

pgas_status_t pgasi_board_barrier(pgasi_board_t *board)
{
    if (PGAS_UNLIKELY(board->n > FLAT_MAX)) {
        pgas_status_t status = pgasi_board_arrive(board);
        return status != PGAS_OK ? status : pgasi_board_release(board);
    }
    pgasi_board_pass(board);
    pgasi_board_post_to_all(board);
    return status_of(wait_for_all(board));
}

/* ---- from one ---- */

static bool broadcast_piece(pgasi_board_t *board, char *at, size_t bytes, int root)
{
    if (board->me == root)
        return put(board, at, bytes, root);
    pass(board, root);
    const void *in = pgasi_board_wait(board, root, bytes);
    if (in && at)
        copy(at, in, bytes);
    return in;
}

pgas_status_t pgasi_board_broadcast(pgasi_board_t *board, void *buffer, size_t bytes, int root)
{
    char *at = buffer;
    bool good = true;
    if (is_direct(board, bytes, &direct_broadcast))
        return pgasi_direct_broadcast(board, buffer, bytes, root);
    for (size_t done = 0; board->n > 1 && good && done < bytes; done += PGASI_BOARD_AREA)
        good = broadcast_piece(board, at != NULL ? at + done : NULL,
                               PGASI_MIN(PGASI_BOARD_AREA, bytes - done), root);
    return status_of(good);
}

/* ---- combining ---- */

static bool reduce_piece(pgasi_board_t *board, const char *src, char *dst, size_t n_elems,
                         size_t bytes, const pgas_op_def_t *def, int root)
{
    if (!put(board, src, bytes, root))
        return false;
    return board->me != root || combine_messages(board, 0, board->n, 1, dst, n_elems, bytes, def);
}

pgas_status_t pgasi_board_reduce(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                 const pgas_op_def_t *def, int root)
{
    size_t elem_bytes = def->operand_bytes;
    size_t piece = PGASI_BOARD_AREA / elem_bytes;
    const char *from = src;
    char *to = dst;
    bool good = true;
    if (board->n == 1)
        return alone(src, dst, n_elems * elem_bytes);
    if (is_direct(board, n_elems * elem_bytes, &direct_reduce))
        return pgasi_direct_reduce(board, src, dst, n_elems, def, root);
    for (size_t done = 0; good && done < n_elems; done += piece) {
        size_t n = PGASI_MIN(piece, n_elems - done), at = done * elem_bytes;
        good = reduce_piece(board, from + at, to != NULL ? to + at : NULL, n, n * elem_bytes, def,
                            root);
    }
    return status_of(good);
}

static inline bool allreduce_flat(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                  size_t bytes, const pgas_op_def_t *def)
{
    if (!put(board, src, bytes, board->me) ||
        !combine_messages(board, 0, board->n, 1, dst, n_elems, bytes, def))
        return false;
    board->known = board->step;
    return true;
}

static bool allreduce_groups(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                             size_t bytes, const pgas_op_def_t *def)
{
    int leader = group_of(board->me);
    bool leads = board->me == leader;
    if (!put(board, src, bytes, leader))
        return false;
    uint64_t all_entered = board->step;
    if (leads) {
        int end = PGASI_MIN(leader + GROUP, board->n);
        if (!combine_messages(board, leader, end, 1, dst, n_elems, bytes, def) ||
            !put(board, dst, bytes, 0))
            return false;
    } else {
        pass(board, 0);
    }
    if (board->me == 0 && !combine_messages(board, 0, board->n, GROUP, dst, n_elems, bytes, def))
        return false;
    if (!broadcast_piece(board, dst, bytes, 0))
        return false;
    board->known = all_entered;
    return true;
}

/* Member i combines elements [share i, share i + 1) and distributes them. */
static bool allreduce_scatter(pgasi_board_t *board, const void *src, char *dst, size_t n_elems,
                              const pgas_op_def_t *def)
{
    size_t elem_bytes = def->operand_bytes;
    int n = board->n, me = board->me;
    size_t share = PGASI_DIV_UP(n_elems, (size_t)n), bytes = n_elems * elem_bytes;
    size_t begin = PGASI_MIN(share * (size_t)me, n_elems), end = PGASI_MIN(begin + share, n_elems);
    if (!put(board, src, bytes, me))
        return false;
    for (int i = 0; i < n; i++) {
        const char *in = pgasi_board_wait(board, i, bytes);
        if (!in)
            return false;
        if (i == 0)
            memcpy(dst + begin * elem_bytes, in + begin * elem_bytes, (end - begin) * elem_bytes);
        else
            pgasi_op_combine_run(def, dst + begin * elem_bytes, in + begin * elem_bytes,
                                 end - begin);
    }
    board->known = board->step;
    /* in the area, so that all members do the same */
    size_t share_bytes = PGASI_MAX(share * elem_bytes, PGASI_BOARD_INLINE + 1);
    void *out = pgasi_board_begin(board, share_bytes);
    if (!out)
        return false;
    memcpy(out, dst + begin * elem_bytes, (end - begin) * elem_bytes);
    pgasi_board_post_to_all(board);
    for (int i = 0; i < n; i++) {
        size_t at = PGASI_MIN(share * (size_t)i, n_elems), to = PGASI_MIN(at + share, n_elems);
        const char *in = pgasi_board_wait(board, i, share_bytes);
        if (!in)
            return false;
        if (i != me)
            memcpy(dst + at * elem_bytes, in, (to - at) * elem_bytes);
    }
    board->known = board->step;
    return true;
}

pgas_status_t pgasi_board_allreduce(pgasi_board_t *board, const void *src, void *dst,
                                    size_t n_elems, const pgas_op_def_t *def)
{
    size_t elem_bytes = def->operand_bytes;
    if (PGAS_UNLIKELY(board->n == 1))
        return alone(src, dst, n_elems * elem_bytes);
    if (PGAS_LIKELY(n_elems * elem_bytes <= PGASI_BOARD_INLINE && board->n <= FLAT_MAX &&
                    n_elems > 0))
        return status_of(allreduce_flat(board, src, dst, n_elems, n_elems * elem_bytes, def));
    if (is_direct(board, n_elems * elem_bytes, &direct_allreduce))
        return pgasi_direct_allreduce(board, src, dst, n_elems, def);
    bool scatter = board->n > 2 && n_elems * elem_bytes >= SCATTER_MIN, good = true;
    size_t piece = (scatter ? PGASI_BOARD_AREA : PIECE) / elem_bytes;
    const char *from = src;
    char *to = dst;
    for (size_t done = 0; good && done < n_elems; done += piece) {
        size_t n = PGASI_MIN(piece, n_elems - done), bytes = n * elem_bytes, at = done * elem_bytes;
        if (scatter)
            good = allreduce_scatter(board, from + at, to + at, n, def);
        else if (board->n > FLAT_MAX)
            good = allreduce_groups(board, from + at, to + at, n, bytes, def);
        else
            good = allreduce_flat(board, from + at, to + at, n, bytes, def);
    }
    return status_of(good);
}

/* Each member combines the data of the members before it. */
static bool scan_flat(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                      size_t bytes, const pgas_op_def_t *def, bool inclusive)
{
    return put(board, src, bytes, board->me) &&
           combine_messages(board, 0, board->me + inclusive, 1, dst, n_elems, bytes, def);
}

/* The message of a member is the combination of its data and those before it, which the next member
 * waits for. */
static bool scan_chain(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                       size_t bytes, const pgas_op_def_t *def, bool inclusive)
{
    bool is_first = board->me == 0, is_last = board->me == board->n - 1;
    size_t whole = PGASI_MAX(bytes, PGASI_BOARD_INLINE + 1); /* in the areas */
    void *out = is_last ? board->own : pgasi_board_begin(board, whole);
    if (is_last)
        pgasi_board_pass(board);
    const void *in = !out || is_first ? src : pgasi_board_wait(board, board->me - 1, whole);
    if (!out || !in)
        return false;
    if (inclusive || !is_last) {
        memcpy(out, in, bytes);
        if (!is_first)
            pgasi_op_combine_run(def, out, src, n_elems);
    }
    if (inclusive ? dst != src || !is_first : !is_first)
        memcpy(dst, inclusive ? out : in, bytes);
    pgasi_board_post_to(board, is_last ? 0 : board->me + 1);
    return true;
}

pgas_status_t pgasi_board_scan(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                               const pgas_op_def_t *def, bool inclusive)
{
    size_t elem_bytes = def->operand_bytes;
    size_t piece = PGASI_BOARD_AREA / elem_bytes;
    if (board->n == 1 && inclusive)
        return alone(src, dst, n_elems * elem_bytes);
    if (board->n == 2 && !inclusive && is_direct(board, n_elems * elem_bytes, &direct_exscan))
        return pgasi_direct_exscan(board, src, dst, n_elems, def);
    bool good = true, chain = n_elems * elem_bytes >= CHAIN_MIN;
    for (size_t done = 0; board->n > 1 && good && done < n_elems; done += piece) {
        size_t n = PGASI_MIN(piece, n_elems - done), bytes = n * elem_bytes, at = done * elem_bytes;
        const char *from = (const char *)src + at;
        char *to = (char *)dst + at;
        good = chain ? scan_chain(board, from, to, n, bytes, def, inclusive)
                     : scan_flat(board, from, to, n, bytes, def, inclusive);
    }
    if (good && !inclusive && board->me == 0 && n_elems > 0)
        pgasi_op_fill_neutral(def, dst, n_elems);
    return status_of(good);
}

/* ---- collecting and exchanging ---- */

/* Copies the piece at `done` of each member's block to its place in dst. */
static bool take_pieces(pgasi_board_t *board, char *dst, size_t block, size_t done, size_t bytes)
{
    for (int i = 0; i < board->n; i++) {
        const void *in = pgasi_board_wait(board, i, bytes);
        if (!in)
            return false;
        copy(dst + (size_t)i * block + done, in, bytes);
    }
    board->known = board->step;
    return true;
}

pgas_status_t pgasi_board_gather(pgasi_board_t *board, const void *src, void *dst, size_t bytes,
                                 int root)
{
    if (board->n == 1)
        return alone(src, dst, bytes);
    if (is_direct(board, bytes, &direct_gather))
        return pgasi_direct_gather(board, src, dst, bytes, root);
    bool good = true;
    for (size_t done = 0; good && done < bytes; done += PGASI_BOARD_AREA) {
        size_t n = PGASI_MIN(PGASI_BOARD_AREA, bytes - done);
        good = put(board, (const char *)src + done, n, root) &&
               (board->me != root || take_pieces(board, dst, bytes, done, n));
    }
    return status_of(good);
}

pgas_status_t pgasi_board_allgather(pgasi_board_t *board, const void *src, void *dst, size_t bytes)
{
    if (board->n == 1)
        return alone(src, dst, bytes);
    if (is_direct(board, bytes, &direct_allgather))
        return pgasi_direct_allgather(board, src, dst, bytes);
    bool good = true;
    for (size_t done = 0; good && done < bytes; done += PGASI_BOARD_AREA) {
        size_t n = PGASI_MIN(PGASI_BOARD_AREA, bytes - done);
        good = put(board, (const char *)src + done, n, board->me) &&
               take_pieces(board, dst, bytes, done, n);
    }
    return status_of(good);
}

/* A message holds one slice for each member except its own. */
static bool alltoall_slice(pgasi_board_t *board, const char *src, char *dst, size_t block,
                           size_t done, size_t bytes)
{
    size_t n = (size_t)board->n, me = (size_t)board->me,
           whole = PGASI_MAX(n * bytes, PGASI_BOARD_INLINE + 1);
    char *out = pgasi_board_begin(board, whole);
    if (!out)
        return false;
    for (size_t i = 0; i < n; i++)
        if (i != me)
            copy(out + i * bytes, src + i * block + done, bytes);
    pgasi_board_post_to_all(board);
    for (size_t i = 0; i < n; i++) {
        const char *in = pgasi_board_wait(board, (int)i, whole);
        if (!in)
            return false;
        if (i != me)
            copy(dst + i * block + done, in + me * bytes, bytes);
    }
    board->known = board->step;
    return true;
}

pgas_status_t pgasi_board_alltoall(pgasi_board_t *board, const void *src, void *dst, size_t bytes)
{
    if (board->n == 1)
        return alone(src, dst, bytes);
    if (is_direct(board, bytes, &direct_alltoall))
        return pgasi_direct_alltoall(board, src, dst, bytes);
    size_t slice = PGASI_BOARD_AREA / (size_t)board->n;
    slice = slice > 64 ? slice - slice % 64 : PGASI_MAX(slice, 1);
    bool good = true;
    if (bytes > 0)
        memcpy((char *)dst + (size_t)board->me * bytes,
               (const char *)src + (size_t)board->me * bytes, bytes);
    for (size_t done = 0; good && done < bytes; done += slice)
        good = alltoall_slice(board, src, dst, bytes, done, PGASI_MIN(slice, bytes - done));
    return status_of(good);
}

/* ---- blocks of any sizes ---- */

static bool max_of_all(pgasi_board_t *board, size_t *value_io)
{
    uint64_t value = *value_io;
    const pgas_op_def_t *def = pgasi_op_find(PGAS_OP(PGAS_MAX, PGAS_U64));
    bool good = pgasi_board_allreduce(board, &value, &value, 1, def) == PGAS_OK;
    *value_io = (size_t)value;
    return good;
}

static size_t greatest(const size_t *bytes_of, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++)
        most = PGASI_MAX(most, bytes_of[i]);
    return most;
}

static size_t rest_of(size_t bytes, size_t done, size_t piece)
{
    return bytes > done ? PGASI_MIN(bytes - done, piece) : 0;
}

/* Copies the piece at `done` of each member's block, if it is that long. */
static bool take_parts(pgasi_board_t *board, char *dst, const size_t *bytes_of, size_t done)
{
    for (int i = 0; i < board->n; i++) {
        size_t n = rest_of(bytes_of[i], done, PGASI_BOARD_AREA);
        const void *in = pgasi_board_wait(board, i, n);
        if (!in)
            return false;
        if (n > 0)
            memcpy(dst + done, in, n);
        dst = bytes_of[i] > 0 ? dst + bytes_of[i] : dst;
    }
    board->known = board->step;
    return true;
}

pgas_status_t pgasi_board_gatherv(pgasi_board_t *board, const void *src, size_t bytes, void *dst,
                                  const size_t *bytes_of, int root)
{
    bool receives = root < 0 || root == board->me, good = true;
    if (board->n == 1)
        return alone(src, dst, PGASI_MIN(bytes, bytes_of[0]));
    size_t most = root < 0 ? greatest(bytes_of, board->n) : bytes;
    if (root >= 0 && board->pids)
        return pgasi_direct_gatherv(board, src, bytes, dst, bytes_of, root);
    if (root < 0 && is_direct(board, most, &direct_allgather))
        return pgasi_direct_allgatherv(board, src, dst, bytes_of);
    /* a root alone knows the sizes of all */
    if (root >= 0)
        good = max_of_all(board, &most);
    for (size_t done = 0; good && done < most; done += PGASI_BOARD_AREA) {
        size_t n = rest_of(bytes, done, PGASI_BOARD_AREA);
        int waiter = root < 0 ? board->me : root;
        if (n > 0)
            good = put(board, (const char *)src + done, n, waiter);
        else
            pass(board, waiter);
        if (good && receives)
            good = take_parts(board, dst, bytes_of, done);
    }
    return status_of(good);
}

/* A message holds one slice for each member, which may be shorter or empty. */
typedef struct {
    const char *src;
    char *dst;
    const size_t *src_bytes, *dst_bytes;
    size_t slice;
} slices_t;

static bool alltoallv_slice(pgasi_board_t *board, const slices_t *s, size_t done)
{
    size_t whole = PGASI_MAX((size_t)board->n * s->slice, PGASI_BOARD_INLINE + 1);
    char *out = pgasi_board_begin(board, whole), *to = s->dst;
    const char *from = s->src;
    if (!out)
        return false;
    for (int i = 0; i < board->n; i++) {
        size_t n = rest_of(s->src_bytes[i], done, s->slice);
        if (n > 0)
            memcpy(out + (size_t)i * s->slice, from + done, n);
        from = s->src_bytes[i] > 0 ? from + s->src_bytes[i] : from;
    }
    pgasi_board_post_to_all(board);
    for (int i = 0; i < board->n; i++) {
        size_t n = rest_of(s->dst_bytes[i], done, s->slice);
        const char *in = pgasi_board_wait(board, i, whole);
        if (!in)
            return false;
        if (n > 0)
            memcpy(to + done, in + (size_t)board->me * s->slice, n);
        to = s->dst_bytes[i] > 0 ? to + s->dst_bytes[i] : to;
    }
    board->known = board->step;
    return true;
}

pgas_status_t pgasi_board_alltoallv(pgasi_board_t *board, const void *src, const size_t *src_bytes,
                                    void *dst, const size_t *dst_bytes)
{
    if (board->n == 1)
        return alone(src, dst, PGASI_MIN(src_bytes[0], dst_bytes[0]));
    if (board->pids && (size_t)board->n <= PGASI_BOARD_AREA / (2 * sizeof(size_t)))
        return pgasi_direct_alltoallv(board, src, src_bytes, dst, dst_bytes);
    size_t most = greatest(src_bytes, board->n), slice = PGASI_BOARD_AREA / (size_t)board->n;
    bool good = max_of_all(board, &most);
    slice = slice > 64 ? slice - slice % 64 : PGASI_MAX(slice, 1);
    slices_t s = { src, dst, src_bytes, dst_bytes, PGASI_MIN(slice, most) };
    for (size_t done = 0; good && done < most; done += s.slice)
        good = alltoallv_slice(board, &s, done);
    return status_of(good);
}
