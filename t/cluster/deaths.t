#!/usr/bin/env bash
# what: All ranks notice the death of a rank of another host without a connection to it: in init, in a collective and in
#       finalize. All notice a host that is cut off, and both sides end or continue without help. Ranks that finish
#       early do not count as dead. One request makes all ranks report. Short interruptions, and strangers at the
#       listeners, change nothing.
# needs: no-sanitizers namespaces
# source: public headers
# timeout: 300
# turn: waits
set -u
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/hosts.sh"

LIMIT=40 # seconds, a guard: a death takes less than one
RANKS=4  # on two hosts, h1 has ranks 1 and 3

refusal=$(cluster_refusal)
[ -z "$refusal" ] || skip_all "$refusal"
cluster_enter
make_scratch
launcher=
trap 'stop_job; cluster_end; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP ABRT
cd "$BUILD" || exit 1
export TAP_DEATHS=$scratch/said MPIRUN_LEAVES_CLEANUP=1 OMPI_MCA_orte_enable_recovery=1 PGAS_HEAP_SIZE=4M

pause() { read -r -t "$1" <> <(:) || :; }

# until_true COMMAND..: waits for it, up to the guard.
until_true() {
    local end=$((SECONDS + LIMIT))
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        pause 0.05
    done
}

ranks_left() {
    local i pid n=0
    for i in 0 1; do for pid in $(ip netns pids "pgas-$CLUSTER_ID-h$i" 2>/dev/null); do
        case $(cat "/proc/$pid/comm" 2>/dev/null) in *quiet_vict*) n=$((n + 1)) ;; esac
    done; done
    echo $n
}
none_left() { [ "$(ranks_left)" = 0 ]; }
said() { grep -q "$1" "$TAP_DEATHS" 2>/dev/null; }
has_survivors() { [ "$(grep -c '^survived' "$TAP_DEATHS")" -ge "$1" ]; }
all_well() { [ "$(grep -c '^ended .: PGAS_OK, then finalize gave PGAS_OK' "$TAP_DEATHS")" = $RANKS ] && ! said 'died\|silent'; }
port() { ip link set "pgv${CLUSTER_ID}i1" "$1"; } # of h1: up or down

# begin VICTIM HOW WHERE SETTING..: starts the job.
begin() {
    local victim=$1 how=$2 where=$3
    shift 3
    rm -f "$TAP_DEATHS"*
    : >"$TAP_DEATHS"
    set -m # a group of its own, in the session that t/launch ends
    env "$@" "$TOP/t/mpirun" $RANKS t/cluster/quiet_victim "$victim" "$how" "$where" >"$scratch/out" 2>&1 </dev/null &
    launcher=$!
    set +m
    disown
}

# Launchers do not always end after a death, and are not under test.
stop_job() {
    local i pids
    port up 2>/dev/null
    ip neigh flush dev "$CLUSTER_BRIDGE" 2>/dev/null # what could not be reached is asked for again
    for i in 0 1; do ip -n "pgas-$CLUSTER_ID-h$i" neigh flush dev eth0 2>/dev/null; done
    [ -n "$launcher" ] || return 0
    kill -KILL -- -"$launcher" 2>/dev/null
    for i in 0 1; do
        pids=$(ip netns pids "pgas-$CLUSTER_ID-h$i" 2>/dev/null)
        if [ -n "$pids" ]; then kill -KILL $pids 2>/dev/null; fi
    done
    launcher=
}

# judge STATUS TEXT: the point, and the end of the job.
judge() {
    ok "$1" "$2" || diag "$(cat "$TAP_DEATHS" "$scratch/out")"
    stop_job
}

# dies HOW WHERE SETTING..: one point; rank 1 dies, and the others end the job, which says why.
dies() {
    begin 1 "$@"
    until_true said . && until_true none_left && said 'watch: error: rank 1 died' && ! said 'survived\|rank [023] died'
    judge $? "rank 1 dies ($1) in $2${3:+, $3}: the job ends and says why"
}

