/* append.c: lines become records. The lines that one read of the input gives are a batch. So lines
 * that a person types are sent at once, and long inputs in large batches. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "commands.h"

#define READ_BYTES (64u << 10)

static void print_numbers(void *arg, const replog_batch_t *batch, int64_t us)
{
    (void)arg;
    (void)us;
    for (uint64_t i = 0; i < batch->n_records; i++)
        printf("%" PRIu64 "\n", batch->first_seq + i);
    if (fflush(stdout) != 0)
        replog_fail("the output could not be written");
}

typedef struct {
    int fd;
    char *text; /* the beginning of a line whose end has not been read */
    size_t n, room;
} input_t;

/* @return whether a read does not wait */
static bool is_ready(int fd)
{
    struct pollfd event = { .fd = fd, .events = POLLIN };
    return poll(&event, 1, 0) != 0;
}

/* Reads some bytes. @return whether there were any */
static bool read_more(input_t *input)
{
    if (input->room - input->n < READ_BYTES) {
        input->room += 2 * READ_BYTES;
        input->text = realloc(input->text, input->room);
        if (!input->text)
            replog_fail("no memory");
    }
    ssize_t got = read(input->fd, input->text + input->n, READ_BYTES);
    if (got < 0)
        replog_fail("input: %s", strerror(errno));
    input->n += (size_t)got;
    return got > 0;
}

/* Adds the lines that are whole; at the end of the input also the last one without a newline.
 * @return false: the log is full, or a line is too long */
static bool add_lines(replog_writer_t *writer, input_t *input, bool is_end)
{
    char *at = input->text, *end = input->text + input->n;
    bool good = true;
    while (good && at < end) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline && !is_end)
            break;
        size_t bytes = (size_t)((newline ? newline : end) - at);
        good = replog_writer_add(writer, at, bytes);
        at = newline ? newline + 1 : end;
    }
    input->n = (size_t)(end - at);
    memmove(input->text, at, input->n);
    return good && input->n <= REPLOG_RECORD_MAX;
}

int replog_append(replog_store_t *store, const replog_lock_opts_t *lock, const char *file)
{
    static replog_writer_t writer;
    input_t input = { .fd = file ? open(file, O_RDONLY | O_CLOEXEC) : STDIN_FILENO };
    if (input.fd < 0)
        replog_fail("%s: %s", file, strerror(errno));
    replog_writer_open(&writer, store, lock);
    writer.acked = print_numbers;
    bool good = true, more = true;
    while (good && more) {
        more = read_more(&input);
        good = add_lines(&writer, &input, !more);
        replog_writer_submit(&writer);
        if (!is_ready(input.fd))
            replog_writer_drain(&writer);
    }
    replog_writer_close(&writer);
    free(input.text);
    if (!good)
        replog_fail("the log is full, or a line has more than %u bytes", REPLOG_RECORD_MAX);
    return 0;
}
