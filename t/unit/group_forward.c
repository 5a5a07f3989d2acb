/* what: The way verbs on a replica. A wrong piece of a client ends its chain with a status, and
 *       nothing of it is written; the chains of other clients continue. After a drain a replica
 *       reports exactly what it has executed, and the old words.
 * log: warn: .*(has sent a wrong piece|asks for another way)
 * source: group/program.h, group/wire.h */
#include "base/checks.h"
#include "t/unit/group_bare.h"

#define REGION   65536u
#define N        3u
#define SLOTS    16u
#define PIECE    512u
#define N_BEFORE 3u /* good pieces in front of a wrong one */
#define COUNTERS 64u

static pgas_replica_t *replicas[N];
static unsigned char *regions[N];
static char addresses[N][PGASI_GROUP_NAME_BYTES];

static void start(void)
{
    pgas_replica_info_t info = { .size = sizeof info };
    for (uint32_t i = N; i-- > 0;) {
        pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
        opts.listen = "127.0.0.1:0";
        opts.next = i + 1 < N ? addresses[i + 1] : NULL;
        opts.region_bytes = REGION;
        must(pgas_replica_create(&opts, &replicas[i]), "a replica");
        must(pgas_replica_info(replicas[i], &info), "its description");
        memcpy(addresses[i], info.address, sizeof addresses[i]);
        regions[i] = info.region;
    }
}

static void stop(void)
{
    for (uint32_t i = 0; i < N; i++)
        must(pgas_replica_destroy(replicas[i]), "the end of a replica");
}

/* ---- a client ---- */

typedef struct {
    bare_link_t links[N];
    bare_chain_t chain;
} client_t;

static void greet(client_t *client, uint64_t number)
{
    for (uint32_t i = 0; i < N; i++) {
        bare_dial(&client->links[i], addresses[i]);
        must(bare_hello(&client->links[i], "", number), "HELLO");
    }
    for (uint32_t i = 0; i < N; i++)
        must(bare_members(&client->links[i], client->links, N, 1, 0), "MEMBERS");
    bare_queues(&client->chain, client->links, N, SLOTS, PIECE);
}

static void begin(client_t *client, uint64_t number)
{
    greet(client, number);
    must(bare_open(&client->chain, 1), "OPEN");
}

static void end(client_t *client)
{
    for (uint32_t i = 0; i < N; i++)
        bare_hang_up(&client->links[i]);
    bare_end(&client->chain);
}

/* ---- wrong pieces ---- */

typedef struct {
    const char *name;
    pgasi_group_piece_t piece;
    int number_off, bytes_off; /* of the piece's number, of the message's length */
} wrong_t;