# survive HOW WHERE SETTING..: one point.
survive() {
    if [ "$MPI_FLAVOR" != openmpi ]; then
        skip 1 "the launcher of $MPI_NAME ends the job with its first rank"
        return
    fi
    begin 1 "$@" PGAS_ON_PEER_DEATH=continue
    if [ "$2" = compute ]; then until_true said started && touch "$TAP_DEATHS.go"; fi
    until_true has_survivors $((RANKS - 1)) && ! said 'ended\|^wrong\|was not destroyed'
    judge $? "rank 1 dies ($1) in $2${3:+, $3}: the others go on"
}

# leaves_early PLACE SETTING..: one point; ranks that finish before the last one are not dead for it.
leaves_early() {
    if [ "$MPI_FLAVOR" != openmpi ]; then
        skip 1 "the launcher of $MPI_NAME ends the job with its first rank"
        return
    fi
    CLUSTER_HOSTS=$1 begin 1 kill early PGAS_ON_PEER_DEATH=continue "${@:2}"
    until_true said 'leaves 0' && until_true said 'leaves 2' && pause 0.3 && ! said 'survived'
    touch "$TAP_DEATHS.stop"
    until_true has_survivors $((RANKS - 1)) && ! said 'rank [023] died\|in finalize'
    judge $? "ranks that finish early on ${1:-one host} serve the last one${2:+, $2}"
}

all_report() {
    local r
    for ((r = 0; r < RANKS; r++)); do said "^$r/$RANKS .*report: warn: the initial thread of this rank is in" || return 1; done
}

# reports PLACE WHERE SETTING..: one point; SIGUSR2 to rank 1 makes all ranks log their stacks, once, and changes nothing else.
reports() {
    CLUSTER_HOSTS=$1 begin 1 ask "$2" "${@:3}"
    until_true all_report && touch "$TAP_DEATHS.go" "$TAP_DEATHS.stop" && until_true all_well &&
        [ "$(grep -c 'report: warn: the initial' "$TAP_DEATHS")" = $RANKS ]
    judge $? "one request makes all ranks on ${1:-one host} report${3:+, $3}"
}

# On this machine only the watch of processes detects a death.
without_pidfd() {
    if [ "$MPI_FLAVOR" != openmpi ]; then
        skip 1 "the launcher of $MPI_NAME ends the job with its first rank"
        return
    fi
    CLUSTER_HOSTS= begin 1 kill barrier PGAS_ON_PEER_DEATH=continue TAP_NO_PIDFD=1
    until_true has_survivors $((RANKS - 1)) && said 'watch: warn: cannot watch the process of rank'
    judge $? "rank 1 dies where pidfd_open is refused: this is said, and the others notice"
}

# is_cut WHERE MODE SETTING..: one point; h1 is cut off for good.
is_cut() {
    begin -1 none "$1" PGAS_PEER_TIMEOUT_S=2 PGAS_ON_PEER_DEATH="$2" "${@:3}"
    until_true said started && port down
    if [ "$2" = continue ]; then until_true has_survivors $RANKS; else
        until_true none_left && said '^[02]/4 .*watch: error: ranks 1, 3 died' && said '^[13]/4 .*watch: error: ranks 0, 2 died'
    fi
    judge $? "h1 is cut off in $1, $2${3:+, $3}: both sides notice"
}

# heals WHERE SETTING..: h1 is cut off for a second.
heals() {
    begin -1 none "$1" PGAS_PEER_TIMEOUT_S=10 "${@:2}"
    until_true said started && port down
    pause 1
    port up
    touch "$TAP_DEATHS.stop"
    until_true all_well
    judge $? "h1 is cut off for a second in $1${2:+, $2}: the result is right"
}

# Ranks of h0 connect to those of h1 for the first time while h0 has no route to h1.
heals_first() {
    local h0=pgas-$CLUSTER_ID-h0 address
    address=$(ip -n "pgas-$CLUSTER_ID-h1" -4 -o addr show dev eth0 | sed 's,.* inet \([0-9.]*\)/.*,\1,')
    begin -1 none first PGAS_PEER_TIMEOUT_S=20
    until_true said started && ip -n "$h0" route add unreachable "$address"
    touch "$TAP_DEATHS.go"
    until_true said 'connecting context'
    ip -n "$h0" route del unreachable "$address"
    until_true all_well
    judge $? "no route to h1 when ranks connect: the result is right"
}

