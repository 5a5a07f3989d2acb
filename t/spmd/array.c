/* Arrays and their elements.
 *   what:   Arrays have any number of elements of any size, any partition and any team. Several
 *           exist at once, and none leaves memory behind. Home and range locate elements. Elements
 *           begin as zero. Set, get, fill, load, store, gather, scatter, compare_swap and fetch_op
 *           have their documented results, typed or not, across chunks and homes. Info counts them.
 *   np:     1 2 3 4 5
 *   nodes:  1 1 2 0 2
 *   tls:    posix posix posix posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   source: pgas/array.h */
#include "t/spmd/array_crew.h"

static pgas_array_t *make(pgas_team_t *team, size_t bytes, uint64_t n,
                          const pgas_array_opts_t *opts)
{
    pgas_array_t *array = NULL;
    BAD(pgas_array_create(team, bytes, n, opts, &array));
    return array;
}

/* ---- partitions, teams, creation ---- */

/* The cache has lines for as many chunks as its bytes are, and for no more than other ranks have.
 * There are fewer only if all chunks of other nodes have lines. */
static bool has_lines(const pgas_array_t *array, uint64_t n_lines)
{
    pgas_array_info_t info = crew_info(array);
    uint64_t n_far = 0, n_others = 0, first, n, chunk = info.chunk_elems;
    for (int r = 0; r < n_ranks; r++) {
        BAD(pgas_array_range(array, r, &first, &n));
        n_far += pgas_node_of(r) != pgas_node() ? (n + chunk - 1) / chunk : 0;
        n_others += r != pgas_rank() ? (n + chunk - 1) / chunk : 0;
    }
    return info.n_lines >= (n_far < n_lines ? n_far : n_lines) &&
           info.n_lines <= (n_others < n_lines ? n_others : n_lines);
}

static void sizes(void)
{
    static const struct {
        size_t asked, is;
    } chunks[] = {
        { 0, 512 }, { 1, 1 }, { 5, 8 }, { 64, 64 }, { 1000, 1024 }, { 1 << 20, 1 << 20 }
    };
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
        opts.chunk_elems = chunks[i].asked;
        opts.cache_bytes = 7 * chunks[i].is;
        pgas_array_t *array = make(NULL, 1, 2000 + i, &opts);
        pgas_array_info_t info = crew_info(array);
        crew_judge(info.chunk_elems == chunks[i].is, "the length of chunks");
        crew_judge(has_lines(array, 7), "as many lines as were asked for");
        crew_judge(pgas_array_n_elems(array) == 2000 + i && info.n_elems == 2000 + i &&
                       info.elem_bytes == 1,
                   "elements and their size");
        BAD(pgas_array_destroy(array));
    }
    pgas_array_t *none = make(NULL, 8, 0, NULL);
    uint64_t first = 1, n = 1;
    BAD(pgas_array_range(none, -1, &first, &n));
    crew_judge(n == 0 && pgas_array_n_elems(none) == 0 && pgas_array_home(none, 0) == -1,
               "an array of no elements");
    BAD(pgas_array_fill(none, &n));
    BAD(pgas_array_load(none, 0, 0, NULL));
    BAD(pgas_array_destroy(none));
    pgas_array_t *one = make(NULL, 8, 1, NULL);
    crew_judge(pgas_array_home(one, 0) == 0, "an array of one element");
    BAD(pgas_array_destroy(one));
    spmd_is_int(crew_faults(), 0, "chunks are powers of two; arrays of no elements and of one");
}

