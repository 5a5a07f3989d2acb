/* Two sides of a test of queue pairs: two processes of this machine, joined by a socket pair, or
 * (VM_PEER is set, see t/vm/run) one process in each of two machines, joined by TCP. Both evaluate
 * every promise, in the same order; side 0 prints the AND.
 *
 *   sides_begin();  promise(good_here, "what");  swap(&mine, &theirs, sizeof mine);  return
 *
 * sides_end(); */
#ifndef T_RXE_SIDES_H
#define T_RXE_SIDES_H

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "pgas/verbs.h"
#include "t/tap.h"

#define SIDES_PORT       7077
#define SIDES_PATIENCE_S 100

static int side; /* 0 or 1 */
static int sides_wire_ = -1;
static pid_t sides_child_;

/* The other side is gone, or stuck: nothing more can be said. */
static void sides_fail_(const char *what)
{
    if (side == 0)
        printf("Bail out! the other side %s\n", what);
    else
        fprintf(stderr, "side 1: the other side %s\n", what);
    if (sides_child_ > 0)
        kill(sides_child_, SIGKILL);
    exit(1);
}

static void sides_limit_(void)
{
    struct timeval patience = { .tv_sec = SIDES_PATIENCE_S };
    setsockopt(sides_wire_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

/* Machine 1 calls until machine 0 is there. */
static void sides_meet_(const char *peer)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(SIDES_PORT) };
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    side = atoi(getenv("VM_MACHINE"));
    if (side == 0) {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(s, (struct sockaddr *)&at, sizeof at) != 0 || listen(s, 1) != 0)
            sides_fail_("cannot be listened for");
        struct timeval patience = { .tv_sec = SIDES_PATIENCE_S };
        setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience); /* of accept, too */
        sides_wire_ = accept(s, NULL, NULL);
        close(s);
    } else {
        inet_pton(AF_INET, peer, &at.sin_addr);
        for (int tries = 0;
             tries < SIDES_PATIENCE_S * 10 && connect(s, (struct sockaddr *)&at, sizeof at) != 0;
             tries++) {
            close(s);
            usleep(100000);
            s = socket(AF_INET, SOCK_STREAM, 0);
        }
        sides_wire_ = s;
    }
    if (sides_wire_ < 0)
        sides_fail_("does not come");
}

static void sides_begin(void)
{
    int pair[2];
    const char *peer = getenv("VM_PEER");
    signal(SIGPIPE, SIG_IGN);
    if (peer && peer[0] != '\0') {
        sides_meet_(peer);
    } else {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
            bail("no socket pair");
        fflush(stdout);
        sides_child_ = fork();
        side = sides_child_ == 0;
        sides_wire_ = pair[side];
        close(pair[1 - side]);
    }
    sides_limit_();
}

/* Each side gets the other's bytes. Neither continues before both have called. */
static void swap(const void *mine, void *theirs, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(sides_wire_, (const char *)mine + done, bytes - done);
        if (n <= 0)
            sides_fail_("is gone");
        done += (size_t)n;
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(sides_wire_, (char *)theirs + done, bytes - done);
        if (n <= 0)
            sides_fail_(n == 0 ? "is gone" : "does not answer");
        done += (size_t)n;
    }
}

static void both(void)
{
    char mine = 0, theirs;
    swap(&mine, &theirs, 1);
}

static void promise(bool good, const char *text)
{
    char mine = good, theirs;
    swap(&mine, &theirs, 1);
    if (side == 0 && !ok(good && theirs, "%s", text))
        diag("%s%s", good ? "" : "side 0 ", theirs ? "" : "side 1");
}

/* A condition of a promise: says where it does not hold. (An int: & evaluates all conditions, and
 * compilers warn about & between bools.) */
static int holds_(bool good, const char *text, int line)
{
    if (!good)
        fprintf(stderr, "side %d, line %d: %s does not hold\n", side, line, text);
    return good;
}
#define HOLDS(condition) holds_((condition), #condition, __LINE__)

static int sides_end(void)
{
    int status = 0;
    both();
    if (side == 1)
        return 0;
    if (sides_child_ > 0 && (waitpid(sides_child_, &status, 0) < 0 || status != 0))
        diag("side 1 ended with %d", status);
    return done() != 0 || status != 0;
}

/* The device to test: that of TAP_DEVICE, or the first active one of hardware. NULL: none */
static const char *find_device(void)
{
    static char name[80];
    const char *given = getenv("TAP_DEVICE");
    pgas_verbs_info_t port = { .size = sizeof port };
    if (given && given[0] != '\0')
        return given;
    for (int i = 0; pgas_verbs_list(i, &port) == PGAS_OK; i++) {
        if (port.active && strcmp(port.provider, "snic") != 0) {
            snprintf(name, sizeof name, "verbs:%s:%d", port.name, port.port);
            return name;
        }
    }
    return NULL;
}

#endif
