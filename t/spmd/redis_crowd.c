/* Clients of a server that speaks Redis' protocol, many at a time.
 *
 *   redis_crowd many PORT N     N connections at once: each sets a key, then gets another's
 *   redis_crowd dying PORT N    N processes are killed at random moments of their pipelines; after
 *                               that the server must have closed their connections
 *   redis_crowd slow PORT       a client sends one byte at a time, another one reads nothing; a
 *                               third one must still be served at once
 *
 * Exit status 0: everything was right. What was not is printed. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include "base/rng.h"
#include "t/spmd/redis_wire.h"

#define CONNECTIONS_MAX 4096
#define TEXT(word)      ((text_t){ word, strlen(word) })

static int n_wrong;

static void wrong(const char *what, int which, text_t got)
{
    if (++n_wrong > 10)
        return;
    printf("%s %d: ", what, which);
    print_text("", got.bytes, got.n);
    printf("\n");
}

static bool is_text(text_t got, const char *want)
{
    return got.n == strlen(want) && memcmp(got.bytes, want, got.n) == 0;
}

static text_t ask(wire_t *w, const char *a, const char *b, const char *c)
{
    text_t args[3] = { TEXT(a), { b, b ? strlen(b) : 0 }, { c, c ? strlen(c) : 0 } };
    size_t n = 1;
    if (b)
        n = c ? 3 : 2;
    wire_command(w, args, n);
    wire_send(w);
    return wire_reply(w);
}

static void allow_files(int n)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)n + 10) {
        printf("this machine allows %llu files\n", (unsigned long long)limit.rlim_cur);
        exit(77);
    }
}

/* Requests of all connections are under way before the first reply is read. */
static void many(int port, int n)
{
    static wire_t w[CONNECTIONS_MAX];
    char key[32], value[32], want[64];
    allow_files(n);
    for (int i = 0; i < n; i++)
        wire_open(&w[i], port);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            int of = round == 0 ? i : (i * 7 + 1) % n;
            sprintf(key, "crowd:%d", of);
            sprintf(value, "value %d", of);
            text_t args[] = { TEXT(round == 0 ? "SET" : "GET"), TEXT(key), TEXT(value) };
            wire_command(&w[i], args, round == 0 ? 3 : 2);
            wire_send(&w[i]);
        }
        for (int i = 0; i < n; i++) {
            sprintf(value, "value %d", (i * 7 + 1) % n);
            sprintf(want, "$%zu\r\n%s\r\n", strlen(value), value);
            text_t got = wire_reply(&w[i]);
            if (!is_text(got, round == 0 ? "+OK\r\n" : want))
                wrong(round == 0 ? "SET of client" : "GET of client", i, got);
        }
    }
    for (int i = 0; i < n; i++)
        wire_close(&w[i]);
}

/* ---- clients that die ---- */

/* Pipelines that write and read large values, until the process is killed. */
static void live(int port, int number)
{
    static char value[20000];
    char key[32];
    wire_t w;
    memset(value, 'a' + number % 26, sizeof value);
    sprintf(key, "dying:%d", number % 8);
    wire_open(&w, port);
    for (;;) {
        for (int i = 0; i < 50; i++) {
            text_t args[] = { TEXT(i % 2 ? "GET" : "SET"), TEXT(key), { value, sizeof value } };
            wire_command(&w, args, i % 2 ? 2 : 3);
        }
        wire_send(&w);
    }
}

static void die_at_random(int port, int n)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, 1);
    for (int i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0)
            live(port, i);
        struct timespec moment = { 0, (long)pgasi_rng_below(&rng, 30000000) };
        nanosleep(&moment, NULL); /* the moment of the death is what is drawn here */
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

/* Clients of the server, as it counts them. */
static long n_clients(wire_t *w)
{
    text_t info = ask(w, "INFO", "clients", NULL);
    const char *found = memmem(info.bytes, info.n, "connected_clients:", 18);
    return found ? atol(found + 18) : -1;
}

static void dying(int port, int n)
{
    wire_t w;
    wire_open(&w, port);
    die_at_random(port, n);
    /* The server may need a while to see all ends. */
    long left = -1;
    for (int i = 0; i < 1000 && left != 1; i++) {
        left = n_clients(&w);
        usleep(1000);
    }
    if (left != 1)
        wrong("clients that the server still has", (int)left, (text_t){ "", 0 });
    char key[32];
    for (int i = 0; i < 8; i++) {
        sprintf(key, "dying:%d", i);
        text_t got = ask(&w, "GET", key, NULL);
        bool whole = got.n == 20000 + 10 && memcmp(got.bytes + 8, got.bytes + 9, 19998) == 0;
        if (!whole && !is_text(got, "$-1\r\n"))
            wrong("half a value of key", i, got);
    }
    wire_close(&w);
}

/* ---- clients that are slow ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void send_bytes(wire_t *w, const char *bytes, size_t n)
{
    buffer_add(&w->out, bytes, n);
    wire_send(w);
}

/* Asks for much and reads nothing, as far as the socket takes it. */
static void stuff(wire_t *w)
{
    static const char get[] = "*2\r\n$3\r\nGET\r\n$4\r\nlong\r\n";
    for (int i = 0; i < 2000; i++)
        if (send(w->fd, get, sizeof get - 1, MSG_NOSIGNAL | MSG_DONTWAIT) <= 0)
            break;
}

static void slow(int port)
{
    static const char request[] = "*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$5\r\nvalue\r\n";
    static char value[100001];
    wire_t drip, deaf, third;
    double worst = 0;
    memset(value, 'x', 100000);
    wire_open(&drip, port);
    wire_open(&deaf, port);
    wire_open(&third, port);
    if (!is_text(ask(&third, "SET", "long", value), "+OK\r\n"))
        wrong("SET", 0, (text_t){ "", 0 });
    stuff(&deaf);
    for (size_t i = 0; i < sizeof request - 1; i++) {
        double begin = now();
        send_bytes(&drip, request + i, 1);
        text_t got = ask(&third, "PING", NULL, NULL);
        if (!is_text(got, "+PONG\r\n"))
            wrong("PING beside byte", (int)i, got);
        worst = now() - begin > worst ? now() - begin : worst;
    }
    text_t got = wire_reply(&drip);
    if (!is_text(got, "+OK\r\n"))
        wrong("the request of single bytes", 0, got);
    printf("the slowest PING beside both: %.1f ms\n", worst * 1e3);
    wire_close(&drip);
    wire_close(&deaf);
    wire_close(&third);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int port = argc > 2 ? atoi(argv[2]) : 0, n = argc > 3 ? atoi(argv[3]) : 0;
    if (argc == 4 && strcmp(argv[1], "many") == 0 && n <= CONNECTIONS_MAX) {
        many(port, n);
    } else if (argc == 4 && strcmp(argv[1], "dying") == 0) {
        dying(port, n);
    } else if (argc == 3 && strcmp(argv[1], "slow") == 0) {
        slow(port);
    } else {
        printf("usage: redis_crowd many|dying PORT N, or redis_crowd slow PORT\n");
        return 2;
    }
    return n_wrong > 0;
}