/* Homes, ranges and offsets agree; every element can be used from everywhere. */
static void use_partition(pgas_array_t *array, const uint64_t *offsets)
{
    uint64_t at = 0, first = 0, n = 0, value = 0;
    for (int r = 0; r < n_ranks; r++) {
        BAD(pgas_array_range(array, r, &first, &n));
        crew_judge(offsets ? first == offsets[r] && first + n == offsets[r + 1]
                           : n == 0 || first == at,
                   "a range");
        for (uint64_t i = first; i < first + n; i++)
            crew_judge(pgas_array_home(array, i) == r, "a home");
        at += n;
    }
    crew_judge(at == pgas_array_n_elems(array) && pgas_array_home(array, at) == -1, "all ranges");
    BAD(pgas_array_range(array, -1, &first, &n));
    bool own = n == 0 ||
               (pgas_array_home(array, first) == me && pgas_array_home(array, first + n - 1) == me);
    crew_judge(own, "the own range");
    for (uint64_t i = (uint64_t)me; i < at; i += (uint64_t)n_ranks) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_judge(value == 0, "an element begins as zero");
        BAD(pgas_array_set_u64(array, i, i + 1));
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < at; i++) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_judge(value == i + 1, "what others set");
    }
}

/* Odd borders; all elements at one rank; none at the first ranks; all within one chunk. */
static uint64_t offset_of(int how, int r, uint64_t n)
{
    switch (how) {
    case 0:
        return (uint64_t)r * n / (uint64_t)n_ranks;
    case 1:
        return r > n_ranks / 2 ? n : 0;
    case 2:
        return r == n_ranks - 1 ? 77 : 0;
    default:
        return (uint64_t)(16 + r);
    }
}

static void partitions(void)
{
    uint64_t offsets[JOB_RANKS_MAX + 1] = { 0 }, n = 150, first, most = 0, least = UINT64_MAX,
                                     count;
    for (int how = 0; how < 4; how++) {
        pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
        opts.chunk_elems = 16;
        opts.cache_bytes = 3 * 16 * 8;
        for (int r = 1; r < n_ranks; r++)
            offsets[r] = offset_of(how, r, n);
        offsets[n_ranks] = n;
        opts.offsets = offsets;
        pgas_array_t *array = make(NULL, 8, n, &opts);
        use_partition(array, offsets);
        BAD(pgas_array_destroy(array));
    }
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    opts.chunk_elems = 8;
    pgas_array_t *even = make(NULL, 8, 403, &opts);
    use_partition(even, NULL);
    for (int r = 0; r < n_ranks; r++) {
        BAD(pgas_array_range(even, r, &first, &count));
        crew_judge(first % 8 == 0, "an even share begins with a chunk");
        count = (count + 7) / 8;
        most = count > most ? count : most;
        least = count < least ? count : least;
    }
    crew_judge(most - least <= 1, "even shares");
    BAD(pgas_array_destroy(even));
    spmd_is_int(crew_faults(), 0,
                "partitions: odd, with ranks without elements, within a chunk, and even");
}

/* ---- elements ---- */

static void value_of(uint64_t i, unsigned char *to, size_t bytes)
{
    for (size_t k = 0; k < bytes; k++)
        to[k] = (unsigned char)(i * 31 + k * 7 + bytes);
}

static void any_size(void)
{
    static const size_t all[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 24, 100, 257, 5000 };
    static unsigned char value[5000], back[5000];
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        uint64_t n = 37;
        pgas_array_t *array = crew_array(all[s], n, 4, 3, NULL);
        for (uint64_t i = (uint64_t)me; i < n; i += (uint64_t)n_ranks) {
            value_of(i, value, all[s]);
            BAD(pgas_array_set(array, i, value));
        }
        BAD(pgas_barrier(NULL));
        for (uint64_t i = 0; i < n; i++) {
            value_of(i, value, all[s]);
            memset(back, 0, sizeof back);
            BAD(pgas_array_get(array, i, back));
            crew_judge(memcmp(value, back, all[s]) == 0 && (all[s] == 5000 || back[all[s]] == 0),
                       "what was set");
        }
        value_of(999, value, all[s]);
        BAD(pgas_array_fill(array, value));
        for (uint64_t i = 0; i < n; i++) {
            BAD(pgas_array_get(array, i, back));
            crew_judge(memcmp(value, back, all[s]) == 0, "what fill set");
        }
        BAD(pgas_array_destroy(array));
    }
    spmd_is_int(crew_faults(), 0, "elements of 1 to 5000 bytes: set and get, fill");
}

