/* TCP sockets of the service ring: addresses, options, and the meaning of errors.
 *
 * The peer's kernel shows whether its host is alive: TCP also answers for a rank that computes, is
 * stopped or gets no CPU time. Keepalive detects silence on an idle connection, TCP_USER_TIMEOUT on
 * one with unacknowledged data. Both take PGAS_PEER_TIMEOUT_S. */
#include "boot/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/param.h"

socklen_t pgasi_socket_address(const pgasi_address_t *address, struct sockaddr_storage *to_p)
{
    struct in6_addr addr;
    memset(to_p, 0, sizeof *to_p);
    memcpy(&addr, address->host, 16);
    if (IN6_IS_ADDR_V4MAPPED(&addr)) {
        struct sockaddr_in *to = (void *)to_p;
        to->sin_family = AF_INET;
        to->sin_port = htons(address->port);
        memcpy(&to->sin_addr, address->host + 12, 4);
        return sizeof *to;
    }
    struct sockaddr_in6 *to = (void *)to_p;
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(address->port);
    to->sin6_addr = addr;
    return sizeof *to;
}

void pgasi_socket_set_options(int fd)
{
    int on = 1, s = pgasi_param.peer_timeout_s, idle = PGASI_MAX(s / 4, 1),
        every = PGASI_MAX(s / 8, 1);
    int probes = PGASI_MAX((s - idle) / every, 1), ms = 1000 * PGASI_MIN(s, INT32_MAX / 1000);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

bool pgasi_socket_is_silence(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENETDOWN;
}

bool pgasi_socket_is_full(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void describe(const pgasi_address_t *address, char *text, size_t bytes)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)address->host);
    inet_ntop(is_v4 ? AF_INET : AF_INET6, address->host + (is_v4 ? 12 : 0), host, sizeof host);
    snprintf(text, bytes, "%s port %d", host, address->port);
    PGASI_INFO("watch", "listens at %s", text);
}

int pgasi_socket_listen(pgasi_address_t *address, int backlog, char *text, size_t bytes)
{
    struct sockaddr_storage at;
    address->port = 0;
    socklen_t at_bytes = pgasi_socket_address(address, &at);
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && bind(fd, (const void *)&at, at_bytes) == 0 && listen(fd, backlog) == 0 &&
                getsockname(fd, (void *)&at, &at_bytes) == 0;
    if (!good) {
        int error = errno;
        PGASI_INFO("watch", "cannot listen: %s", strerror(error));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    address->port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                                  : ((struct sockaddr_in6 *)&at)->sin6_port);
    describe(address, text, bytes);
    return fd;
}
