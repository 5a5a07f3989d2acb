#!/usr/bin/env bash
# what: Memory is reserved and not written ahead. Heaps larger than /dev/shm start with any transport, and a killed job
#       leaves no memory behind. The library respects limits of cgroups on memory and processor time.
# needs: namespaces
# timeout: 60
# source: pgas_info --job; the machine's /dev/shm and SysV segments
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
export PGAS_TRANSPORT=ucx

# confined COMMAND..: runs it where /dev/shm has 64 MiB, with SysV segments of its own.
confined() {
    unshare --mount --ipc sh -c 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"' sh "$@"
}

# runs PROGRAM N SETTING..: a job of N nodes passes all its points.
runs() {
    local program=$1 n=$2
    shift 2
    PGAS_NODE_MAXSIZE=1 confined env "$@" timeout -k 5 20 "$TOP/t/mpirun" "$n" "$BUILD/$program" >"$scratch/out" 2>&1 &&
        ! grep -qE '^not ok| (error|warn): ' "$scratch/out"
}

large_heaps() {
    local pair tls setting
    for pair in posix:HEAP_SIZE=2G sysv,self:FAR_CHUNK_MEMORY=2G; do
        tls=${pair%%:*} setting=${pair#*:}
        runs t/spmd/reserve.t 2 PGAS_UCX_TLS=$tls PGAS_HEAP_SIZE=64M PGAS_MEMORY_LIMIT=1T PGAS_$setting && s=0 || s=$?
        ok $s "$setting is mapped beside a /dev/shm of 64 MiB, transports $tls"
        [ $s -eq 0 ] || diag "$(cat "$scratch/out")"
    done
}

# The transport leaves neither files nor SysV segments behind.
killed_jobs() {
    PGAS_NODE_MAXSIZE=1 PGAS_UCX_TLS=posix,sysv PGAS_HEAP_SIZE=1G MPIRUN_LEAVES_CLEANUP=1 confined sh -c "
        timeout -k 5 20 \"$TOP/t/mpirun\" 3 \"$BUILD/t/spmd/victim\" 1 barrier >\"$scratch/out\" 2>&1
        ls /dev/shm | grep -E 'ucx|pgas'
        ipcs -m | grep '^0x'" >"$scratch/left"
    grep -q '^started' "$scratch/out" || echo "the job did not start" >>"$scratch/left"
    empty "$(cat "$scratch/left")" "a killed job leaves no memory behind"
}

# in_cgroup CONTROLLER FILE_1 VALUE_1 FILE_2 VALUE_2 COMMAND..: runs it where a limit of cgroups, version 1 or 2, holds.
in_cgroup() {
    local folder=/sys/fs/cgroup/$1 file=$2 value=$3 status=0
    if [ ! -e "/sys/fs/cgroup/$1/cgroup.procs" ]; then
        folder=/sys/fs/cgroup file=$4 value=$5
        grep -qw "$1" "$folder/cgroup.subtree_control" 2>/dev/null || return 77
    fi
    shift 5
    folder=$folder/libpgas-test.$$
    mkdir "$folder" 2>/dev/null && { echo "$value" >"$folder/$file"; } 2>/dev/null || return 77
    sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$folder" "$@" >"$scratch/out" 2>&1 || status=$?
    for ((i = 0; i < 50; i++)); do # until the last process of the job has left
        rmdir "$folder" 2>/dev/null && break
        read -rt 0.1 <> <(:) || :
    done
    return $status
}

# judge STATUS WORDS DESCRIPTION: judges the output of the last command in a cgroup.
judge() {
    if [ "$1" -eq 77 ]; then
        skip 1 "no cgroup can be made here"
        return
    fi
    grep -qF "$2" "$scratch/out" && s=0 || s=$?
    ok $s "$3"
    [ $s -eq 0 ] || diag "$(grep -E 'error|^job:' "$scratch/out")"
}

cgroups() {
    in_cgroup memory memory.limit_in_bytes 400M memory.max 400M \
        env PGAS_HEAP_SIZE=1G timeout -k 5 20 "$TOP/t/mpirun" 2 "$BUILD/tools/pgas_info" --job
    judge $? "the cgroup of this job has 400 MiB" "heaps that exceed the cgroup are refused, with its size"
    in_cgroup cpu cpu.cfs_quota_us 150000 cpu.max "150000 100000" \
        timeout -k 5 20 "$TOP/t/mpirun" 2 "$BUILD/tools/pgas_info" --job
    judge $? "a cgroup's quota of 1.50 CPUs (oversubscribed" "two ranks with a quota of 1.5 CPUs yield at once"
}

# If an answer could not be sent, the asking rank would wait for ever. Launchers may drop output of ranks while they end
# a job, so ranks write to the file themselves, and all writers append.
without_files() {
    local status=0
    : >"$scratch/out"
    PGAS_NODE_MAXSIZE=1 PGAS_UCX_TLS=tcp,self MPIRUN_LEAVES_CLEANUP=1 OUT="$scratch/out" timeout -k 5 30 \
        "$TOP/t/mpirun" 3 bash -c 'exec "$0" "$@" 2>>"$OUT"' "$BUILD/t/spmd/few_files.t" answers \
        >>"$scratch/out" 2>&1 || status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q 'cannot be sent' "$scratch/out" && s=0 || s=$?
    ok $s "a rank without a file for an answer ends the job, and says why"
    [ $s -eq 0 ] || diag "status $status: $(grep -E ' (error|warn): ' "$scratch/out")"
}

plan 6
without_files
large_heaps
killed_jobs
cgroups
done_testing
