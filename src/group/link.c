/* TCP connections of groups. All descriptors are non-blocking; functions with a limit sleep in
 * poll. Messages are small, a few for each chain, so each one is one system call or two. */
#include "group/link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"

#define RETRY_MS    10 /* between attempts while the peer refuses */
#define BACKLOG     64
#define KEEPALIVE_S 10 /* a vanished host is noticed after three times that */

/* ---- addresses ---- */

typedef struct {
    struct sockaddr_storage to;
    socklen_t bytes;
} place_t;

/* Splits "ADDR:PORT" or "[ADDR]:PORT". @return false: it has another form */
static bool split(const char *address, char host[PGASI_GROUP_NAME_BYTES], const char **port_p)
{
    const char *colon = strrchr(address, ':');
    size_t bytes = colon != NULL ? (size_t)(colon - address) : 0;
    if (bytes >= 2 && address[0] == '[' && address[bytes - 1] == ']') {
        address++;
        bytes -= 2;
    } else if (memchr(address, ':', bytes)) {
        return false; /* IPv6 needs brackets */
    }
    if (bytes == 0 || bytes >= PGASI_GROUP_NAME_BYTES || colon[1] == '\0')
        return false;
    memcpy(host, address, bytes);
    host[bytes] = '\0';
    *port_p = colon + 1;
    return true;
}