#define FAR (REGION - 8)
static const wrong_t wrongs[] = {
    { "a write behind the region",
      { .kind = PGAS_GROUP_WRITE, .offset = REGION, .bytes = 8 },
      0,
      0 },
    { "a write across its end", { .kind = PGAS_GROUP_WRITE, .offset = FAR, .bytes = 9 }, 0, 0 },
    { "an offset that overflows",
      { .kind = PGAS_GROUP_WRITE, .offset = UINT64_MAX - 7, .bytes = 16 },
      0,
      0 },
    { "a write without its data", { .kind = PGAS_GROUP_WRITE, .bytes = 128 }, 0, -64 },
    { "a write with more data", { .kind = PGAS_GROUP_WRITE, .bytes = 128 }, 0, 64 },
    { "a write that is larger than pieces are",
      { .kind = PGAS_GROUP_WRITE, .bytes = PIECE + 8 },
      0,
      -8 },
    { "a flush with data", { .kind = PGAS_GROUP_FLUSH, .bytes = 8 }, 0, 8 },
    { "a flush across the end", { .kind = PGAS_GROUP_FLUSH, .offset = FAR, .bytes = 16 }, 0, 0 },
    { "a memcpy from behind the region",
      { .kind = PGAS_GROUP_MEMCPY, .source = REGION - 4, .bytes = 8 },
      0,
      0 },
    { "a memcpy to behind the region",
      { .kind = PGAS_GROUP_MEMCPY, .offset = REGION - 4, .bytes = 8 },
      0,
      0 },
    { "a memcpy that overlaps itself",
      { .kind = PGAS_GROUP_MEMCPY, .offset = 8, .source = 0, .bytes = 16 },
      0,
      0 },
    { "a memcpy of more than the region",
      { .kind = PGAS_GROUP_MEMCPY, .offset = 8, .bytes = UINT32_MAX },
      0,
      0 },
    { "a cas that is not aligned",
      { .kind = PGAS_GROUP_CAS, .offset = 4, .desired = 7, .execute_map = 7, .bytes = 8 },
      0,
      0 },
    { "a cas behind the region",
      { .kind = PGAS_GROUP_CAS, .offset = REGION, .desired = 7, .execute_map = 7, .bytes = 8 },
      0,
      0 },
    { "a cas of four bytes",
      { .kind = PGAS_GROUP_CAS, .desired = 7, .execute_map = 7, .bytes = 4 },
      0,
      0 },
    { "no operation", { .kind = 0, .bytes = 8 }, 0, 0 },
    { "an unknown operation", { .kind = 77, .bytes = 8 }, 0, 0 },
    { "the number of another piece", { .kind = PGAS_GROUP_WRITE, .bytes = 8 }, 1, 0 },
    { "half a head", { .kind = PGAS_GROUP_FLUSH, .bytes = 8 }, 0, -56 },
    { "a message of one byte", { .kind = PGAS_GROUP_FLUSH, .bytes = 8 }, 0, -87 },
};

/* Sends a message that need not be right. */
static void send_wrong(bare_chain_t *c, const wrong_t *wrong)
{
    unsigned char *message = bare_message(c, c->sent);
    pgasi_group_piece_t piece = wrong->piece;
    piece.number = c->sent + (uint64_t)wrong->number_off;
    memset(message, 0xdd, c->layout.room);
    memcpy(message, &piece, sizeof piece);
    uint32_t data_bytes = piece.kind == PGAS_GROUP_WRITE ? piece.bytes : 0,
             bytes = pgasi_group_message_bytes(false, N, 0, data_bytes);
    pgas_verbs_span_t span = { (uintptr_t)message, bytes + (uint32_t)wrong->bytes_off,
                               c->mem.lkey };
    const pgas_verbs_request_t request = {
        .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_SIGNAL, .spans = &span, .n_spans = 1
    };
    must(pgas_verbs_qp_post(c->out, &request, 1, NULL), "a message");
    c->sent++;
}

/* A good piece: a write of one word. */
static void send_word(bare_chain_t *c, uint64_t offset, uint64_t word)
{
    const pgasi_group_piece_t piece = { .kind = PGAS_GROUP_WRITE,
                                        .offset = offset,
                                        .bytes = sizeof word };
    bare_send(c, piece, &word);
}

/* The words of the good pieces, and nothing else. */
static bool are_regions_right(uint64_t offset, uint64_t mark)
{
    static unsigned char want[REGION];
    bool right = true;
    for (uint64_t k = 0; k < N_BEFORE; k++) {
        uint64_t word = mark + k;
        memcpy(want + offset + 8 * k, &word, sizeof word);
    }
    for (uint32_t i = 0; i < N; i++)
        right = right && memcmp(regions[i], want, REGION) == 0;
    return right;
}

static void test_wrong(const wrong_t *wrong, uint64_t mark)
{
    const uint64_t offset = 1024;
    client_t client;
    bare_record_t closed;
    pgasi_group_status_t words;
    begin(&client, 1);
    bare_chain_t *c = &client.chain;
    for (uint64_t k = 0; k < N_BEFORE; k++)
        send_word(c, offset + 8 * k, mark + k);
    bool good = bare_await(c, N_BEFORE);
    send_wrong(c, wrong);
    send_word(c, 0, mark); /* comes too late */
    good = good && bare_notices(&client.links[0], 1) && client.links[0].notice.status < 0;
    good = good && bare_status(c, 0, &words) == PGAS_OK &&
           words.error == (uint64_t)(int64_t)client.links[0].notice.status;
    for (uint32_t i = 0; i < N; i++)
        good = good && bare_close(&client.links[i], &closed) == N_BEFORE;
    ok(good && are_regions_right(offset, mark), "%s ends the chain, and writes nothing",
       wrong->name);
    end(&client);
}

