/* Sends the same commands to two servers that speak Redis' protocol, and compares their replies.
 *
 *   redis_compare random PORT PORT SEED N    N random commands: all options, wrong arities, types
 *                                            and values, in pipelines of 1 to 32
 *   redis_compare broken PORT PORT           requests that break the protocol
 *   redis_compare plant PORT PORT SEED N     as random, but one reply is changed on purpose
 *   redis_compare trace PORT PORT SEED N     as random, but all commands and replies are printed
 *
 * The replies must be equal byte by byte. `exceptions` below lists all commands for which less is
 * asked, with the reason. The first differences are printed; the exit status is then 1. */
#include "t/spmd/redis_commands.h"

#define PIPELINE_MAX    32
#define DIFFERENCES_MAX 20
#define ERROR_BYTES     128

typedef enum {
    SAME,      /* byte by byte */
    SAME_KIND, /* the first byte; errors byte by byte */
    NEARLY,    /* integers that differ by at most 1, where both are above 0 */
    ALL_KEYS,  /* the same keys, when all cursors have been followed */
    ANY        /* any reply, or the end of the connection */
} rule_t;

typedef struct {
    const char *command, *subcommand;
    rule_t rule;
    const char *reason;
} exception_t;

static const exception_t exceptions[] = {
    { "INFO", NULL, SAME_KIND, "it describes the server" },
    { "HELLO", NULL, SAME_KIND, "it has the server's name, version and number of the client" },
    { "COMMAND", NULL, SAME_KIND, "the servers have different commands" },
    { "CONFIG", "GET", SAME_KIND, "the servers have different settings" },
    { "CLIENT", "ID", SAME_KIND, "the server numbers its clients" },
    { "CLIENT", "LIST", SAME_KIND, "it describes the server's clients" },
    { "CLIENT", "INFO", SAME_KIND, "it describes the server's client" },
    { "SCAN", NULL, ALL_KEYS, "cursors, and the order of keys, are the server's" },
    { "TTL", NULL, NEARLY, "the second may end between the two servers" },
};

static int n_different;
static bool trace;

/* ---- comparing ---- */

static bool is_word(const command_t *c, size_t i, const char *word)
{
    return i < c->n && c->arg[i].n == strlen(word) &&
           strncasecmp(c->arg[i].bytes, word, c->arg[i].n) == 0;
}

static rule_t rule_of(const command_t *c)
{
    if (is_word(c, 0, "SCAN") && c->n > 1 && !is_word(c, 1, "0"))
        return ANY; /* other cursors are the server's; Redis takes any text for one */
    for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
        const exception_t *e = &exceptions[i];
        if (is_word(c, 0, e->command) && (!e->subcommand || is_word(c, 1, e->subcommand)))
            return e->rule;
    }
    return SAME;
}

static void print_command(const command_t *c)
{
    for (size_t i = 0; i < c->n; i++)
        print_text(i ? " " : "", c->arg[i].bytes, c->arg[i].n);
}

static void differ(const char *what, const text_t reply[2])
{
    print_text("  one:   ", reply[0].bytes, reply[0].n);
    print_text("\n  other: ", reply[1].bytes, reply[1].n);
    printf("%s%s\n", *what ? "\n  " : "", what);
    if (++n_different == DIFFERENCES_MAX) {
        printf("%d differences, no further ones are looked for\n", n_different);
        exit(1);
    }
}

/* Long errors repeat what the client sent, and pgas_kvsd cuts them. */
static bool same_long_errors(const text_t reply[2])
{
    return reply[0].n > ERROR_BYTES && reply[1].n > ERROR_BYTES && reply[0].bytes[0] == '-' &&
           memcmp(reply[0].bytes, reply[1].bytes, ERROR_BYTES) == 0;
}

static bool same_bytes(const text_t reply[2])
{
    return reply[0].n == reply[1].n &&
           (reply[0].n == 0 || memcmp(reply[0].bytes, reply[1].bytes, reply[0].n) == 0);
}

static bool agree(rule_t rule, const text_t reply[2])
{
    if (same_bytes(reply) || same_long_errors(reply) || rule == ANY)
        return true;
    if (reply[0].n == 0 || reply[1].n == 0 || reply[0].bytes[0] != reply[1].bytes[0])
        return false;
    if (rule == SAME_KIND)
        return reply[0].bytes[0] != '-';
    if (rule != NEARLY || reply[0].bytes[0] != ':')
        return false;
    long long a = atoll(reply[0].bytes + 1), b = atoll(reply[1].bytes + 1);
    return a > 0 && b > 0 && llabs(a - b) <= 1;
}