/* Names of hosts are not looked up, because that may take long. */
static bool find_place(const char *address, place_t *place_p)
{
    char host[PGASI_GROUP_NAME_BYTES];
    const char *port;
    struct addrinfo *found = NULL;
    const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    if (!split(address, host, &port) || strspn(port, "0123456789") != strlen(port) ||
        strlen(port) > 5 || atoi(port) > 65535 || getaddrinfo(host, port, &wanted, &found) != 0)
        return false;
    memcpy(&place_p->to, found->ai_addr, found->ai_addrlen);
    place_p->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static const struct sockaddr *address_of(const place_t *place)
{
    return (const struct sockaddr *)(const void *)&place->to;
}

static bool is_loopback(const place_t *place)
{
    if (place->to.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&place->to;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)&place->to)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

/* The address that a listener really has. @return false: it is too long, or unknown */
static bool name_of(int fd, char name[PGASI_GROUP_NAME_BYTES])
{
    place_t place = { .bytes = sizeof place.to };
    char host[NI_MAXHOST], port[16];
    if (getsockname(fd, (struct sockaddr *)(void *)&place.to, &place.bytes) != 0 ||
        getnameinfo(address_of(&place), place.bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    bool v6 = place.to.ss_family == AF_INET6;
    int length = snprintf(name, PGASI_GROUP_NAME_BYTES, v6 ? "[%s]:%s" : "%s:%s", host, port);
    return length < (int)PGASI_GROUP_NAME_BYTES;
}

/* ---- connections ---- */

void pgasi_group_set_options(int fd)
{
    int on = 1, seconds = KEEPALIVE_S, probes = 2;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int make_socket(const place_t *place)
{
    return socket(place->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

pgas_status_t pgasi_group_listen(const char *address, bool has_key, int *fd_p,
                                 char name[PGASI_GROUP_NAME_BYTES])
{
    place_t place;
    char real[PGASI_GROUP_NAME_BYTES];
    int on = 1;
    if (!find_place(address, &place)) {
        PGASI_ERROR("group",
                    "cannot listen at \"%s\": write ADDR:PORT or [ADDR]:PORT, with an "
                    "address in numbers",
                    address);
        return PGAS_ERR_INVALID;
    }
    if (!has_key && !is_loopback(&place)) {
        PGASI_ERROR("group",
                    "cannot listen at %s without a key: set PGAS_GROUP_KEY, or listen at "
                    "127.0.0.1",
                    address);
        return PGAS_ERR_CONTEXT;
    }
    int fd = make_socket(&place);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, address_of(&place), place.bytes) != 0 || listen(fd, BACKLOG) != 0 ||
        !name_of(fd, real)) {
        int error = errno;
        PGASI_ERROR("group", "cannot listen at %s: %s", address, strerror(error));
        if (fd >= 0)
            close(fd);
        return error == EADDRINUSE ? PGAS_ERR_EXISTS : PGAS_ERR_IO;
    }
    memcpy(name, real, sizeof real);
    *fd_p = fd;
    return PGAS_OK;
}

/* Milliseconds until the limit, for poll; at least 1 before the limit. */
static int left_ms(uint64_t limit_ns)
{
    uint64_t now_ns = pgasi_now_ns();
    if (now_ns >= limit_ns)
        return 0;
    uint64_t left = (limit_ns - now_ns) / PGASI_NS_PER_MS + 1;
    return left < 60000 ? (int)left : 60000;
}

/* Waits until the socket is ready. @return false: the limit has passed */
static bool await(int fd, short events, uint64_t limit_ns)
{
    for (;;) {
        struct pollfd wanted = { .fd = fd, .events = events };
        int left = left_ms(limit_ns);
        if (poll(&wanted, 1, left) > 0)
            return true;
        if (left == 0)
            return false;
    }
}

/* One attempt. @return 0, or an errno; -1: the limit has passed */
static int connect_once(int fd, const place_t *place, uint64_t limit_ns)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    if (connect(fd, address_of(place), place->bytes) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return errno;
    if (!await(fd, POLLOUT, limit_ns))
        return -1;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

static pgas_status_t dial(const char *address, bool waits, uint64_t limit_ns, int *fd_p)
{
    place_t place;
    if (!find_place(address, &place))
        return PGAS_ERR_FORMAT;
    for (;;) {
        int fd = make_socket(&place);
        if (fd < 0)
            return PGAS_ERR_LIMIT;
        int error = connect_once(fd, &place, limit_ns);
        if (error == 0) {
            pgasi_group_set_options(fd);
            *fd_p = fd;
            return PGAS_OK;
        }
        close(fd);
        bool again = error == ECONNREFUSED || error == ECONNRESET || error == ETIMEDOUT;
        if (error != -1 && !(waits && again))
            return PGAS_ERR_PEER;
        int left = left_ms(limit_ns);
        if (error == -1 || left == 0)
            return PGAS_ERR_TIMEOUT;
        poll(NULL, 0, PGASI_MIN(left, RETRY_MS));
    }
}

pgas_status_t pgasi_group_dial(const char *address, uint64_t limit_ns, int *fd_p)
{
    return dial(address, true, limit_ns, fd_p);
}

pgas_status_t pgasi_group_dial_once(const char *address, uint64_t limit_ns, int *fd_p)
{
    return dial(address, false, limit_ns, fd_p);
}

/* ---- messages ---- */

pgas_status_t pgasi_group_send(int fd, uint16_t type, uint32_t number, const void *body,
                               uint32_t bytes, uint64_t limit_ns)
{
    const pgasi_group_head_t head = { PGASI_GROUP_MAGIC, PGASI_GROUP_VERSION, type, bytes, number };
    size_t sent = 0;
    while (sent < sizeof head + bytes) {
        size_t of_head = sent < sizeof head ? sizeof head - sent : 0,
               of_body = sent + of_head - sizeof head;
        struct iovec parts[2] = { { (char *)&head + sizeof head - of_head, of_head },
                                  { bytes > 0 ? (char *)body + of_body : NULL, bytes - of_body } };
        const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            sent += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            return PGAS_ERR_PEER;
        else if (!await(fd, POLLOUT, limit_ns))
            return PGAS_ERR_TIMEOUT;
    }
    return PGAS_OK;
}

/* Reads the bytes of the head, or of the body, that have arrived. @return PGAS_OK: the part is
 * whole */
static pgas_status_t read_part(int fd, pgasi_group_in_t *in, void *part, uint32_t begin,
                               uint32_t bytes)
{
    while (in->got < begin + bytes) {
        ssize_t n =
            recv(fd, (char *)part + (in->got - begin), begin + bytes - in->got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return PGAS_ERR_PEER;
        if (n < 0)
            return PGAS_ERR_AGAIN;
        in->got += (uint32_t)n;
    }
    return PGAS_OK;
}

static pgas_status_t read_some(int fd, pgasi_group_in_t *in)
{
    if (in->got < sizeof in->head) {
        pgas_status_t status = read_part(fd, in, &in->head, 0, sizeof in->head);
        if (status != PGAS_OK)
            return status;
    }
    int64_t bytes = pgasi_group_head_check(&in->head);
    if (bytes < 0)
        return in->head.magic == PGASI_GROUP_MAGIC && in->head.version != PGASI_GROUP_VERSION
                   ? PGAS_ERR_MISMATCH
                   : PGAS_ERR_FORMAT;
    if (!in->body)
        in->body = malloc(PGASI_GROUP_BODY_MAX);
    if (!in->body)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = read_part(fd, in, in->body, sizeof in->head, (uint32_t)bytes);
    if (status != PGAS_OK)
        return status;
    in->got = 0;
    return pgasi_group_message_check(in->head.type, in->body, (uint32_t)bytes);
}

pgas_status_t pgasi_group_recv(int fd, pgasi_group_in_t *in, uint64_t limit_ns)
{
    for (;;) {
        pgas_status_t status = read_some(fd, in);
        if (status != PGAS_ERR_AGAIN || limit_ns == 0)
            return status;
        if (!await(fd, POLLIN, limit_ns))
            return PGAS_ERR_TIMEOUT;
    }
}