/* ---- other clients ---- */

static void test_others(void)
{
    client_t good, bad;
    begin(&good, 1);
    begin(&bad, 2);
    bool runs = true;
    for (uint64_t k = 0; k < COUNTERS && runs; k++) {
        if (k == COUNTERS / 2)
            send_wrong(&bad.chain, &wrongs[0]);
        send_word(&good.chain, 2048, k);
        runs = bare_await(&good.chain, good.chain.sent) && bare_await_armed(&good.chain, 1);
    }
    ok(runs && bare_notices(&bad.links[0], 1) && good.links[0].n_notices == 0,
       "the chain of another client continues");
    end(&bad);
    end(&good);
}

/* The queues of a chain are made before it is refused. */
static void test_mixed(void)
{
    client_t verbs, chain;
    begin(&verbs, 1);
    bare_way = PGAS_GROUP_CHAIN;
    greet(&chain, 2);
    ok(bare_open(&chain.chain, 1) == PGAS_ERR_MISMATCH, "no way chain beside the way verbs");
    for (uint32_t i = 0; i < N; i++)
        bare_close(&verbs.links[i], NULL);
    end(&verbs);
    must(bare_open(&chain.chain, 1), "OPEN");
    bare_way = PGAS_GROUP_VERBS;
    greet(&verbs, 1);
    ok(bare_open(&verbs.chain, 1) == PGAS_ERR_MISMATCH, "nor the other way round");
    end(&chain);
    end(&verbs);
}

/* ---- drains ---- */

/* The client closes its chain without waiting for acknowledgements. */
static void test_drain(uint32_t n)
{
    client_t client;
    bool good = true;
    uint64_t executed[N] = { 0 };
    memset(regions[0] + 4096, 0, 8);
    memset(regions[1] + 4096, 0, 8);
    memset(regions[2] + 4096, 0, 8);
    begin(&client, 3);
    for (uint64_t k = 0; k < n; k++) {
        const pgasi_group_piece_t piece = { .kind = PGAS_GROUP_CAS,
                                            .offset = 4096,
                                            .source = k,
                                            .desired = k + 1,
                                            .execute_map = UINT64_MAX,
                                            .bytes = 8 };
        bare_send(&client.chain, piece, &k);
    }
    for (uint32_t i = 0; i < N; i++) {
        bare_record_t closed;
        uint64_t counter;
        executed[i] = bare_close(&client.links[i], &closed);
        memcpy(&counter, regions[i] + 4096, sizeof counter);
        good = good && counter == executed[i] && executed[i] <= n && closed.n_old == executed[i] &&
               (i == 0 || executed[i] <= executed[i - 1]);
        for (uint64_t k = 0; k < closed.n_old; k++)
            good = good && closed.old[k] == k;
    }
    ok(good, "drained with %u pieces under way: counts and old words are exact", n);
    end(&client);
}

/* ---- all of it ---- */

int main(void)
{
    const uint32_t n_wrong = (uint32_t)PGASI_ARRAY_LENGTH(wrongs);
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    dev.device = "snic";
    dev.engine = PGAS_VERBS_ENGINE_THREAD;
    pgasi_group_dev_opts = &dev;
    bare_way = PGAS_GROUP_VERBS;
    plan((int)n_wrong + 7);
    start();
    for (uint32_t i = 0; i < n_wrong; i++)
        test_wrong(&wrongs[i], UINT64_C(1000) * (i + 1));
    test_others();
    test_mixed();
    for (uint32_t n = 2; n <= SLOTS; n *= 2)
        test_drain(n);
    stop();
    return done();
}