/* ---- scans ---- */

#define KEYS_MAX 256

typedef struct {
    char key[KEYS_MAX][64];
    int n;
} keys_t;

static int by_text(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(char[64]));
}

/* Takes the keys of a reply "*2 $cursor *n keys". @return false if it is not one */
static bool take_keys(keys_t *keys, text_t reply, char cursor[64])
{
    const char *p = reply.bytes;
    if (reply.n < 8 || strncmp(p, "*2\r\n$", 5) != 0)
        return false;
    size_t n = reply_length(p + 4, reply.n - 4);
    const char *digits = memchr(p + 4, '\n', n);
    snprintf(cursor, 64, "%.*s", (int)strcspn(digits + 1, "\r"), digits + 1);
    p += 4 + n;
    int count = atoi(p + 1);
    p = strchr(p, '\n') + 1;
    for (int i = 0; i < count && keys->n < KEYS_MAX; i++) {
        char *key = keys->key[keys->n++];
        memset(key, 0, 64);
        size_t bytes = (size_t)atol(p + 1);
        p = strchr(p, '\n') + 1;
        memcpy(key, p, bytes < 63 ? bytes : 63);
        p += bytes + 2;
    }
    return true;
}

/* Follows the cursors to the end. Keys may come twice. */
static bool all_keys(wire_t *w, command_t c, text_t reply, keys_t *keys)
{
    char cursor[64];
    int n = 0;
    keys->n = 0;
    for (int i = 0; i < 10000 && take_keys(keys, reply, cursor); i++) {
        if (strcmp(cursor, "0") == 0) {
            qsort(keys->key, (size_t)keys->n, 64, by_text);
            for (int k = 0; k < keys->n; k++)
                if (k == 0 || by_text(keys->key[k], keys->key[k - 1]) != 0)
                    memmove(keys->key[n++], keys->key[k], 64);
            keys->n = n;
            return true;
        }
        c.arg[1] = (text_t){ cursor, strlen(cursor) };
        wire_command(w, c.arg, c.n);
        wire_send(w);
        reply = wire_reply(w);
    }
    return false;
}

static bool agree_on_keys(wire_t w[2], const command_t *c, const text_t reply[2])
{
    static keys_t keys[2];
    for (int i = 0; i < 2; i++)
        if (!all_keys(&w[i], *c, reply[i], &keys[i]))
            return false;
    return keys[0].n == keys[1].n && memcmp(keys[0].key, keys[1].key, (size_t)keys[0].n * 64) == 0;
}

/* ---- the runs ---- */

static void both_open(wire_t w[2], char **ports)
{
    for (int i = 0; i < 2; i++)
        wire_open(&w[i], atoi(ports[i]));
}

/* After a reply without bytes both servers have closed, as with QUIT. */
static void open_again(wire_t w[2], char **ports)
{
    for (int i = 0; i < 2; i++)
        wire_close(&w[i]);
    both_open(w, ports);
}

static bool compare_one(wire_t w[2], const command_t *c, long number, bool plant)
{
    text_t reply[2] = { wire_reply(&w[0]), wire_reply(&w[1]) };
    rule_t rule = rule_of(c);
    if (plant && reply[0].n > 0)
        w[0].in.bytes[w[0].used - 3] ^= 1;
    bool errors = reply[0].n > 0 && reply[0].bytes[0] == '-';
    bool good = rule == ALL_KEYS && !errors ? agree_on_keys(w, c, reply) : agree(rule, reply);
    if (trace) {
        print_text("reply ", reply[1].bytes, reply[1].n);
        printf(" of ");
        print_command(c);
        printf("\n");
    }
    if (!good) {
        printf("command %ld: ", number);
        print_command(c);
        printf("\n");
        differ(rule == ALL_KEYS ? "the keys of the whole scan differ" : "", reply);
    }
    return reply[0].n > 0 && reply[1].n > 0;
}

/* A pipeline ends with a command that needs the connection for itself. */
static bool is_last(const command_t *c)
{
    return rule_of(c) == ALL_KEYS || is_word(c, 0, "QUIT");
}

