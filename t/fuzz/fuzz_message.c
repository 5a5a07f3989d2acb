/* what: Any bytes may arrive as a message between nodes, as descriptors, or as a request to the
 *       owner of memory. The library reads and writes only its own memory, answers well-formed
 *       requests, drops the rest, and continues.
 * source: pgas/call.h, the checks of what arrives; libFuzzer
 * Input: a byte that picks the way in, a byte of choices, then words. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "t/fuzz/require.h"
#include "t/unit/lone.c"
#include "base/log.h"
#include "call/handler.h"
#include "msg/send_queue.h"
#include "bulk/bulk.h"
#include "mem/thread.h"
#include "pgas/call_archive.h"

#define SEGMENT 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static pgas_handler_t echo, nothing, reads;
static pgas_gptr_t attached;

/* Reads all arguments, so that the sanitizer detects missing bytes. */
static unsigned sum_of(const void *args, size_t bytes)
{
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += ((const unsigned char *)args)[i];
    return sum;
}

static volatile unsigned total;

static void on_echo(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    total += sum_of(args, bytes);
    pgas_reply(args, bytes);
}

static void on_nothing(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    total += sum_of(args, bytes);
    for (size_t i = 0; i < pgas_buffer_count(); i++) {
        void *address = NULL;
        require(pgas_buffer_get(i, &address, &bytes) == PGAS_OK, "a buffer can be had");
        total += sum_of(address, bytes);
    }
}

/* Reads what may be an archive, and its chunks, until an error; then replies to it. */
static void on_reads(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in, out = PGAS_ARCHIVE_INIT;
    const void *data;
    size_t n;
    (void)source;
    (void)context;
    total += sum_of(args, bytes);
    if (pgas_archive_from_call(&in) != PGAS_OK)
        return;
    for (size_t i = 0; i < in.n_chunks; i++)
        total += sum_of(in.chunk[i].data, in.chunk[i].bytes);
    while (pgas_archive_get_vector(&in, 1, &data, &n) == PGAS_OK && n)
        total += sum_of(data, n);
    pgas_archive_free(&in);
    pgas_archive_put(&out, &n, sizeof n);
    pgas_reply_args(&out, NULL, NULL);
    pgas_archive_free(&out);
}

static void start(void)
{
    static bool started;
    if (started)
        return;
    started = true;
    pgasi_log_set_fd(open("/dev/null", O_WRONLY));
    pgas_handler_register("echo", on_echo, NULL, NULL, &echo);
    pgas_handler_register("nothing", on_nothing, NULL, NULL, &nothing);
    pgas_handler_register("reads", on_reads, NULL, NULL, &reads);
    require(lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0 ON_PEER_DEATH=continue") == PGAS_OK,
            "init");
    require(pgas_mem_attach(malloc(SEGMENT), SEGMENT, &attached) == PGAS_OK, "attach");
}

/* A copy of exactly these bytes, `skew` bytes after an aligned address. */
static char *exact(const uint8_t *data, size_t n_bytes, size_t skew)
{
    char *copy = malloc(n_bytes + skew + !(n_bytes + skew));
    if (n_bytes)
        memcpy(copy + skew, data, n_bytes);
    return copy;
}

static void as_message(const uint8_t *data, size_t n_bytes, unsigned choices)
{
    uint32_t header;
    int source = choices >> 4 & 1;
    size_t header_bytes = choices & 8 ? n_bytes % 40 : sizeof header;
    if (n_bytes < header_bytes)
        return;
    char *head = exact(data, header_bytes, 0);
    char *body = exact(data + header_bytes, n_bytes - header_bytes, choices & 1);
    if (header_bytes == sizeof header) { /* mostly one of the job, or nothing else would be tried */
        memcpy(&header, head, sizeof header);
        if (choices & 6)
            header = pgasi_far_mark(source, n_bytes - header_bytes);
        memcpy(head, &header, sizeof header);
    }
    pgasi_tp_am_t am = { head, header_bytes, body + (choices & 1), n_bytes - header_bytes, source };
    pgasi_far_arrived(NULL, &am);
    free(head);
    free(body);
}

static void as_descs(const uint8_t *data, size_t n_bytes)
{
    char *descs = exact(data, n_bytes, 0);
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_descs_run(descs, n_bytes, 0);
    pgasi_handlers_leave(before);
    free(descs);
}

/* One descriptor with a good header around arguments that are anything; a request often names
 * memory that exists. */
