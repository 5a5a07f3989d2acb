/* hiredis, the usual C client of Redis: redis_pipeline PORT PORT. It sends pipelines of binary keys
 * and values to the first port, reads them through the second one, and checks each reply's type and
 * bytes. Exit status 0: everything was right. What was not is printed. */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>

#if PGAS_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#include <string.h>
#include "base/rng.h"

#define PIPELINE 1000

static int n_wrong;

static void wrong(const char *what, int which)
{
    if (++n_wrong <= 10)
        printf("%s, command %d\n", what, which);
}

static redisContext *connect_to(const char *port)
{
    redisContext *c = redisConnect("127.0.0.1", atoi(port));
    if (!c || c->err) {
        printf("port %s: %s\n", port, c ? c->errstr : "no memory");
        exit(1);
    }
    return c;
}

static redisReply *next_reply(redisContext *c)
{
    void *reply = NULL;
    if (redisGetReply(c, &reply) != REDIS_OK) {
        printf("no reply: %s\n", c->errstr);
        exit(1);
    }
    return reply;
}

/* The key and the value of number i: any bytes, the key with a zero. */
static size_t make_value(int i, char key[16], char value[400])
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, (uint64_t)i);
    size_t n = pgasi_rng_below(&rng, 400);
    memset(key, 0, 16);
    snprintf(key + 1, 15, "pipe%d", i);
    for (size_t k = 0; k < n; k++)
        value[k] = (char)pgasi_rng_u64(&rng);
    return n;
}

static void put_all(redisContext *c)
{
    char key[16], value[400];
    for (int i = 0; i < PIPELINE; i++) {
        size_t n = make_value(i, key, value);
        redisAppendCommand(c, "SET %b %b", key, sizeof key, value, n);
    }
    for (int i = 0; i < PIPELINE; i++) {
        redisReply *r = next_reply(c);
        if (r->type != REDIS_REPLY_STATUS || strcmp(r->str, "OK") != 0)
            wrong("SET", i);
        freeReplyObject(r);
    }
}

static void get_all(redisContext *c)
{
    char key[16], value[400];
    for (int i = 0; i < PIPELINE; i++) {
        make_value(i, key, value);
        redisAppendCommand(c, "GET %b", key, sizeof key);
    }
    for (int i = 0; i < PIPELINE; i++) {
        size_t n = make_value(i, key, value);
        redisReply *r = next_reply(c);
        if (r->type != REDIS_REPLY_STRING || (size_t)r->len != n || memcmp(r->str, value, n) != 0)
            wrong("GET", i);
        freeReplyObject(r);
    }
}

/* Replies of all types in one pipeline, in the order of the commands. */
static void all_types(redisContext *c)
{
    static const int types[] = { REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_NIL,
                                 REDIS_REPLY_ARRAY,   REDIS_REPLY_ERROR,   REDIS_REPLY_STATUS };
    for (int round = 0; round < 100; round++) {
        redisAppendCommand(c, "DEL hi:count hi:none");
        redisAppendCommand(c, "INCR hi:count");
        redisAppendCommand(c, "GET hi:none");
        redisAppendCommand(c, "MGET hi:count hi:none");
        redisAppendCommand(c, "INCRBY hi:count word");
        redisAppendCommand(c, "PING");
    }
    for (int i = 0; i < 600; i++) {
        redisReply *r = next_reply(c);
        if (r->type != types[i % 6] || (i % 6 == 1 && r->integer != 1) ||
            (i % 6 == 3 && (r->elements != 2 || r->element[1]->type != REDIS_REPLY_NIL)))
            wrong("a reply of another type", i);
        freeReplyObject(r);
    }
}

static void delete_all(redisContext *c)
{
    char key[16], value[400];
    long long n = 0;
    for (int i = 0; i < PIPELINE; i++) {
        make_value(i, key, value);
        redisAppendCommand(c, "DEL %b", key, sizeof key);
    }
    for (int i = 0; i < PIPELINE; i++) {
        redisReply *r = next_reply(c);
        n += r->integer;
        freeReplyObject(r);
    }
    if (n != PIPELINE)
        wrong("DEL", (int)n);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    redisContext *c = connect_to(argv[1]), *other = connect_to(argv[2]);
    put_all(c);
    get_all(other);
    all_types(c);
    delete_all(other);
    redisFree(c);
    redisFree(other);
    return n_wrong > 0;
}

#else

int main(void)
{
    printf("built without hiredis\n");
    return 77;
}

#endif