static void run_random(char **ports, uint64_t seed, long n, bool plant)
{
    static command_t command[PIPELINE_MAX];
    wire_t w[2];
    pgasi_rng_seed(&rng, seed);
    both_open(w, ports);
    for (long done = 0; done < n;) {
        long k = 0, most = below(3) ? 1 : 1 + (long)below(PIPELINE_MAX);
        while (k < most && done + k < n) {
            draw(&command[k++]);
            if (k > 1 && rule_of(&command[k - 1]) == ALL_KEYS)
                k--; /* for it, all replies must be read */
            else if (is_last(&command[k - 1]))
                break;
        }
        for (int i = 0; i < 2; i++) {
            for (long j = 0; j < k; j++)
                wire_command(&w[i], command[j].arg, command[j].n);
            wire_send(&w[i]);
        }
        bool open = true;
        for (long j = 0; j < k && open; j++)
            open = compare_one(w, &command[j], done + j, plant && done + j == n / 2);
        if (!open || is_word(&command[k - 1], 0, "QUIT"))
            open_again(w, ports);
        done += k;
    }
    wire_close(&w[0]);
    wire_close(&w[1]);
}

#define RAW(text)             \
    {                         \
        text, sizeof text - 1 \
    }
/* Each is followed by PING: the answer shows whether the server still listens. Not compared,
 * because Redis is more lenient: a string that does not end with CRLF, and more than 2^20
 * arguments. */
static const text_t broken[] = {
    RAW("PING\r\n"),
    RAW("ping\n"),
    RAW("\r\n"),
    RAW("\r\n\r\nECHO 'a b'\r\n"),
    RAW("ECHO \"a\\x41\\n\"\r\n"),
    RAW("SET a 'it\\'s'\r\nGET a\r\n"),
    RAW("ECHO \"open\r\n"),
    RAW("ECHO 'open\r\n"),
    RAW("ECHO \"a\"b\r\n"),
    RAW("*0\r\n"),
    RAW("*-1\r\n"),
    RAW("*-10\r\n"),
    RAW("*x\r\n"),
    RAW("*1x\r\n"),
    RAW("*\r\n"),
    RAW("* 1\r\n$4\r\nPING\r\n"),
    RAW("*2147483648\r\n"),
    RAW("*9223372036854775808\r\n"),
    RAW("*1\r\nPING\r\n"),
    RAW("*1\r\n+PING\r\n"),
    RAW("*1\r\n:1\r\n"),
    RAW("*1\r\n$x\r\n"),
    RAW("*1\r\n$\r\n"),
    RAW("*1\r\n$-1\r\n"),
    RAW("*1\r\n$-2\r\n"),
    RAW("*1\r\n$536870913\r\n"),
    RAW("*1\r\n$99999999999999999999\r\n"),
    RAW("*1\r\n$0\r\n\r\n"),
    RAW("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"),
    RAW("GET\r\n"),
    RAW("\x01\x02\xff\r\n"),
    RAW("POST / HTTP/1.1\r\n\r\n"),
    RAW("Host: here\r\n\r\n"),
};

/* All bytes until the server closes, or until the answer to PING. */
static text_t all_replies(wire_t *w)
{
    static const char end[] = "the-end\r\n";
    size_t n = sizeof end - 1;
    while (w->in.n < n || memcmp(w->in.bytes + w->in.n - n, end, n) != 0)
        if (!wire_receive(w))
            break;
    return (text_t){ w->in.bytes, w->in.n };
}

static void run_broken(char **ports)
{
    static const char ping[] = "*2\r\n$4\r\nPING\r\n$7\r\nthe-end\r\n";
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        wire_t w[2];
        text_t reply[2];
        both_open(w, ports);
        for (int k = 0; k < 2; k++) {
            buffer_add(&w[k].out, broken[i].bytes, broken[i].n);
            buffer_add(&w[k].out, ping, sizeof ping - 1);
            wire_send(&w[k]);
            reply[k] = all_replies(&w[k]);
        }
        if (!same_bytes(reply)) {
            print_text("request ", broken[i].bytes, broken[i].n);
            printf("\n");
            differ("", reply);
        }
        wire_close(&w[0]);
        wire_close(&w[1]);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "broken") == 0) {
        run_broken(argv + 2);
    } else if (argc == 6) {
        printf("seed %s\n", argv[4]);
        trace = *argv[1] == 't';
        run_random(argv + 2, strtoull(argv[4], NULL, 0), atol(argv[5]), *argv[1] == 'p');
    } else {
        printf("usage: redis_compare random|plant|trace PORT PORT SEED N, or redis_compare broken "
               "PORT "
               "PORT\n");
        return 2;
    }
    return n_different > 0;
}
