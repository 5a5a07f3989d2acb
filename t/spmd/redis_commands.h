/* Random commands of Redis' protocol, for redis_compare: few keys, all options, and now and then a
 * wrong arity, type or value.
 *
 *   pgasi_rng_seed(&rng, 1);
 *   command_t c;
 *   draw(&c);
 */
#ifndef T_SPMD_REDIS_COMMANDS_H
#define T_SPMD_REDIS_COMMANDS_H

#include "t/random.h"
#include "t/spmd/redis_wire.h"

#define ARGS_MAX 24

typedef struct {
    text_t arg[ARGS_MAX];
    size_t n;
    char store[8192]; /* the bytes of the arguments */
    size_t n_stored;
} command_t;

/* What is drawn. Letters of `args`: k key, v value, i integer, n small integer, o offset, s
 * seconds, p pattern, c cursor, m message, w word; + repeats the part before it; * options may
 * follow. */
typedef struct {
    const char *name, *args;
    int weight;
    const char *const *options;
} form_t;

static const char *const set_options[] = { "EX s",    "PX s",   "NX",     "XX", "GET",
                                           "KEEPTTL", "EXAT t", "PXAT u", NULL };
static const char *const expire_options[] = { "NX", "XX", "GT", "LT", NULL };
static const char *const scan_options[] = { "MATCH p", "COUNT n", "TYPE y", NULL };
static const char *const flush_options[] = { "SYNC", "ASYNC", NULL };
/* pgas_kvsd checks all words of HELLO before it acts, and Redis acts on each before it reads the
 * next one. So HELLO has one option, and no words too many. */
static const char *const hello_options[] = { "AUTH w w", "SETNAME w", NULL };

static const form_t forms[] = {
    { "SET", "kv*", 30, set_options },
    { "GET", "k", 20, NULL },
    { "MGET", "k+", 6, NULL },
    { "MSET", "kv+", 6, NULL },
    { "DEL", "k+", 5, NULL },
    { "EXISTS", "k+", 5, NULL },
    { "INCR", "k", 8, NULL },
    { "DECR", "k", 4, NULL },
    { "INCRBY", "ki", 6, NULL },
    { "DECRBY", "ki", 6, NULL },
    { "APPEND", "kv", 5, NULL },
    { "STRLEN", "k", 4, NULL },
    { "GETRANGE", "koo", 8, NULL },
    { "SETRANGE", "kov", 8, NULL },
    { "GETDEL", "k", 4, NULL },
    { "EXPIRE", "ks*", 8, expire_options },
    { "TTL", "k", 8, NULL },
    { "PERSIST", "k", 4, NULL },
    { "TYPE", "k", 4, NULL },
    { "SCAN", "c*", 5, scan_options },
    { "DBSIZE", "", 3, NULL },
    { "FLUSHALL", "*", 1, flush_options },
    { "PING", "", 2, NULL },
    { "PING", "m", 1, NULL },
    { "ECHO", "v", 2, NULL },
    { "HELLO", "", 1, NULL },
    { "HELLO", "h*", 2, hello_options },
    { "AUTH", "w", 1, NULL },
    { "AUTH", "ww", 1, NULL },
    { "SELECT", "d", 2, NULL },
    { "INFO", "", 1, NULL },
    { "INFO", "w", 1, NULL },
    { "COMMAND", "", 1, NULL },
    { "COMMAND COUNT", "", 1, NULL },
    { "COMMAND DOCS", "g", 1, NULL },
    { "COMMAND NONE", "", 1, NULL },
    { "CONFIG GET", "w", 2, NULL },
    { "CONFIG NONE", "w", 1, NULL },
    { "CLIENT ID", "", 1, NULL },
    { "CLIENT INFO", "", 1, NULL },
    { "CLIENT LIST", "", 1, NULL },
    { "CLIENT GETNAME", "", 2, NULL },
    { "CLIENT SETNAME", "w", 2, NULL },
    { "CLIENT SETNAME", "v", 1, NULL },
    { "CLIENT NONE", "w", 1, NULL },
    { "QUIT", "", 1, NULL },
    { "NOSUCH", "", 1, NULL },
    { "NOSUCH", "kv+", 2, NULL },
};
#define N_FORMS ((int)(sizeof forms / sizeof forms[0]))

