/* A home without memory to send a large value.
 *   what:   A rank of another node that asks for the value gets PGAS_ERR_NO_MEMORY. When there is
 *           memory again, it gets the value.
 *   np:     2
 *   nodes:  1
 *   needs:  no-sanitizers
 *   source: pgas/kvs.h
 */
#include "t/pattern.h"
#include "t/spmd/kvs_keys.h"

#define BYTES ((size_t)4 << 20)

static size_t refused; /* a size for which there is no memory */

void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes);

void *malloc(size_t bytes)
{
    return refused && bytes == refused ? NULL : __libc_malloc(bytes);
}

int main(int argc, char **argv)
{
    char key[32];
    job_begin(&argc, &argv, 2);
    pgas_kvs_opts_t opts = PGAS_KVS_OPTS_INIT;
    pgas_kvs_t *kvs = NULL;
    opts.bytes = 5 * BYTES;
    opts.cache_bytes = 1; /* none */
    BAD(pgas_kvs_create(NULL, &opts, &kvs));
    unsigned char *value = job_alloc(BYTES + 1);
    int number = 0, home;
    pattern_fill(value, 5, BYTES);
    do { /* a key whose home is rank 1 */
        BAD(pgas_barrier(NULL));
        if (me == 1)
            BAD(pgas_kvs_put(kvs, key_of(key, "large", number), KEY_BYTES, value, 64));
        BAD(pgas_barrier(NULL));
        home = home_of(kvs, key_of(key, "large", number++));
        BAD(pgas_broadcast(NULL, &home, sizeof home, 0));
    } while (home != 1);
    if (me == 1)
        BAD(pgas_kvs_put(kvs, key, KEY_BYTES, value, BYTES));
    BAD(pgas_barrier(NULL));
    if (me == 1)
        refused = BYTES;
    BAD(pgas_barrier(NULL));
    size_t bytes = 0;
    if (me == 0)
        GAVE(pgas_kvs_get(kvs, key, KEY_BYTES, value, BYTES, &bytes), PGAS_ERR_NO_MEMORY);
    BAD(pgas_barrier(NULL));
    spmd_is_int(crew_faults(), 0, "no memory at the home");
    refused = 0;
    BAD(pgas_barrier(NULL));
    memset(value, 0, BYTES);
    if (me == 0 && !BAD(pgas_kvs_get(kvs, key, KEY_BYTES, value, BYTES, &bytes)))
        crew_judge(bytes == BYTES && pattern_matches(value, 5, BYTES), "the value");
    BAD(pgas_barrier(NULL));
    BAD(pgas_kvs_destroy(kvs));
    free(value);
    spmd_is_int(crew_faults(), 0, "memory again");
    return job_end();
}
