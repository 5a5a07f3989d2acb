/* The number of copies of an argument.
 *   what:   One transfer of a registered vector moves each of its bytes once. So does a reply, and
 *           so do several vectors in one call. A parcel that is serialized into buffers on both
 *           sides, with five copies, does not pass.
 *   np:     2
 *   nodes:  1 0 1 1
 *   tls:    posix posix tcp,self posix
 *   env:    PGAS_TRANSPORT=ucx | PGAS_TRANSPORT=ucx | PGAS_TRANSPORT=ucx |
 *   env:    PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic
 *   needs:  no-sanitizers
 *   source: pgas/call_archive.h; HPX's figure of the copies of a parcel
 *
 * The program has memcpy, memmove and process_vm_readv of its own. They take the place of those of
 * the C library in this library, in UCX and in MPI. They count the bytes of the payload in copies
 * that mostly consist of it. The software NIC executes in the ranks, so its copies are among them.
 * What sockets do is the network, and is not counted: over TCP the copy out of UCX's receive
 * segment is. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "pgas/call_archive.h"
#include "t/spmd/job.h"

#define MARK      0xa5 /* each byte of the payload */
#define LEAST     64   /* bytes of a copy that is looked at */
#define N_VECTORS 3
#define N_SIZES   4

static int counting;
static uint64_t n_copied;

/* ---- copies ---- */

static void look(const unsigned char *from, size_t bytes)
{
    size_t n = 0;
    if (bytes < LEAST || !__atomic_load_n(&counting, __ATOMIC_RELAXED))
        return;
    for (size_t i = 0; i < bytes; i++)
        n += from[i] == MARK;
    if (n > bytes / 2)
        __atomic_fetch_add(&n_copied, n, __ATOMIC_RELAXED);
}

/* Volatile, so that the compiler does not make a call of memcpy out of the loop. */
static void copy_up(volatile unsigned char *to, const unsigned char *from, size_t bytes)
{
    size_t i = 0;
    for (; i + 8 <= bytes && (((uintptr_t)to | (uintptr_t)from) & 7) == 0; i += 8)
        *(volatile uint64_t *)(volatile void *)(to + i) =
            *(const uint64_t *)(const void *)(from + i);
    for (; i < bytes; i++)
        to[i] = from[i];
}

static void copy_down(volatile unsigned char *to, const unsigned char *from, size_t bytes)
{
    while (bytes-- > 0)
        to[bytes] = from[bytes];
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    look(from, bytes);
    copy_up(to, from, bytes);
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    look(from, bytes);
    if ((uintptr_t)to - (uintptr_t)from < bytes)
        copy_down(to, from, bytes);
    else
        copy_up(to, from, bytes);
    return to;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *mine, unsigned long n_mine,
                         const struct iovec *theirs, unsigned long n_theirs, unsigned long flags)
{
    ssize_t n = syscall(SYS_process_vm_readv, pid, mine, n_mine, theirs, n_theirs, flags);
    if (n > 0 && n_mine == 1)
        look(mine->iov_base, (size_t)n);
    return n;
}

/* ---- transfers ---- */

static pgas_handler_t take, give, unpack;
static uint64_t n_run;
static int n_bad_seen;

static int n_wrong(const unsigned char *data, size_t bytes)
{
    int n = !data;
    for (size_t i = 0; data && i < bytes; i++)
        n += data[i] != MARK;
    return n;
}

static pgas_rma_object_t *make(size_t bytes)
{
    pgas_rma_object_t *object = NULL;
    if (pgas_rma_object_create(bytes, &object) == PGAS_OK)
        memset(object->data, MARK, bytes);
    return object;
}

/* The handler keeps the vectors, as a program would. */
static void on_take(const void *args, size_t args_bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    uint32_t n = 0;
    (void)args, (void)args_bytes, (void)source, (void)context;
    n_bad_seen += pgas_archive_from_call(&in) != PGAS_OK;
    n_bad_seen += pgas_archive_get(&in, &n, sizeof n) != PGAS_OK;
    for (uint32_t i = 0; i < n; i++) {
        pgas_rma_object_t *object = NULL;
        size_t bytes = 0;
        n_bad_seen += pgas_archive_get_object(&in, &object, &bytes) != PGAS_OK;
        n_bad_seen += n_wrong(object ? object->data : NULL, bytes);
        pgas_rma_object_destroy(object);
    }
    pgas_archive_free(&in);
    __atomic_fetch_add(&n_run, 1, __ATOMIC_RELEASE);
}

static void on_give(const void *args, size_t args_bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in, out = PGAS_ARCHIVE_INIT;
    uint64_t bytes = 0;
    (void)args, (void)args_bytes, (void)source, (void)context;
    n_bad_seen += pgas_archive_from_call(&in) != PGAS_OK;
    n_bad_seen += pgas_archive_get(&in, &bytes, sizeof bytes) != PGAS_OK;
    pgas_archive_free(&in);
    pgas_rma_object_t *object = make(bytes);
    pgas_archive_put_object(&out, object, bytes);
    n_bad_seen += pgas_reply_args(&out, NULL, NULL) != PGAS_OK;
    pgas_rma_object_destroy(object);
    pgas_archive_free(&out);
}

