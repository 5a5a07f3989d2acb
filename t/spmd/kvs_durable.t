#!/usr/bin/env bash
# what: A snapshot is loaded by any number of ranks. A durable store comes back with its last writes, on any number of
#       ranks, also if snapshots were made while threads wrote. Damaged files, full disks and a second store in the
#       directory give errors that name the file, and no file is changed.
# source: pgas/kvs.h
# log: kvs.*
# timeout: 300
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
export PGAS_HEAP_SIZE=48M
nodes=0

# step N WORD..: the program on N ranks; output in $scratch/out.
step() {
    local n=$1
    shift
    PGAS_NODE_MAXSIZE=$nodes PGAS_UCX_TLS=posix timeout -k 5 60 "$TOP/t/mpirun" "$n" "$BUILD/t/spmd/kvs_files" "$@" \
        >"$scratch/out" 2>&1 </dev/null
}
# good DESCRIPTION N WORD..: the step succeeds, and the log has no line.
good() {
    local text=$1
    shift
    step "$@" && [ ! -s "$scratch/out" ]
    ok $? "$text" || diag "$(cat "$scratch/out")"
}
# says DESCRIPTION PATTERN N WORD..: the step succeeds, and one rank logs one line, which matches.
says() {
    local text=$1 pattern=$2
    shift 2
    step "$@"
    said="$? $(grep -c '' "$scratch/out") $(grep -cE -- "$pattern" "$scratch/out")"
    is "$said" "0 1 1" "$text"
    if [ "$said" != "0 1 1" ]; then diag "$(cat "$scratch/out")"; fi
}
files() { (cd "$1" && ls | grep -v '^lock$' | paste -sd ' '); }
contents() { (cd "$1" && cksum $(ls | grep -v '^lock$')); }
# flip FILE OFFSET: changes a byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

plan 47
# ---- snapshots ----
mkdir "$scratch/saved"
shot=$scratch/saved/shot
good "3 ranks save" 3 save "$shot" 2000
is "$(files "$scratch/saved")" "shot shot.0 shot.1 shot.2" "a file each, and the manifest"
good "1 rank loads it" 1 load "$shot" 2000
good "2 ranks load it" 2 load "$shot" 2000
good "5 ranks load it" 5 load "$shot" 2000
nodes=1
good "2 nodes load it" 2 load "$shot" 2000
good "2 nodes save" 2 save "$shot" 1500
nodes=0
is "$(files "$scratch/saved")" "shot shot.0 shot.1" "in place of the one before"
good "3 ranks load that" 3 load "$shot" 1500
mv "$shot.1" "$shot.1.new"
good "a save that was killed before its last rename is loaded" 3 load "$shot" 1500
good "another save follows" 3 save "$shot" 100
is "$(files "$scratch/saved")" "shot shot.0 shot.1 shot.2" "and leaves nothing else"
# A value of 600,000 bytes, and less than 50,000 bytes of others.
succeeds "each key is in a shard once" test "$(cat "$shot".[012] | wc -c)" -lt 650000
good "which is loaded" 2 load "$shot" 100
flip "$shot.1" 3000
says "a damaged shard is refused" "shot\.1: it is damaged at offset" 2 open "$shot" PGAS_ERR_FORMAT
rm "$shot.1"
says "so is one that is missing" "shot\.1: .* missing" 2 open "$shot" PGAS_ERR_FORMAT
flip "$shot" 70
says "and a damaged manifest" "shot: .*checksum" 2 open "$shot" PGAS_ERR_FORMAT
says "and one that is missing" "nothing: there is no snapshot" 2 open "$scratch/nothing" PGAS_ERR_IO
long=$(printf '%5000s' '' | tr ' ' x)
says "a directory with too long a name is refused" "the name of a file is too long" 1 create "$long" PGAS_ERR_LIMIT
says "saving to a directory that does not exist fails" "none/x.*No such file" 1 nowhere "$scratch/none/x"

# ---- a durable store ----
dir=$scratch/dir
good "a new durable store" 3 write "$dir" 0 1000
is "$(files "$dir")" "kvs log.2.0 log.2.1 log.2.2" "has a manifest and logs"
good "2 ranks recover it, and write more" 2 write "$dir" 1000 500
good "5 ranks recover it, and make snapshots while they write" 5 rotate "$dir" 1500 2000
is "$(files "$dir" | tr ' ' '\n' | sed 's/\.[0-9]*\.[0-9]*$//' | sort | uniq -c | xargs)" "6 kvs 5 log" \
    "then the logs of before are gone"
nodes=1
good "2 nodes recover it, and make snapshots" 2 rotate "$dir" 3500 500
nodes=0
says "a second store is refused, by the name of the first" "dir/lock: another store .*process [0-9]+ of host" 2 twice "$dir" 4000
touch "$dir/kvs.999.0" "$dir/log.1.7" "$dir/kvs.tmp"
good "files that a crash has left" 2 write "$dir" 4000 10
is "$(cd "$dir" && ls | grep -cE 'kvs.999.0|log.1.7')" 0 "are deleted"
log=$(cd "$dir" && ls -S log.* | head -n 1)
contents "$dir" >"$scratch/before"
flip "$dir/$log" 200
contents "$dir" >"$scratch/before"
says "a damaged log is refused" "$log: the log is damaged at offset" 2 create "$dir" PGAS_ERR_FORMAT
is "$(contents "$dir")" "$(cat "$scratch/before")" "and no file is changed"
flip "$dir/$log" 200
good "it was the only damage" 2 write "$dir" 4010 10
mv "$dir/kvs" "$dir/kept"
says "a manifest that is missing is noticed" "kvs: the manifest is missing" 2 create "$dir" PGAS_ERR_FORMAT
mv "$dir/kept" "$dir/kvs"
truncate -s -10 "$dir/$log"
good "a torn log is none" 2 write "$dir" 4020 5
step 2 full "$dir" 4025 5
ok $? "a disk that is full, then not" || diag "$(cat "$scratch/out")"
is "$(grep -c 'cannot write the log' "$scratch/out")" 2 "each rank says so once"
good "all is there" 3 write "$dir" 4030 10

# ---- logs with many more records than fit ----
good "2 ranks put 60,000 keys, and delete nearly all of them" 2 churn "$scratch/churn" 60000
good "2 ranks recover what is left" 2 churned "$scratch/churn" 60000
good "so does 1 rank" 1 churned "$scratch/churn" 60000
nodes=1
good "so do 2 nodes" 2 churned "$scratch/churn" 60000
nodes=0
good "2 ranks overwrite, delete and evict keys" 2 evict "$scratch/evict" 4000
good "2 ranks recover no old value" 2 evicted "$scratch/evict" 4000
good "nor does 1 rank, which has to evict more" 1 evicted "$scratch/evict" 4000
good "nor do 3 ranks" 3 evicted "$scratch/evict" 4000
good "1 rank deletes all keys, also those that it has to evict at the start" 1 evict_all "$scratch/evict" 4000
good "none of them comes back" 2 evict_none "$scratch/evict" 4000
done_testing
