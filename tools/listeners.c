/* Lists the listening sockets of this process from the kernel's tables. The list includes sockets
 * of MPI and of UCX, and shows which of them MPI opened. */
#include "listeners.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pgas/pgas.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TCP_LISTEN  10
#define UNIX_LISTEN 0x10000u /* a flag of /proc/net/unix */

static int add(listeners_t *all, const char *protocol, const char *address, unsigned long inode)
{
    for (int i = 0; i < all->n; i++)
        if (all->list[i].inode == inode)
            return 0;
    if (all->n == LISTENERS_MAX)
        return -1;
    listener_t *one = &all->list[all->n++];
    *one = (listener_t){ .inode = inode, .since = all->now };
    snprintf(one->protocol, sizeof one->protocol, "%s", protocol);
    snprintf(one->address, sizeof one->address, "%s", address);
    return 0;
}

/* Finds the sockets among the process's descriptors. */
static unsigned long *own_sockets(size_t *n_p)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned long *inodes = NULL;
    size_t n = 0, room = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder));) {
        char link[64] = "";
        unsigned long inode;
        if (readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1) < 0 ||
            sscanf(link, "socket:[%lu]", &inode) != 1)
            continue;
        if (n == room) {
            unsigned long *more = realloc(inodes, (room = 2 * room + 64) * sizeof *more);
            if (!more)
                break;
            inodes = more;
        }
        inodes[n++] = inode;
    }
    if (folder)
        closedir(folder);
    *n_p = n;
    return inodes;
}

static int is_own(const unsigned long *inodes, size_t n, unsigned long inode)
{
    for (size_t i = 0; i < n; i++)
        if (inodes[i] == inode)
            return 1;
    return 0;
}

/* The kernel writes each 32-bit word of an address as a number. */
static void address_text(const char *digits, unsigned port, char *text, size_t bytes)
{
    unsigned char address[16];
    size_t n_words = strlen(digits) / 8;
    char host[INET6_ADDRSTRLEN] = "?";
    for (size_t i = 0; i < n_words && i < 4; i++) {
        char word_text[9];
        memcpy(word_text, digits + 8 * i, 8);
        word_text[8] = '\0';
        uint32_t word = (uint32_t)strtoul(word_text, NULL, 16);
        memcpy(address + 4 * i, &word, 4);
    }
    inet_ntop(n_words == 1 ? AF_INET : AF_INET6, address, host, sizeof host);
    snprintf(text, bytes, n_words == 1 ? "%s:%u" : "[%s]:%u", host, port);
}

static void look_at_tcp(listeners_t *all, const char *path, const unsigned long *inodes, size_t n)
{
    FILE *file = fopen(path, "r");
    char line[512], digits[40], text[80];
    unsigned port, state;
    unsigned long inode;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*d %*d %lu", digits, &port,
                   &state, &inode) != 4 ||
            state != TCP_LISTEN || !is_own(inodes, n, inode))
            continue;
        address_text(digits, port, text, sizeof text);
        all->more |= add(all, "tcp", text, inode) != 0;
    }
    if (file)
        fclose(file);
}

static void look_at_unix(listeners_t *all, const unsigned long *inodes, size_t n)
{
    FILE *file = fopen("/proc/self/net/unix", "r");
    char line[512], name[128];
    unsigned flags;
    unsigned long inode;
    while (file && fgets(line, sizeof line, file)) {
        name[0] = '\0';
        if (sscanf(line, "%*x: %*x %*x %x %*x %*x %lu %127s", &flags, &inode, name) < 2 ||
            (flags & UNIX_LISTEN) == 0 || !is_own(inodes, n, inode))
            continue;
        all->more |= add(all, "unix", name[0] != '\0' ? name : "without a name", inode) != 0;
    }
    if (file)
        fclose(file);
}

void listeners_look(listeners_t *all, listener_since_t since)
{
    size_t n;
    unsigned long *inodes = own_sockets(&n);
    all->now = since;
    look_at_tcp(all, "/proc/self/net/tcp", inodes, n);
    look_at_tcp(all, "/proc/self/net/tcp6", inodes, n);
    look_at_unix(all, inodes, n);
    free(inodes);
}

static void print_rank(FILE *out, int rank, const listeners_t *all)
{
    for (int i = 0; i < all->n; i++)
        fprintf(out, "%6d  %-20.20s %-7s  %-4s  %s\n", rank, all->host,
                all->list[i].since == SINCE_MPI ? "MPI" : "libpgas", all->list[i].protocol,
                all->list[i].address);
    if (all->more)
        fprintf(out, "%6d  %-20.20s and more than %d\n", rank, all->host, LISTENERS_MAX);
}

int listeners_print(FILE *out, listeners_t *mine)
{
    int n_ranks = pgas_n_ranks(), n = 0;
    listeners_t *all = pgas_rank() == 0 ? calloc((size_t)n_ranks, sizeof *all) : mine;
    gethostname(mine->host, sizeof mine->host - 1);
    if (!all || pgas_gather(NULL, mine, all, sizeof *mine, 0) != PGAS_OK)
        return -1;
    if (pgas_rank() != 0)
        return 0;
    for (int r = 0; r < n_ranks; r++)
        n += all[r].n;
    fprintf(out, "\nlisteners: %d sockets, by what opened them (libpgas stands for UCX too)\n", n);
    if (n > 0)
        fprintf(out, "  rank  %-20s %-7s  %-4s  address\n", "host", "opener", "kind");
    for (int r = 0; r < n_ranks; r++)
        print_rank(out, r, &all[r]);
    free(all);
    return 0;
}
