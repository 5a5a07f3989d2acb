# Replicas for test scripts; sourced behind tap.sh and make_scratch's definition: processes that end with the script.
# In sanitizer builds the software NIC has no process of its own.
if [ -n "$SANITIZERS" ]; then export PGAS_VERBS_ENGINE=caller; fi
declare -A pid address

# Kills what is left when the script ends. Call it after make_scratch.
stop_at_exit() { trap 'kill_replicas; rm -rf "$scratch"' EXIT; }

# start_replica NAME ARGUMENT..: sets pid[NAME] and address[NAME]. It returns when the replica listens, or has ended.
start_replica() {
    local name=$1 line=
    shift
    rm -f "$scratch/$name.fifo"
    mkfifo "$scratch/$name.fifo"
    "$BUILD/tools/pgas_replica" --listen 127.0.0.1:0 "$@" >"$scratch/$name.fifo" 2>"$scratch/$name.err" &
    pid[$name]=$!
    IFS= read -r -t 60 line <"$scratch/$name.fifo"
    echo "$line" >"$scratch/$name.out"
    line=${line#*listens on }
    address[$name]=${line%%,*}
    if [ -z "${address[$name]}" ]; then diag "$(cat "$scratch/$name.err")"; fi
}

# explain FILE..: shows the files if a point has failed.
explain() { if [ "$tap_failed" -ne 0 ]; then diag "$(cat "$@")"; fi; }

kill_replicas() {
    local name
    for name in "${!pid[@]}"; do
        { kill -9 "${pid[$name]}" && wait "${pid[$name]}"; } 2>/dev/null
        unset "pid[$name]"
    done
}