# Both hosts have an interface without a network, and a setting makes the watch use it: this makes no rank dead. The transport
# detects later deaths.
has_no_ring() {
    local i pid
    for i in 0 1; do
        ip -n "pgas-$CLUSTER_ID-h$i" link add nowhere type veth peer name nowhere-at-all &&
            ip -n "pgas-$CLUSTER_ID-h$i" addr add "10.76.0.$((i + 1))/24" dev nowhere &&
            ip -n "pgas-$CLUSTER_ID-h$i" link set nowhere up || break
    done
    begin -1 none put PGAS_WATCH_INTERFACE=nowhere PGAS_PEER_TIMEOUT_S=1
    until_true said started && said 'watch: warn: the hosts of this job cannot watch each other' && ! said 'died\|silent\|ending'
    ok $? "a network of the watch lets nothing through: a warning" || diag "$(cat "$TAP_DEATHS" "$scratch/out")"
    for pid in $(ip netns pids "pgas-$CLUSTER_ID-h1"); do
        case $(cat "/proc/$pid/comm" 2>/dev/null) in *quiet_vict*) kill -KILL "$pid" ;; esac
    done
    until_true none_left && said '^[02]/4 .*ranks* [13].* died'
    judge $? "then h1 dies: the transport notices"
}

# A stopped rank does not answer, but its kernel does.
stops() {
    local pid
    begin -1 none allreduce PGAS_PEER_TIMEOUT_S=1
    until_true said started
    for pid in $(ip netns pids "pgas-$CLUSTER_ID-h1"); do
        case $(cat "/proc/$pid/comm" 2>/dev/null) in *quiet_vict*) break ;; esac
    done
    kill -STOP "$pid"
    pause 3
    kill -CONT "$pid"
    touch "$TAP_DEATHS.stop"
    until_true all_well
    judge $? "a rank is stopped for three times the limit: it is not dead"
}

# A listener of a rank on h1, which this machine reaches through the bridge.
connections() { ip netns exec "pgas-$CLUSTER_ID-h1" ss -tnH state established "sport = :$1" | wc -l; }
strangers_come() {
    local host number i fd fds=() good=1
    begin -1 none allreduce PGAS_LOG=warn,watch=info
    until_true said started
    read -r host number <<<"$(sed -n 's/^1\/4 .*listens at \(.*\) port \([0-9]*\)$/\1 \2/p' "$TAP_DEATHS")"
    for ((i = 0; i < 60; i++)); do
        exec {fd}<>"/dev/tcp/$host/$number" || break
        fds+=("$fd")
        case $((i % 3)) in
        1) head -c 1000 /dev/urandom >&"$fd" ;;
        2) printf 'short' >&"$fd" ;;
        esac
    done 2>/dev/null
    crowd_goes() { [ "$(connections "$number")" -le 18 ]; } # 16 strangers, and the ring's
    [ "${#fds[@]}" = 60 ] && until_true crowd_goes && good=0
    touch "$TAP_DEATHS.stop"
    until_true all_well || good=1
    for fd in ${fds[@]+"${fds[@]}"}; do exec {fd}>&-; done
    judge $good "60 strangers at a listener, silent and loud: 16 are kept for a while, the job goes on"
}

plan 26
if cluster_begin 2; then ok 0 "two hosts"; else ok 1 "two hosts"; fi
dies kill barrier
dies exit init
dies crash finalize PGAS_SERVICE_THREADS=0
dies kill agreement
dies kill split PGAS_ON_PEER_DEATH=continue PGAS_SERVICE_THREADS=0
survive kill team
survive exit allreduce
survive kill finalize
survive crash compute PGAS_SERVICE_THREADS=0
survive kill agreement PGAS_SERVICE_THREADS=0
leaves_early "$CLUSTER_HOSTS"
leaves_early "" PGAS_SERVICE_THREADS=0
leaves_early "" PGAS_NODE_MAXSIZE=1
reports "$CLUSTER_HOSTS" compute
reports "$CLUSTER_HOSTS" allreduce PGAS_SERVICE_THREADS=0
reports "" compute
without_pidfd
is_cut barrier abort
is_cut put continue
heals put
heals_first
has_no_ring
stops
strangers_come
done_testing
