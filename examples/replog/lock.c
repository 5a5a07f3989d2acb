/* lock.c: the lock word, by gcas with undo.
 *
 * A writer swaps 0 for its own word on all replicas. The old values name other writers. If it did
 * not get all words, two rules decide. The writer that has the word of the first replica keeps its
 * words and waits for the others. All others put theirs back, and try again later. So two writers
 * never wait for each other.
 *
 * The word names host, process and the time of its start. A writer of the same host that no longer
 * runs has left its words behind: others swap their own word for that one. Nothing proves the death
 * of a writer on another host, so only --take-over does the same there. A writer is never stopped
 * from outside: taking over from a live one would let both write to the same place. */
#include "lock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Bits of a word: host, process, start in clock ticks. */
#define PID_BITS   22
#define START_BITS 18

/* ---- words ---- */

/* Processes with the same value see the same process numbers. */
static uint64_t this_host(void)
{
    char text[64] = "";
    struct stat space = { 0 };
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    if (stat("/proc/self/ns/pid", &space) == 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%llu",
                 (unsigned long long)space.st_ino);
    return replog_crc32c(text, strlen(text)) >> 8 | 1;
}

/* @return when the process has started; 0: it does not run */
static uint64_t start_of(uint64_t pid)
{
    char path[32], text[1024], state = 'Z';
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *fields = strrchr(text, ')'); /* behind the name, which may have anything in it */
    if (!fields || sscanf(fields,
                          ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                          "%*d %*d %*d %*d %llu",
                          &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : (start & ((1u << START_BITS) - 1)) | 1;
}

static uint64_t word_of(uint64_t pid)
{
    return this_host() << (PID_BITS + START_BITS) | pid << START_BITS | start_of(pid);
}

static uint64_t pid_of(uint64_t word)
{
    return word >> START_BITS & ((1u << PID_BITS) - 1);
}

static bool is_of_this_host(uint64_t word)
{
    return word >> (PID_BITS + START_BITS) == this_host();
}

static bool is_dead(uint64_t word)
{
    return is_of_this_host(word) && word != word_of(pid_of(word));
}

/* ---- all replicas ---- */

static uint64_t map_of_all(const replog_store_t *store)
{
    return ~UINT64_C(0) >> (64 - store->view.n);
}

/* @return the replicas that had the expected word. After a death, their members have changed. */
static pgas_status_t swap(replog_store_t *store, uint64_t expected, uint64_t desired, uint64_t map,
                          uint64_t *old, uint64_t *map_p)
{
    pgas_status_t status =
        pgas_group_cas(store->group, REPLOG_LOCK_AT, expected, desired, map, old);
    *map_p = 0;
    if (status == PGAS_ERR_PEER)
        replog_store_mend(store);
    else
        replog_must(status, "lock");
    for (int i = 0; i < store->view.n && status == PGAS_OK; i++)
        if ((map >> i & 1) != 0 && old[i] == expected)
            *map_p |= UINT64_C(1) << i;
    return status;
}

/* Takes the words of writers that are dead. @return the replicas where it did */
static uint64_t inherit(replog_store_t *store, const replog_lock_opts_t *opts, uint64_t mine,
                        const uint64_t *words)
{
    uint64_t old[REPLOG_REPLICAS_MAX], taken = 0, got;
    for (int i = 0; i < store->view.n; i++) {
        uint64_t map = 0;
        if (words[i] == 0 || words[i] == mine || (taken >> i & 1) != 0 ||
            !(is_dead(words[i]) || (opts->take_over && !is_of_this_host(words[i]))))
            continue;
        for (int k = 0; k < store->view.n; k++)
            map |= (uint64_t)(words[k] == words[i]) << k;
        if (swap(store, words[i], mine, map, old, &got) != PGAS_OK)
            return 0;
        taken |= got;
    }
    return taken;
}

/* One round. *holder_p gets the word of another writer. @return whether all words are taken */
static bool try_lock(replog_store_t *store, const replog_lock_opts_t *opts, uint64_t mine,
                     uint64_t *holder_p)
{
    uint64_t old[REPLOG_REPLICAS_MAX], taken, all = map_of_all(store), got;
    if (swap(store, 0, mine, all, old, &taken) != PGAS_OK)
        return false;
    for (int i = 0; i < store->view.n; i++)
        if (old[i] == mine) /* of a round before */
            taken |= UINT64_C(1) << i;
        else if (old[i] != 0)
            *holder_p = old[i];
    if (taken != all)
        taken |= inherit(store, opts, mine, old);
    if (taken == map_of_all(store))
        return true;
    if ((taken & 1) == 0 && taken != 0)
        swap(store, mine, 0, taken, old, &got);
    return false;
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

void replog_lock(replog_store_t *store, const replog_lock_opts_t *opts)
{
    uint64_t mine = word_of((uint64_t)getpid()), holder = 0;
    int64_t limit = now_us() + opts->wait_us;
    srand((unsigned)mine);
    while (!try_lock(store, opts, mine, &holder)) {
        if (now_us() > limit) {
            replog_unlock(store);
            replog_fail("the lock is held by process %d of %s", (int)pid_of(holder),
                        is_of_this_host(holder) ? "this host" : "another host; see --take-over");
        }
        usleep(1000 + (unsigned)rand() % 10000);
    }
}

void replog_unlock(replog_store_t *store)
{
    uint64_t mine = word_of((uint64_t)getpid()), old[REPLOG_REPLICAS_MAX], got;
    replog_store_refresh(store);
    while (swap(store, mine, 0, map_of_all(store), old, &got) != PGAS_OK)
        ;
}