#define TYPED(tag, type, from)                                                       \
    do {                                                                             \
        pgas_array_t *array = crew_array(sizeof(type), 64 * 50, 512, 3, NULL);       \
        for (uint64_t i = (uint64_t)me; i < 64; i += (uint64_t)n_ranks)              \
            BAD(pgas_array_set_##tag(array, i * 50, (type)((from) + (type)i)));      \
        BAD(pgas_barrier(NULL));                                                     \
        for (uint64_t i = 0; i < 64; i++) {                                          \
            type value = 0;                                                          \
            BAD(pgas_array_get_##tag(array, i * 50, &value));                        \
            crew_judge(value == (type)((from) + (type)i), "a typed element: " #tag); \
        }                                                                            \
        BAD(pgas_array_destroy(array));                                              \
    } while (0)

static void any_type(void)
{
    TYPED(u8, uint8_t, 190);
    TYPED(u16, uint16_t, 65500);
    TYPED(u32, uint32_t, UINT32_MAX - 70);
    TYPED(u64, uint64_t, UINT64_MAX - 70);
    TYPED(i8, int8_t, -30);
    TYPED(i16, int16_t, INT16_MIN);
    TYPED(i32, int32_t, INT32_MIN);
    TYPED(i64, int64_t, INT64_MIN);
    TYPED(f32, float, -17.5f);
    TYPED(f64, double, -1e15);
    spmd_is_int(crew_faults(), 0, "the typed forms");
}

static void bulk(void)
{
    enum { N = 200 };
    static unsigned char from[N * 12], to[N * 12 + 1];
    uint64_t index[N], same[N], offsets[JOB_RANKS_MAX + 1] = { 0 };
    for (int r = 1; r <= n_ranks; r++)
        offsets[r] = r == n_ranks ? N : (uint64_t)(r * 13);
    pgas_array_t *array = crew_array(12, N, 8, 3, offsets);
    for (int k = 0; k < 40; k++) {
        uint64_t first = (uint64_t)(k * 37 % N), n = (uint64_t)(k * 11) % (N - first + 1);
        int turn = k % n_ranks;
        for (size_t i = 0; i < n * 12; i++)
            from[first * 12 + i] = (unsigned char)((size_t)k * 101 + i);
        if (turn == me)
            BAD(pgas_array_store(array, first, n, from + first * 12));
        BAD(pgas_barrier(NULL));
        memset(to, 0xaa, sizeof to);
        BAD(pgas_array_load(array, first, n, to));
        crew_judge(memcmp(to, from + first * 12, n * 12) == 0 && to[n * 12] == 0xaa,
                   "what was stored");
        BAD(pgas_array_load(array, 0, N, to));
        crew_judge(memcmp(to, from, N * 12) == 0, "the whole array");
        BAD(pgas_barrier(NULL));
    }
    for (uint64_t i = 0; i < N; i++)
        index[i] = i * 77 % N; /* all of them */
    for (size_t i = 0; i < N * 12; i++)
        from[i] = (unsigned char)(i * 13);
    if (me == n_ranks - 1)
        BAD(pgas_array_set_many(array, index, N, from));
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_get_many(array, index, N, to));
    crew_judge(memcmp(to, from, N * 12) == 0, "what was scattered");
    for (uint64_t i = 0; i < N; i++)
        same[i] = index[i / 20];
    BAD(pgas_array_get_many(array, same, N, to));
    for (size_t i = 0; i < N; i++)
        crew_judge(memcmp(to + i * 12, from + i / 20 * 12, 12) == 0, "an element named often");
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < N; i++)
        same[i] = 5;
    if (me == 0)
        BAD(pgas_array_set_many(array, same, N, from));
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_get(array, 5, to));
    bool one_of = false;
    for (size_t i = 0; i < N; i++)
        one_of |= memcmp(to, from + i * 12, 12) == 0;
    crew_judge(one_of, "of values for one element one stays");
    BAD(pgas_array_get_many(array, index, 0, NULL));
    BAD(pgas_array_set_many(array, NULL, 0, NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "load and store, gather and scatter, over chunks and homes");
}

/* Runs of elements larger than a call may be. Another rank stores each time, so that all chunks are
 * on another rank. */
static void large_runs(void)
{
    enum { WORDS = 60000 };
    uint64_t *from = job_alloc(WORDS * 8), *to = job_alloc(WORDS * 8);
    pgas_array_t *array = crew_array(8, WORDS, 8192, 2, NULL);
    for (int turn = 0; turn < 2 * n_ranks; turn++) {
        for (uint64_t i = 0; i < WORDS; i++)
            from[i] = i * 5 + (uint64_t)turn;
        if (turn % n_ranks == me)
            BAD(pgas_array_store(array, 3, WORDS - 5, from + 3));
        BAD(pgas_barrier(NULL));
        memset(to, 0, WORDS * 8);
        if ((turn + 1) % n_ranks == me || turn == 0)
            BAD(pgas_array_load(array, 3, WORDS - 5, to + 3));
        else
            memcpy(to, from, WORDS * 8);
        crew_judge(memcmp(to + 3, from + 3, (WORDS - 5) * 8) == 0, "a large run");
        BAD(pgas_barrier(NULL));
    }
    BAD(pgas_array_destroy(array));
    free(from);
    free(to);
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    opts.chunk_elems = 2;
    static unsigned char value[65536], back[65536];
    /* single elements larger than that */
    pgas_array_t *wide = make(NULL, sizeof value, 2 * (uint64_t)n_ranks, &opts);
    for (uint64_t turn = 0; turn < 2 * (uint64_t)n_ranks; turn++) {
        uint64_t i = (3 * turn + 6) % (2 * (uint64_t)n_ranks);
        bool by_index = turn >= (uint64_t)n_ranks;
        value_of(turn + 3, value, sizeof value);
        if ((int)turn % n_ranks == me)
            BAD(by_index ? pgas_array_set_many(wide, &i, 1, value)
                         : pgas_array_set(wide, i, value));
        BAD(pgas_barrier(NULL));
        BAD(by_index ? pgas_array_get_many(wide, &i, 1, back) : pgas_array_get(wide, i, back));
        crew_judge(memcmp(value, back, sizeof value) == 0, "a large element");
        BAD(pgas_barrier(NULL));
    }
    BAD(pgas_array_destroy(wide));
    spmd_is_int(crew_faults(), 0, "runs and elements larger than a call");
}

static void swap_and_fetch(void)
{
    static const size_t all[] = { 1, 2, 3, 4, 8, 24, 256 };
    unsigned char was[256], next[256], old[256];
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        pgas_array_t *array = crew_array(all[s], 20, 4, 3, NULL);
        uint64_t i = (uint64_t)(me * 3) % 20; /* the neighbours are others' */
        memset(was, 0, sizeof was);
        value_of(i + 50, next, all[s]);
        BAD(pgas_array_compare_swap(array, i, was, next, old));
        crew_judge(memcmp(old, was, all[s]) == 0, "compare_swap of what is right");
        was[all[s] - 1] ^= 0x80; /* the last byte counts, too */
        BAD(pgas_array_compare_swap(array, i, was, was, old));
        crew_judge(memcmp(old, next, all[s]) == 0, "compare_swap of what is wrong");
        BAD(pgas_array_get(array, i, old));
        crew_judge(memcmp(old, next, all[s]) == 0, "and it is as it was");
        BAD(pgas_array_destroy(array));
    }
    pgas_array_t *array = crew_array(8, 20, 4, 3, NULL);
    double zero = 0, half = 0.5, before = -1;
    int64_t least = -7;
    for (uint64_t i = 0; i < 10; i++) {
        BAD(pgas_array_fetch_op(array, i, PGAS_OP(PGAS_ADD, PGAS_F64), &half, &before));
        crew_judge(before >= 0 && before <= 0.5 * (n_ranks - 1), "fetch_op of doubles");
        BAD(pgas_array_fetch_op(array, i + 10, PGAS_OP(PGAS_MIN, PGAS_I64), &least, &before));
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < 10; i++) {
        BAD(pgas_array_get_f64(array, i, &zero));
        crew_judge(zero == 0.5 * n_ranks, "the sum");
        BAD(pgas_array_get_i64(array, i + 10, &least));
        crew_judge(least == -7, "the minimum");
    }
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "compare_swap and fetch_op");
}

