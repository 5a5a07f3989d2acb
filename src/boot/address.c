/* Chooses the address at which a rank listens, so that ranks of other hosts can reach it.
 *
 * Machines have several addresses: a cluster's network, a fast one beside it, and bridges of
 * containers, which have the same address on every host. No rank can know in advance which address
 * the others reach, so it takes one on the network that most hosts share. */
#include "boot/watch.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bitmap.h"
#include "base/hash.h"
#include "base/param.h"
#include "pgas/coll.h"

static bool is_usable(const struct ifaddrs *at, const char *wanted)
{
    bool up = (at->ifa_flags & IFF_UP) && at->ifa_addr && at->ifa_netmask;
    return up && (*wanted ? strcmp(at->ifa_name, wanted) == 0 : !(at->ifa_flags & IFF_LOOPBACK));
}

static int ones(const uint8_t *bytes, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += (int)pgasi_count_ones(bytes[i]);
    return sum;
}

static bool convert(const struct ifaddrs *from, pgasi_address_t *to)
{
    static const uint8_t inside[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    memset(to, 0, sizeof *to);
    if (from->ifa_addr->sa_family == AF_INET) {
        const struct sockaddr_in *addr = (const void *)from->ifa_addr,
                                 *mask = (const void *)from->ifa_netmask;
        memcpy(to->host, inside, sizeof inside);
        memcpy(to->host + 12, &addr->sin_addr, 4);
        to->bits = (uint16_t)(96 + ones((const void *)&mask->sin_addr, 4));
        return true;
    }
    const struct sockaddr_in6 *addr = (const void *)from->ifa_addr,
                              *mask = (const void *)from->ifa_netmask;
    memcpy(to->host, &addr->sin6_addr, 16);
    to->bits = (uint16_t)ones((const void *)&mask->sin6_addr, 16);
    return !IN6_IS_ADDR_LINKLOCAL(&addr->sin6_addr);
}

static uint64_t machine_id(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    return pgasi_hash_text(text);
}

void pgasi_address_collect(const char *wanted, pgasi_card_t *card)
{
    static const int families[] = { AF_INET, AF_INET6 };
    struct stat network;
    struct ifaddrs *all = NULL;
    memset(card, 0, sizeof *card);
    card->machine = machine_id();
    card->network = stat("/proc/self/ns/net", &network) == 0 ? (uint64_t)network.st_ino : 0;
    if (getifaddrs(&all) != 0)
        return;
    for (int f = 0; f < 2; f++) {
        for (const struct ifaddrs *at = all; at && card->n_addresses < PGASI_ADDRESSES_MAX;
             at = at->ifa_next)
            if (is_usable(at, wanted) && at->ifa_addr->sa_family == families[f] &&
                convert(at, &card->address[card->n_addresses]))
                card->n_addresses++;
    }
    freeifaddrs(all);
}

static bool share_network(const pgasi_address_t *a, const pgasi_address_t *b)
{
    int whole = a->bits / 8, rest = a->bits % 8;
    if (a->bits != b->bits || a->bits > 128 || memcmp(a->host, b->host, (size_t)whole) != 0)
        return false;
    return rest == 0 || (a->host[whole] ^ b->host[whole]) >> (8 - rest) == 0;
}

static bool is_at_home(const pgasi_card_t *a, const pgasi_card_t *b)
{
    return a->machine == b->machine && a->network == b->network;
}

/* Returns the number of ranks on other hosts that share the address's network; -1: one of these
 * hosts has the same address. */
static int score(const pgasi_address_t *address, const pgasi_card_t *cards, int n, int me)
{
    int sum = 0;
    for (int r = 0; r < n; r++) {
        if (is_at_home(&cards[r], &cards[me]))
            continue;
        bool shares = false;
        for (int i = 0; i < PGASI_MIN(cards[r].n_addresses, PGASI_ADDRESSES_MAX); i++) {
            const pgasi_address_t *other = &cards[r].address[i];
            if (memcmp(other->host, address->host, sizeof other->host) == 0)
                return -1;
            shares = shares || share_network(other, address);
        }
        sum += shares;
    }
    return sum;
}

bool pgasi_address_choose(const pgasi_card_t *cards, int n, int me, pgasi_address_t *address_p)
{
    static const pgasi_address_t loopback = {
        { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 }, 0, 104
    };
    bool one_home = true;
    for (int r = 0; r < n && one_home; r++)
        one_home = is_at_home(&cards[r], &cards[me]);
    if (one_home) {
        *address_p = loopback;
        return true;
    }
    int best = -1;
    for (int i = 0; i < cards[me].n_addresses; i++) {
        int found = score(&cards[me].address[i], cards, n, me);
        if (found > best) {
            best = found;
            *address_p = cards[me].address[i];
        }
    }
    return best >= 0;
}

/* ---- for other folders ---- */

static void write_address(const pgasi_address_t *address, char text[PGASI_BOOT_ADDRESS_BYTES])
{
    static const uint8_t inside[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    char host[INET6_ADDRSTRLEN] = "";
    if (memcmp(address->host, inside, sizeof inside) == 0) {
        inet_ntop(AF_INET, address->host + 12, host, sizeof host);
        snprintf(text, PGASI_BOOT_ADDRESS_BYTES, "%s", host);
    } else {
        inet_ntop(AF_INET6, address->host, host, sizeof host);
        snprintf(text, PGASI_BOOT_ADDRESS_BYTES, "[%s]", host);
    }
}

static pgas_status_t agree(pgas_team_t *team, pgas_status_t mine)
{
    int64_t worst = mine;
    pgas_status_t status = pgas_allreduce(team, &worst, &worst, 1, PGAS_I64, PGAS_MIN);
    return status == PGAS_OK ? (pgas_status_t)worst : status;
}

pgas_status_t pgasi_boot_address(pgas_team_t *team, char text[PGASI_BOOT_ADDRESS_BYTES],
                                 bool *one_host_p)
{
    int n = pgas_team_size(team), me = pgas_team_rank(team);
    pgasi_card_t mine, *all = malloc((size_t)n * sizeof *all);
    pgasi_address_t address;
    pgas_status_t status = agree(team, all ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK) {
        pgasi_address_collect(pgasi_param.watch_interface, &mine);
        status = pgas_allgather(team, &mine, all, sizeof mine);
    }
    if (status == PGAS_OK) {
        bool found = pgasi_address_choose(all, n, me, &address);
        status = agree(team, found ? PGAS_OK : PGAS_ERR_NOT_FOUND);
    }
    if (status == PGAS_OK) {
        write_address(&address, text);
        *one_host_p = true;
        for (int r = 0; r < n; r++)
            *one_host_p = *one_host_p && is_at_home(&all[r], &all[me]);
    }
    free(all);
    return status;
}
