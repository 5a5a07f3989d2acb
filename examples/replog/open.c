/* open.c: opens a store: joins a group, or maps files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "store.h"

static void map_file(replog_store_t *store, const char *name)
{
    struct stat stat;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0)
        replog_fail("%s: %s", name, strerror(errno));
    if (store->view.n == REPLOG_REPLICAS_MAX)
        replog_fail("too many files");
    if (stat.st_size <= (off_t)REPLOG_DATA_AT)
        replog_fail("%s: too short for a log", name);
    if (store->view.n > 0 && (uint64_t)stat.st_size != store->view.region_bytes)
        replog_fail("%s: another size than the first file", name);
    void *map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        replog_fail("%s: %s", name, strerror(errno));
    close(fd);
    store->files[store->view.n++] = map;
    store->view.region_bytes = (uint64_t)stat.st_size;
}

static void open_files(replog_store_t *store, char *names)
{
    char *rest;
    store->view.read = replog_read_file;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        map_file(store, name);
    if (store->view.n == 0)
        replog_fail("--files names no file");
}

/* The first line of the file. */
static const char *read_key(const char *path)
{
    static char line[256];
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file))
        replog_fail("%s: %s", path, file ? "no key in it" : strerror(errno));
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static void join(replog_store_t *store, const replog_store_opts_t *opts)
{
    pgas_group_opts_t group = PGAS_GROUP_OPTS_INIT;
    group.window = opts->window;
    group.events = !opts->polls;
    group.device = opts->device;
    group.key = opts->key_file ? read_key(opts->key_file) : NULL;
    replog_must(pgas_group_join(opts->group, &group, &store->group), opts->group);
    store->view.read = replog_read_group;
    replog_store_refresh(store);
    if (store->view.region_bytes <= REPLOG_DATA_AT)
        replog_fail("%s: its region is too small for a log", opts->group);
}

void replog_store_open(const replog_store_opts_t *opts, replog_store_t *store)
{
    *store = (replog_store_t){ .view = { .arg = store } };
    if (opts->group)
        join(store, opts);
    else
        open_files(store, opts->files);
}

void replog_store_close(replog_store_t *store)
{
    pgas_group_destroy(store->group);
    for (int i = 0; i < store->view.n; i++)
        if (store->files[i])
            munmap((void *)(uintptr_t)store->files[i], store->view.region_bytes);
}