/* ---- several ---- */

static void teams(void)
{
    pgas_team_t *team = NULL;
    uint64_t value = 0, first = 0, n = 0;
    BAD(pgas_team_split(NULL, me % 2, -me, &team)); /* numbered backwards */
    int size = pgas_team_size(team), rank = pgas_team_rank(team);
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    opts.chunk_elems = 4;
    opts.cache_bytes = 3 * 4 * 8;
    pgas_array_t *ours = make(team, 8, 101, &opts), *all = make(NULL, 8, 90, &opts);
    pgas_array_t *node = make(pgas_team_node(), 4, 33, NULL);
    for (uint64_t i = 0; i < 101; i++) {
        int home = pgas_array_home(ours, i);
        BAD(pgas_array_range(ours, home, &first, &n));
        crew_judge(home >= 0 && home < size && i >= first && i < first + n, "a home in the team");
        if ((int)(i % (uint64_t)size) == rank)
            BAD(pgas_array_set_u64(ours, i, i * 10 + (uint64_t)(me % 2)));
        if (i < 90)
            BAD(pgas_array_apply_u64(all, i, PGAS_ADD, (uint64_t)me));
        BAD(pgas_array_apply_u32(node, i % 33, PGAS_ADD, 1));
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < 101; i++) {
        BAD(pgas_array_get_u64(ours, i, &value));
        crew_judge(value == i * 10 + (uint64_t)(me % 2), "an element of the team's array");
        if (i < 90)
            BAD(pgas_array_get_u64(all, i, &value));
        crew_judge(i >= 90 || value == (uint64_t)(n_ranks * (n_ranks - 1) / 2),
                   "an element of all");
    }
    uint32_t sum = 0, x = 0;
    for (uint64_t i = 0; i < 33; i++)
        sum += BAD(pgas_array_get_u32(node, i, &x)) ? 0 : x;
    crew_judge(sum == 101 * (uint32_t)pgas_node_size(), "elements of the node's array");
    crew_judge(GAVE(pgas_array_range(ours, size, &first, &n), PGAS_ERR_RANGE), "no such rank");
    BAD(pgas_array_destroy(node));
    BAD(pgas_array_destroy(ours));
    BAD(pgas_array_get_u64(all, 3, &value));
    BAD(pgas_array_destroy(all));
    BAD(pgas_team_destroy(team));
    spmd_is_int(crew_faults(), 0, "arrays of teams, several at once");
}

