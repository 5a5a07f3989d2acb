#!/usr/bin/env bash
# what: folders include only what stands below them; MPI, hwloc, UCX and verbs stay in the folders that own them
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch

# offenders FOLDER: the bad lines of a tree.
offenders() {
    (cd "$1" && find include src ./*_backend examples benchmarks tools t -name '*.[ch]' 2>/dev/null | sed 's,^\./,,' |
        LC_ALL=C sort | xargs -r "$AWK" -f "$TOP/t/lint/floors.awk" -f "$TOP/t/lint/includes.awk")
}

# caught FILE LINE: a tree with this one line in this file is refused; allowed FILE LINE: it is not.
try() {
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$1")"
    printf '%s\n' "$2" >"$scratch/tree/$1"
    offenders "$scratch/tree"
}
caught() { if [ -n "$(try "$1" "$2")" ]; then ok 0 "caught: $2 in $1"; else ok 1 "caught: $2 in $1"; fi; }
allowed() { empty "$(try "$1" "$2")" "allowed: $2 in $1"; }

plan 37
empty "$(offenders "$TOP")" "the tree keeps to its layers"

caught src/base/x.c '#include "boot/boot.h"'
caught src/mem/x.c '#include "call/handler.h"'
caught src/array/x.c '#include "group/group.h"'
caught src/graph/x.c '#include "mem/heap.h"'
caught src/call/x.c '#include <mpi.h>'
caught src/mem/deep/x.c '  #  include <hwloc.h>'
caught src/transport/x.c '#include <ucp/api/ucp.h>'
caught src/transport/x.c '#include "ucx_backend/ucx.h"'
caught ucx_backend/x.c '#include "mem/heap.h"'
caught ucx_backend/x.c '#include <infiniband/verbs.h>'
caught src/base/x.c '#include <omp.h>'
caught include/pgas/x.h '#include "base/log.h"'
caught include/pgas/x.h '#include <mpi.h>'
caught include/pgas/x.h '#include <pthread.h>'
caught examples/x.c '#include "base/log.h"'
caught tools/x.c '#include "config.h"'
caught benchmarks/x.c '#include <mpi.h>'
caught src/base/x.c '#include "t/tap.h"'
caught src/base/x.c '#include "../mem/heap.h"'
caught src/base/x.c '#/**/include "mem/heap.h"'
caught src/base/x.c '#include "pgas/init.h"'
caught ucx_backend/x.c '#include "pgas/pgas.h"'
caught verbs_backend/snic/x.c '#include "verbs_backend/queue/device.h"'
caught verbs_backend/queue/x.c '#include "verbs_backend/transport/inside.h"'
caught verbs_backend/wqe.c '#include "verbs_backend/snic/snic.h"'
caught verbs_backend/queue/x.c '#include "transport/transport.h"'
caught verbs_backend/transport/x.c '#include <infiniband/verbs.h>'
caught examples/x.c '#include "pgas/detail/call.h"'

allowed src/call/x.c '#include "base/log.h"'
allowed src/boot/x.c '#include <mpi.h>'
allowed ucx_backend/x.c '#include "transport/transport.h"'
allowed verbs_backend/transport/x.c '#include "transport/transport.h"'
allowed verbs_backend/queue/x.c '#include "verbs_backend/snic/snic.h"'
allowed benchmarks/ref_mpi.c '#include <mpi.h>'
allowed include/pgas/init.h '#include <mpi.h>'
allowed include/pgas/x.h '#include "pgas/detail/x.h"'
done_testing
