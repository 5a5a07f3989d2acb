#!/usr/bin/env bash
# what: install-deps checks before it needs apt or root, and names missing items with the commands that install them.
#       quickstart reaches a result without apt, and shows its progress.
# needs: no-sanitizers command:setsid
# log: quickstart: interrupted
set -u
. "$(dirname "$0")/../tap.sh"
make_scratch
chmod 755 "$scratch"
unset MAKEFLAGS MFLAGS MAKELEVEL

# bin NAME PATTERN: a folder with all commands but some, as a PATH. (ccache's compilers look for others on the PATH.)
bin() {
    mkdir "$scratch/$1"
    find ${PATH//:/ } -maxdepth 1 \( -type f -o -type l \) -perm /111 2>/dev/null | grep -vE "/ccache/|/($2)[^/]*\$" |
        tac | xargs ln -sf -t "$scratch/$1"
}
bin no-apt 'apt|dpkg|sudo'
bin no-mpi 'apt|dpkg|sudo|mpi'

# A tree as quickstart sees it, where configure and make have nothing to do, but by automake's files half of the objects are made.
tree=$scratch/tree
mkdir -p "$tree/build/examples" "$tree/build/tools" "$tree/build/t" "$tree/build/src/.deps"
echo '# dummy' >"$tree/build/src/.deps/a.Plo"
echo 'b.lo:' >"$tree/build/src/.deps/b.Plo"
for file in tools t configure.ac autogen.sh; do ln -s "$TOP/$file" "$tree/"; done
printf '#!/bin/sh\nexit 0\n' >"$tree/configure"
chmod +x "$tree/configure"
touch "$tree/configure"
cp "$BUILD/t/config.sh" "$tree/build/t/"
ln -s "$BUILD/tools/pgas_graph" "$tree/build/tools/"
. "$TOP/tools/lib.sh"
echo "MPICC=$(openmpi_cc)" >"$tree/build/.arguments"
printf 'all:\n\tsh slow\n' >"$tree/build/Makefile"
echo : >"$tree/build/slow"
if [ "$(id -u)" = 0 ]; then chown -R 65534:65534 "$tree"; fi

# Another user, if this is root and the tree can be read by others.
as_another=()
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null &&
    setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$BUILD/tools/pgas_graph"; then
    as_another=(setpriv --reuid=65534 --regid=65534 --clear-groups env -u OMPI_ALLOW_RUN_AS_ROOT HOME="$tree")
fi

# deps PATH-FOLDER [NAME=VALUE..]: output in $out, status in $status.
deps() {
    local folder=$1
    shift
    status=0
    out=$(env PATH="$scratch/$folder" "$@" sh "$tree/tools/install-deps" 2>&1) || status=$?
}
# names PATTERN DESCRIPTION: a line of $out.
names() {
    grep -qE -- "$1" <<<"$out"
    ok $? "$2" || diag "$out"
}

plan 23
deps no-apt
is "$status $out" "0 " "without apt, but with all that is needed, install-deps succeeds and says nothing"

# A UCX that does not compile hides that of the system.
mkdir -p "$scratch/hidden/ucp/api"
echo '#error "hidden"' >"$scratch/hidden/ucp/api/ucp.h"
hidden="CPATH=$scratch/hidden"
deps no-apt "$hidden"
is $status 1 "without UCX it fails"
is "$(sed -n '2,/^As root/p' <<<"$out" | grep -c '^  ')" 1 "and names nothing else"
for line in 'apt-get install libucx-dev$' 'dnf install ucx-devel$' 'zypper install libucp-devel' 'module load ucx ' \
    'spack install ucx ' 'quickstart --with-ucx=DIR '; do
    names "^    (tools/)?$line" "a line for: ${line%\$}"
done
ln -s "$(command -v true)" "$scratch/no-apt/dnf"
deps no-apt "$hidden"
is "$(sed -n '/^As root/,/^Without/p' <<<"$out" | grep '^  ' | paste -sd ' ')" "    dnf install ucx-devel" \
    "where there is dnf, its command alone"
rm "$scratch/no-apt/dnf"
deps no-mpi
names 'apt-get install libopenmpi-dev openmpi-bin$' "without MPI it names MPI's packages"

status=0
out=$(env PATH="$scratch/no-apt" sh "$tree/tools/install-deps" "--with-ucx=$scratch/nowhere" 2>&1) || status=$?
is "$status $(grep -c "UCX 1.13 or newer .* in $scratch/nowhere$" <<<"$out")" "1 1" \
    "a folder that has no UCX is named, though the system has one" || diag "$out"

if [ ${#as_another[@]} -gt 0 ]; then
    status=0
    out=$("${as_another[@]}" sh "$tree/tools/install-deps" 2>&1) || status=$?
    is "$status $out" "0 " "another user than root is asked for nothing, though there is apt"
    out=$("${as_another[@]}" env "$hidden" sh "$tree/tools/install-deps" 2>&1)
    names 'apt-get install libucx-dev$' "and is told what root may do"
else skip 2 "not root, or other users cannot read the build"; fi

# quickstart [NAME=VALUE..]: output in $scratch/out and $scratch/err, process group in $scratch/group.
quickstart() {
    ${as_another[@]+"${as_another[@]}"} env PATH="$scratch/no-apt" DEBIAN_GRAPH_LISTS="$scratch/none" "$@" \
        setsid -w bash -c 'echo $$ >"$1/group"; exec "$1/tools/quickstart"' bash "$tree" >"$scratch/out" 2>"$scratch/err"
}
quickstart PGAS_PROGRESS=no
is "$? $(grep -c 'ranking a generated graph' "$scratch/out") $(grep -c '^# check: right' "$scratch/out")" "0 1 1" \
    "without apt quickstart ranks a generated graph" || diag "$(cat "$scratch/out" "$scratch/err")"
is "$(cat "$scratch/err")" "" "PGAS_PROGRESS=no: nothing on standard error"
for wrong in PGAS_PROGRESS=BAR PGAS_PROGRESS_MS=0 PGAS_PROGRESS_MS=soon; do
    quickstart "$wrong"
    is "$? $(cat "$scratch/out") $(grep -c "^quickstart: $wrong: not " "$scratch/err")" "2  1" "$wrong is refused at once"
done
mpicc=$(command -v "$(openmpi_cc)")
quickstart MPICC="$mpicc"
is "$? $(cat "$tree/build/.arguments")" "0 MPICC=$mpicc" "configure gets MPICC of the environment"
quickstart "$hidden"
is "$? $(grep -c '    module load ucx ' "$scratch/out")" "1 1" "without UCX quickstart shows what install-deps says"

# make waits at a gate until quickstart has said something.
mkfifo "$scratch/gate"
chmod 666 "$scratch/gate"
echo ": <$scratch/gate" >"$tree/build/slow"
start() {
    rm -f "$scratch/err"
    quickstart PGAS_PROGRESS=lines PGAS_PROGRESS_MS=50 &
    until grep -qs 'quickstart: make: 50 %, ' "$scratch/err" || ! kill -0 $!; do sleep 0.02; done
}
start
timeout 10 bash -c ': >"$0"' "$scratch/gate" # a guard: nobody may read there
wait $!
is $? 0 "PGAS_PROGRESS=lines says on standard error how far make is"
start
kill -TERM -- "-$(cat "$tree/group")"
wait $!
is "$? $(grep -c 'interrupted: make: 50 %, ' "$scratch/err")" "130 1" "when it is stopped, one line says where" ||
    diag "$(cat "$scratch/err")"
done_testing