static void as_request(const uint8_t *data, size_t n_bytes, unsigned choices)
{
    static const uint32_t ids[] = { PGASI_DESC_RMA, PGASI_DESC_RMA, PGASI_DESC_SEGMENT,
                                    PGASI_DESC_ACK, PGASI_DESC_REPLY };
    static const uint32_t buffers[] = { PGASI_DESC_BUFFER_READ, PGASI_DESC_BUFFER_DATA,
                                        PGASI_DESC_BUFFER_FREE, PGASI_DESC_REPLY_PIECE };
    uint32_t id = nothing;
    if (choices >> 6 == 3)
        id = buffers[choices % 4];
    else if (choices % 8 < 5)
        id = ids[choices % 8];
    else if (choices % 8 == 5)
        id = echo;
    bool token = choices & 8;
    size_t room = 8 + (token ? 8 : 0) + (n_bytes + 7) / 8 * 8;
    char *desc = calloc(1, room), *args = desc + (token ? 16 : 8);
    uint64_t header = pgasi_desc_header(id, n_bytes, 1) | (token ? PGASI_DESC_TOKEN : 0), offset;
    memcpy(desc, &header, 8);
    if (token)
        memset(desc + 8, (int)choices, 8); /* wants a reply of some size */
    if (n_bytes)
        memcpy(args, data, n_bytes);
    if (n_bytes >= 8 && choices & 0x30) {
        memcpy(&offset, args, 8);
        offset = (choices & 0x10 ? pgas_gptr_offset(attached) : UINT64_C(1) << 30) +
                 offset % (2 * 65536);
        memcpy(args, &offset, 8);
    }
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_descs_run(desc, room, 0);
    pgasi_handlers_leave(before);
    free(desc);
}

static void run_piece(uint64_t id, uint64_t total, uint64_t offset, const char *data, size_t bytes)
{
    pgasi_bulk_piece_t piece = { id, total, offset };
    size_t room = 8 + sizeof piece + (bytes + 7) / 8 * 8;
    char *desc = calloc(1, room);
    uint64_t header = pgasi_desc_header(PGASI_DESC_BULK, sizeof piece + bytes, 1);
    memcpy(desc, &header, 8);
    memcpy(desc + 8, &piece, sizeof piece);
    memcpy(desc + 8 + sizeof piece, data, bytes);
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_descs_run(desc, room, 0);
    pgasi_handlers_leave(before);
    free(desc);
}

/* A call with buffers, in one piece or two; its head mostly has sizes that agree, or nothing else
 * would be tried. */
static void as_bulk(const uint8_t *data, size_t n_bytes, unsigned choices)
{
    static uint64_t last_id;
    uint64_t first = choices >> 3;
    char *stream = exact(data, n_bytes, 0);
    if (n_bytes >= sizeof(pgasi_bulk_head_t) && choices & 1) {
        pgasi_bulk_head_t h;
        memcpy(&h, stream, sizeof h);
        h.n_parts %= 4;
        h.ep = PGASI_EP_ANY;
        h.wire &= UINT32_MAX | PGASI_WIRE_ARRIVED;
        h.args_at = (uint32_t)(sizeof h + h.n_parts * sizeof(pgasi_bulk_part_t));
        h.args_bytes %= 16;
        h.head_bytes = h.args_at + 16;
        h.handler = choices & 2 ? echo : nothing;
        if (h.flags & PGASI_BULK_ARCHIVE) {
            h.handler = h.handler == echo ? PGASI_DESC_ARGS_REPLY : reads;
            h.args_bytes = h.flags & PGASI_BULK_STREAM ? 0 : h.args_bytes;
            h.head_bytes = (uint32_t)PGASI_MAX(n_bytes, h.args_at + 16);
        }
        memcpy(stream, &h, sizeof h);
        for (size_t i = 0, copied = 0; i < h.n_parts && h.head_bytes <= n_bytes; i++) {
            pgasi_bulk_part_t part;
            memcpy(&part, stream + sizeof h + i * sizeof part, sizeof part);
            part.mode = h.flags & PGASI_BULK_ARCHIVE ? PGAS_BUFFER_PULL : part.mode % 3;
            bool last = i + 1u == h.n_parts;
            if (h.flags & PGASI_BULK_ARCHIVE)
                part.bytes %= 512;
            else
                part.bytes = last ? n_bytes - h.head_bytes - copied
                                  : part.bytes % (n_bytes - h.head_bytes - copied + 1) / 8 * 8;
            uint64_t base = choices & 4 ? attached : UINT64_C(1) << 30;
            part.ptr = part.ptr % 3 == 0 ? PGAS_NULL : base + part.ptr % 8192;
            copied += part.mode == PGAS_BUFFER_COPY ? part.bytes : 0;
            memcpy(stream + sizeof h + i * sizeof part, &part, sizeof part);
        }
    }
    last_id++;
    if (first == 0 || first >= n_bytes) {
        run_piece(last_id, n_bytes, 0, stream, n_bytes);
    } else {
        run_piece(last_id, n_bytes, 0, stream, n_bytes - first);
        run_piece(last_id, n_bytes, n_bytes - first, stream + n_bytes - first, first);
    }
    free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    start();
    if (n_bytes < 2)
        return 0;
    unsigned way = data[0], choices = data[1];
    pgasi_recv_lock();
    if (way % 4 == 0)
        as_message(data + 2, n_bytes - 2, choices);
    else if (way % 4 == 1)
        as_descs(data + 2, n_bytes - 2);
    else if (way % 4 == 2)
        as_bulk(data + 2, n_bytes - 2, choices);
    else
        as_request(data + 2, n_bytes - 2, choices);
    pgasi_recv_unlock();
    require(pgasi_self.in_handler == 0, "no handler is left running");
    while (pgas_progress() > 0) { /* answers come back to us */
    }
    uint64_t word = 0;
    require(pgas_call_return(0, echo, &total, sizeof total, &word, sizeof total) == PGAS_OK,
            "calls still work");
    return 0;
}
