# TAP for test scripts; sourced: . "$(dirname "$0")/../tap.sh". The counterpart of tap.h.
# t/launch sets BUILD (the build folder) and TOP (the source folder); by hand, run scripts from the build folder.
BUILD=${BUILD:-$PWD}
TOP=${TOP:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
. "$BUILD/t/config.sh"

tap_run=0
tap_failed=0

plan() { echo "1..$1"; }

skip_all() {
    echo "1..0 # SKIP $*"
    exit 0
}

# ok STATUS DESCRIPTION, where STATUS is an exit status: cmd && s=0 || s=$?; ok $s "..."
ok() {
    tap_run=$((tap_run + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_run - $2"
    else
        echo "not ok $tap_run - $2"
        tap_failed=1
    fi
    return "$1"
}

# is GOT WANT DESCRIPTION
is() {
    if [ "$1" = "$2" ]; then ok 0 "$3"; else
        ok 1 "$3" || :
        diag "got:  $1"
        diag "want: $2"
    fi
}

# empty TEXT DESCRIPTION: passes if TEXT is empty, else shows it. For lists of offenders.
empty() {
    if [ -z "$1" ]; then ok 0 "$2"; else
        ok 1 "$2" || :
        diag "$1"
    fi
}

# succeeds DESCRIPTION COMMAND..; fails DESCRIPTION COMMAND..: output is shown when it is not as wanted.
succeeds() {
    local text=$1 out
    shift
    if out=$("$@" 2>&1); then ok 0 "$text"; else
        ok 1 "$text" || :
        diag "$out"
    fi
}
fails() {
    local text=$1 out
    shift
    if out=$("$@" 2>&1); then
        ok 1 "$text" || :
        diag "$out"
    else ok 0 "$text"; fi
}

diag() { printf '%s\n' "$*" | sed 's/^/# /'; }

skip() {
    local i
    for ((i = 0; i < $1; i++)); do
        tap_run=$((tap_run + 1))
        echo "ok $tap_run # SKIP $2"
    done
}

done_testing() { exit "$tap_failed"; }

# A folder that goes away with the script. Sets $scratch.
make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/libpgas-test.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
}

# mpirun_n N COMMAND..
mpirun_n() { BUILD=$BUILD "$TOP/t/mpirun" "$@"; }
