/* Addresses of this host at which a rank listens, as IPv6 with IPv4 mapped into it. */
#include "verbs_backend/transport/cm.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include "base/log.h"

/* @param inside  loopback is wanted, because no rank is on another host */
static bool is_usable(const struct ifaddrs *at, const char *wanted, bool inside)
{
    bool up = (at->ifa_flags & IFF_UP) != 0 && at->ifa_addr != NULL,
         loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    return up && (wanted[0] != '\0' ? strcmp(at->ifa_name, wanted) == 0 : loopback == inside);
}

/* Converts to IPv6. @return false: the address is of another family, or useless for other hosts */
static bool to_host(const struct sockaddr *from, uint8_t host[16])
{
    static const uint8_t inside[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    if (from->sa_family == AF_INET) {
        memcpy(host, inside, sizeof inside);
        memcpy(host + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return true;
    }
    const struct in6_addr *addr = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    memcpy(host, addr, 16);
    return from->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(addr);
}

/* One loopback address is enough. */
static void add_hosts(pgasi_verbs_tp_t *tp, const struct ifaddrs *all, const char *wanted,
                      bool inside)
{
    int most = inside && wanted[0] == '\0' ? 1 : PGASI_VERBS_HOSTS_MAX;
    for (int family = 0; family < 2; family++) { /* IPv4 first */
        for (const struct ifaddrs *at = all; at != NULL && tp->address.n_hosts < most;
             at = at->ifa_next)
            if (is_usable(at, wanted, inside) &&
                at->ifa_addr->sa_family == (family == 0 ? AF_INET : AF_INET6) &&
                to_host(at->ifa_addr, tp->address.hosts[tp->address.n_hosts]))
                tp->address.n_hosts++;
    }
}

pgas_status_t pgasi_cm_find_hosts(pgasi_verbs_tp_t *tp)
{
    struct ifaddrs *all = NULL;
    const char *wanted = tp->params.verbs_interface;
    tp->address.n_hosts = 0;
    if (getifaddrs(&all) != 0)
        all = NULL;
    add_hosts(tp, all, wanted, tp->opts.same_host_only || tp->opts.n_ranks == 1);
    if (wanted[0] == '\0' && tp->address.n_hosts == 0)
        add_hosts(tp, all, wanted, true);
    freeifaddrs(all);
    if (wanted[0] != '\0' && tp->address.n_hosts == 0) {
        PGASI_ERROR("verbs",
                    "PGAS_VERBS_INTERFACE=%s: no interface of that name is up and has an address",
                    wanted);
        return PGAS_ERR_NOT_FOUND;
    }
    return PGAS_OK;
}

bool pgasi_cm_is_loopback(const uint8_t host[16])
{
    struct in6_addr addr;
    memcpy(&addr, host, 16);
    return IN6_IS_ADDR_LOOPBACK(&addr) || (IN6_IS_ADDR_V4MAPPED(&addr) && host[12] == 127);
}

socklen_t pgasi_cm_to_sockaddr(const uint8_t host[16], uint16_t port, struct sockaddr_storage *to_p)
{
    struct in6_addr addr;
    memset(to_p, 0, sizeof *to_p);
    memcpy(&addr, host, 16);
    if (IN6_IS_ADDR_V4MAPPED(&addr)) {
        struct sockaddr_in *to = (struct sockaddr_in *)(void *)to_p;
        to->sin_family = AF_INET;
        to->sin_port = htons(port);
        memcpy(&to->sin_addr, host + 12, 4);
        return sizeof *to;
    }
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)(void *)to_p;
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    to->sin6_addr = addr;
    return sizeof *to;
}