static void many_arrays(void)
{
    enum { N = 40 };
    pgas_array_t *all[N];
    uint64_t value = 0;
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    opts.chunk_elems = 8;
    opts.cache_bytes = 2 * 8 * 8;
    for (int lap = 0; lap < 5; lap++) {
        for (int k = 0; k < N; k++) {
            all[k] = make(NULL, 8, 50 + (uint64_t)k, &opts);
            BAD(pgas_array_get_u64(all[k], (uint64_t)k, &value));
            crew_judge(value == 0, "memory that had been used begins as zero again");
            BAD(pgas_barrier(NULL));
            BAD(pgas_array_apply_u64(all[k], (uint64_t)k, PGAS_ADD, (uint64_t)k));
        }
        BAD(pgas_barrier(NULL));
        for (int k = 0; k < N; k++) {
            int x = (k * 7 + lap) % N; /* in any order */
            BAD(pgas_array_get_u64(all[x], (uint64_t)x, &value));
            crew_judge(value == (uint64_t)(x * n_ranks), "one of many arrays");
            BAD(pgas_array_destroy(all[x]));
        }
    }
    for (int lap = 0; lap < 60; lap++) { /* each takes a tenth of the heap or more */
        pgas_array_t *array = make(NULL, 8, (uint64_t)n_ranks * 400000, NULL);
        BAD(pgas_array_set_u64(array, (uint64_t)(lap * 100 + me), 1));
        BAD(pgas_array_destroy(array));
    }
    spmd_is_int(crew_faults(), 0, "many arrays; none keeps memory");
}