static void add_bytes(command_t *c, const void *bytes, size_t n)
{
    if (c->n == ARGS_MAX || c->n_stored + n > sizeof c->store)
        return;
    char *place = c->store + c->n_stored;
    memcpy(place, bytes, n);
    c->arg[c->n++] = (text_t){ place, n };
    c->n_stored += n;
}

static void add_word(command_t *c, const char *word)
{
    add_bytes(c, word, strlen(word));
}

#define ADD_ONE_OF(c, ...)                                          \
    do {                                                            \
        static const char *const words_[] = { __VA_ARGS__ };        \
        add_word(c, words_[below(sizeof words_ / sizeof *words_)]); \
    } while (0)

static void add_key(command_t *c)
{
    if (below(40) == 0)
        add_bytes(c, "zero\0key", below(2) ? 8 : 5);
    else
        ADD_ONE_OF(c, "a", "b", "c", "d", "i1", "i2", "i3", "long:key:with:parts:0000000000001");
}

static void add_number(command_t *c, uint64_t n, bool negative)
{
    char text[32];
    add_bytes(c, text, (size_t)sprintf(text, "%s%llu", negative ? "-" : "", (unsigned long long)n));
}

static void add_value(command_t *c)
{
    char bytes[600];
    size_t n = below(8) ? below(24) : below(sizeof bytes);
    switch (below(6)) {
    case 0:
    case 1:
        add_number(c, below(1000), below(4) == 0);
        break;
    case 2:
        ADD_ONE_OF(c, "9223372036854775807", "-9223372036854775808", "9223372036854775806", "007",
                   " 1", "1 ", "+1", "-0", "0", "", "1.5", "1e3", "9223372036854775808",
                   "00000000000000000000000000000000001");
        break;
    default:
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(below(3) ? 97 + below(26) : below(256));
        add_bytes(c, bytes, n);
    }
}

static void add_integer(command_t *c)
{
    if (below(4))
        add_number(c, below(below(2) ? 10 : 100000), below(3) == 0);
    else
        ADD_ONE_OF(c, "9223372036854775807", "-9223372036854775808", "-9223372036854775807",
                   "9223372036854775808", "", "x", "1x", " 1", "1.0", "007", "-0", "+5");
}

/* Seconds are so many that no key expires during the test, or so few that it has expired. */
static void add_seconds(command_t *c)
{
    if (below(5))
        add_number(c, 100000 + below(1000000), false);
    else
        ADD_ONE_OF(c, "0", "-1", "-100", "9223372036854775807", "-9223372036854775808",
                   "9223372036854775", "x", "", "1.5", "9999999999999999999");
}

static void add_pattern(command_t *c)
{
    ADD_ONE_OF(c, "*", "?", "i*", "i[12]", "[^i]", "[a-c]", "[c-a]", "*:*:*", "\\a", "a", "", "i?",
               "[", "[a", "**", "zero*", "\\", "[\\a]*", "*1", "no*such");
}

static void add_letter(command_t *c, char letter)
{
    switch (letter) {
    case 'k':
        add_key(c);
        break;
    case 'v':
        add_value(c);
        break;
    case 'i':
        add_integer(c);
        break;
    case 's':
        add_seconds(c);
        break;
    case 'p':
        add_pattern(c);
        break;
    case 'm':
        add_value(c);
        break;
    case 'n':
        ADD_ONE_OF(c, "1", "2", "3", "10", "1000", "100000", "0", "-1", "x", "");
        break;
    case 'c':
        ADD_ONE_OF(c, "0", "0", "0", "0", "0", "x", "-1", "", "1.5");
        break;
    case 'd':
        ADD_ONE_OF(c, "0", "0", "0", "1", "-1", "x", "", "99999999999999999999");
        break;
    case 'h':
        ADD_ONE_OF(c, "2", "3", "3", "1", "4", "x", "-3", "", "3.0");
        break;
    case 'y':
        ADD_ONE_OF(c, "string", "STRING", "list", "none", "x");
        break;
    case 'g':
        ADD_ONE_OF(c, "get", "set", "nosuch", "GET");
        break;
    case 't':
        ADD_ONE_OF(c, "4102444800", "1", "0", "-1", "x", "9223372036854775807");
        break;
    case 'u':
        ADD_ONE_OF(c, "4102444800000", "1", "0", "-1", "x", "9223372036854775807");
        break;
    case 'o':
        if (below(3))
            add_number(c, below(30), below(3) == 0);
        else
            ADD_ONE_OF(c, "0", "-1", "5000", "-5000", "x", "", "9223372036854775807", "536870912",
                       "-9223372036854775808", "536870911000", "1.5");
        break;
    default:
        ADD_ONE_OF(c, "default", "server", "name", "maxmemory", "*", "two words", "");
    }
}