/* Copies the data out of the archive into a parcel, and out of the parcel into a vector. */
static void on_unpack(const void *args, size_t args_bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    const void *data = NULL;
    size_t bytes = 0;
    (void)args, (void)args_bytes, (void)source, (void)context;
    n_bad_seen += pgas_archive_from_call(&in) != PGAS_OK;
    n_bad_seen += pgas_archive_get_vector(&in, 1, &data, &bytes) != PGAS_OK;
    unsigned char *parcel = job_alloc(bytes), *vector = job_alloc(bytes);
    memcpy(parcel, data, bytes);
    memcpy(vector, parcel, bytes);
    n_bad_seen += n_wrong(vector, bytes);
    free(parcel);
    free(vector);
    pgas_archive_free(&in);
    __atomic_fetch_add(&n_run, 1, __ATOMIC_RELEASE);
}

static void begin(void)
{
    pgas_barrier(NULL);
    n_copied = n_run = 0;
    n_bad_seen = 0;
    __atomic_store_n(&counting, 1, __ATOMIC_SEQ_CST);
    pgas_barrier(NULL);
}

/* @return the bytes of payload that all ranks have moved */
static uint64_t end(void)
{
    uint64_t mine, all = 0;
    pgas_quiesce();
    __atomic_store_n(&counting, 0, __ATOMIC_SEQ_CST);
    mine = n_copied;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD);
    return all;
}

/* Rank 0 sends n vectors to rank 1. @return what was moved */
static uint64_t send_vectors(uint32_t n, size_t bytes)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_rma_object_t *object[N_VECTORS] = { NULL };
    for (uint32_t i = 0; i < n; i++)
        object[i] = make(bytes);
    begin();
    if (me == 0) {
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &done;
        pgas_archive_put(&out, &n, sizeof n);
        for (uint32_t i = 0; i < n; i++)
            pgas_archive_put_object(&out, object[i], bytes);
        n_bad_seen += pgas_call_args(pgas_on_rank(1), take, &out, &opts) != PGAS_OK;
        n_bad_seen += pgas_sync_wait(&done, -1) != PGAS_OK;
    }
    uint64_t moved = end();
    for (uint32_t i = 0; i < n; i++)
        pgas_rma_object_destroy(object[i]);
    pgas_archive_free(&out);
    return moved;
}

static const size_t sizes[N_SIZES] = { 8192, 65536, 100000, (size_t)1 << 20 };

static void calls(void)
{
    int n_bad = 0;
    for (int i = 0; i < N_SIZES; i++) {
        uint64_t moved = send_vectors(1, sizes[i]);
        n_bad += n_bad_seen || moved != sizes[i] || n_run != (uint64_t)(me == 1);
        if (moved != sizes[i])
            spmd_diag("%zu bytes: %llu were moved", sizes[i], (unsigned long long)moved);
    }
    spmd_is_int(n_bad, 0, "a registered vector in a call is moved once");
    uint64_t moved = send_vectors(N_VECTORS, 200000);
    spmd_ok(n_bad_seen == 0 && moved == N_VECTORS * UINT64_C(200000),
            "so are several vectors in one call");
}

static void replies(void)
{
    int n_bad = 0;
    for (int i = 0; i < N_SIZES; i++) {
        pgas_archive_t out = PGAS_ARCHIVE_INIT, result;
        uint64_t bytes = sizes[i];
        begin();
        if (me == 0) {
            pgas_rma_object_t *object = NULL;
            size_t n = 0;
            pgas_archive_put(&out, &bytes, sizeof bytes);
            n_bad += pgas_call_args_return(pgas_on_rank(1), give, &out, &result) != PGAS_OK;
            n_bad += pgas_archive_get_object(&result, &object, &n) != PGAS_OK || n != bytes ||
                     n_wrong(object->data, n);
            pgas_rma_object_destroy(object);
            pgas_archive_free(&result);
        }
        n_bad += end() != bytes || n_bad_seen;
        pgas_archive_free(&out);
    }
    spmd_is_int(n_bad, 0, "a registered vector in a reply is moved once");
}

/* Into the parcel, into the archive, through the transport, and twice at the receiver. */
static void five_copies(void)
{
    const size_t bytes = 100000;
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    pgas_sync_t done = PGAS_SYNC_INIT;
    unsigned char *vector = job_alloc(bytes), *parcel = job_alloc(bytes);
    memset(vector, MARK, bytes);
    begin();
    if (me == 0) {
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &done;
        memcpy(parcel, vector, bytes);
        out.threshold = SIZE_MAX;
        pgas_archive_put_vector(&out, parcel, bytes, 1);
        n_bad_seen += pgas_call_args(pgas_on_rank(1), unpack, &out, &opts) != PGAS_OK;
        n_bad_seen += pgas_sync_wait(&done, -1) != PGAS_OK;
    }
    uint64_t moved = end();
    if (!spmd_ok(n_bad_seen == 0 && moved >= 5 * bytes, "a serialized parcel is seen to be moved "
                                                        "five times at least"))
        spmd_diag("%llu bytes", (unsigned long long)moved);
    free(vector);
    free(parcel);
    pgas_archive_free(&out);
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.take", on_take, NULL, NULL, &take);
    pgas_handler_register("t.give", on_give, NULL, NULL, &give);
    pgas_handler_register("t.unpack", on_unpack, NULL, NULL, &unpack);
    job_begin(&argc, &argv, 4);
    calls();
    replies();
    five_copies();
    return job_end();
}