static void info(void)
{
    enum { LINES = 6, CHUNK = 16 };
    uint64_t n = (uint64_t)(n_ranks * CHUNK * 40), value, first = 0, count = 0;
    pgas_array_t *array = crew_array(8, n, CHUNK, LINES, NULL);
    pgas_array_info_t begun = crew_info(array), once, again, all;
    int far = -1; /* a rank of another node */
    for (int r = 0; r < n_ranks; r++)
        far = pgas_node_of(r) != pgas_node() ? r : far;
    crew_judge((begun.n_lines >= 1) == (pgas_n_nodes() > 1) && begun.n_free == begun.n_lines,
               "lines at the beginning");
    crew_judge(begun.misses + begun.evictions + begun.fetches == 0, "info at the beginning");
    crew_judge(begun.bytes >= n / (uint64_t)n_ranks * 8, "bytes of info");
    if (far >= 0) {
        BAD(pgas_array_range(array, far, &first, &count));
        /* by then the chunk is here, however cautious the first accesses are */
        for (int k = 0; k < 50; k++)
            BAD(pgas_array_get_u64(array, first + (uint64_t)k % CHUNK, &value));
        once = crew_info(array);
        crew_judge(once.misses > begun.misses && once.messages > 0, "misses are counted");
        crew_judge(once.fetches + once.remote_ops > 0, "and what they cost");
        crew_judge(once.n_free < once.n_lines, "a line is in use");
        for (int k = 0; k < 50; k++)
            BAD(pgas_array_get_u64(array, first + (uint64_t)k % CHUNK, &value));
        again = crew_info(array);
        crew_judge(again.misses == once.misses && again.fetches == once.fetches,
                   "what is held is not asked for again");
    }
    pgas_array_walk_t w;
    BAD(pgas_array_walk_begin(array, 0, n, PGAS_ARRAY_READ, 0, &w));
    while (pgas_array_walk_next(&w))
        count += w.n;
    BAD(pgas_array_walk_end(&w));
    all = crew_info(array);
    crew_judge(far < 0 || (all.evictions > 0 && all.data_bytes + all.fetches > 0),
               "evictions are counted");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0,
                "info counts misses, fetches, evictions; what is held costs none");
}

/* Whatever was judged here can also be found wrong. */
static void judges_can_fail(void)
{
    pgas_array_t *array = crew_array(8, 20, 4, 3, NULL);
    uint64_t value = 0;
    crew_mute();
    if (me == 0)
        BAD(pgas_array_get_u64(array, 20, &value));
    crew_judge(value == 1, "on purpose");
    int n_faults = crew_faults();
    spmd_is_int(n_faults, me == 0 ? 2 : 1, "a status and a value that are wrong are counted");
    BAD(pgas_array_destroy(array));
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 11);
    sizes();
    partitions();
    any_size();
    any_type();
    bulk();
    large_runs();
    swap_and_fetch();
    teams();
    many_arrays();
    info();
    judges_can_fail();
    return job_end();
}