/* An option such as "EX s": the first word as it is, mostly, and a letter for each further word. */
static void add_option(command_t *c, const char *option)
{
    char word[16];
    size_t n = strcspn(option, " ");
    for (size_t i = 0; i <= n; i++)
        word[i] = (char)(i < n ? option[i] : '\0');
    if (below(3) == 0)
        for (char *p = word; *p; p++)
            *p = (char)(*p | 32);
    add_word(c, word);
    for (option += n; *option == ' '; option += 2)
        add_letter(c, option[1]);
}

static void add_options(command_t *c, const char *const *options)
{
    size_t n = 0;
    while (options[n])
        n++;
    for (uint64_t k = below(3) ? below(2) : below(4); k > 0; k--)
        add_option(c, options[below(n)]);
}

static void add_name(command_t *c, const char *name)
{
    char word[16];
    uint64_t letters = below(4) ? 0 : below(3);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, " ");
        for (size_t i = 0; i < n; i++)
            word[i] = (char)(letters == 0 || (letters == 1 && i % 2) ? p[i] : p[i] | 32);
        add_bytes(c, word, n);
        p += n + (p[n] == ' ');
    }
}

/* An argument too few, too many, doubled, or of another kind. */
static void damage(command_t *c)
{
    switch (below(4)) {
    case 0:
        c->n -= c->n > 1;
        break;
    case 1:
        add_letter(c, "kviw"[below(4)]);
        break;
    case 2:
        if (c->n < ARGS_MAX) {
            c->arg[c->n] = c->arg[below(c->n)];
            c->n++;
        }
        break;
    default:
        if (c->n > 1)
            c->arg[1 + below(c->n - 1)] = c->arg[below(c->n)];
    }
}

/* Redis allows an empty key; pgas_kvsd does not, and its error says so. */
static void no_empty_keys(command_t *c, const form_t *f)
{
    size_t step = strcspn(f->args, "+*");
    bool repeats = strchr(f->args, '+') != NULL;
    for (size_t i = 1; i < c->n && (i == 1 || repeats); i += step)
        if (c->arg[i].n == 0)
            c->arg[i] = (text_t){ "a", 1 };
}

static void replace_by_number(command_t *c, size_t i, uint64_t number)
{
    size_t n = c->n;
    c->n = i;
    add_number(c, number, false);
    c->n = n;
}

/* Times that damage has made short become long: no key may expire between the two
 * servers. All are different, because GT and LT compare milliseconds. */
static void no_short_times(command_t *c, size_t first)
{
    for (size_t i = first; i < c->n; i++) {
        char text[16] = "";
        if (c->arg[i].n < sizeof text)
            memcpy(text, c->arg[i].bytes, c->arg[i].n);
        if (strspn(text, "0123456789") == c->arg[i].n && atoll(text) > 0)
            replace_by_number(c, i, UINT64_C(4102444800000) + below(1000000000));
    }
}

static void draw(command_t *c)
{
    int total = 0, which = 0;
    for (int i = 0; i < N_FORMS; i++)
        total += forms[i].weight;
    int at = (int)below((uint64_t)total);
    while (at >= forms[which].weight)
        at -= forms[which++].weight;
    const form_t *f = &forms[which];
    c->n = c->n_stored = 0;
    add_name(c, f->name);
    size_t n = strcspn(f->args, "+*");
    bool repeats = strchr(f->args, '+') != NULL;
    for (uint64_t times = repeats ? 1 + below(4) : 1; times > 0; times--)
        for (size_t i = 0; i < n; i++)
            add_letter(c, f->args[i]);
    if (f->options == hello_options)
        add_option(c, hello_options[below(2)]);
    else if (f->options)
        add_options(c, f->options);
    if (f->options != hello_options && below(10) == 0)
        damage(c);
    if (f->options == set_options)
        no_short_times(c, 3);
    else if (f->options == expire_options)
        no_short_times(c, 2);
    if (f->args[0] == 'k')
        no_empty_keys(c, f);
}

#endif
