# What tools/quickstart and tools/check share; sourced, from the top folder.

# The compiler wrapper of Open MPI by its own name where there is one: plain mpicc may be MPICH's.
openmpi_cc() { if command -v mpicc.openmpi >/dev/null; then echo mpicc.openmpi; else echo mpicc; fi; }

# use_ccache: where it is installed, and its links have the names of compilers, builds reuse what was compiled before, also in
# another of the build folders.
use_ccache() {
    local links
    for links in /usr/lib/ccache /usr/lib64/ccache /usr/lib/ccache/bin; do
        if [ -x "$links/gcc" ]; then
            export PATH=$links:$PATH CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
            return
        fi
    done
}

# make_configure: runs autogen.sh if it never ran; later changes are make's business.
make_configure() { if [ ! -x configure ] || [ configure.ac -nt configure ]; then ./autogen.sh; fi; }

# configure_in FOLDER ARGUMENT..: configures there, unless that was done with the same arguments. libtool is a shell script that
# runs once per object and program of the library. In dash it takes a third of the processor time that it takes in bash.
configure_in() {
    local folder=$1 shell
    shift
    shell=$(command -v dash) || shell=${CONFIG_SHELL:-/bin/sh}
    mkdir -p "$folder"
    if [ -f "$folder/Makefile" ] && [ "$(cat "$folder/.arguments" 2>/dev/null)" = "$*" ]; then return; fi
    (cd "$folder" && CONFIG_SHELL=$shell ../configure "$@") && echo "$*" >"$folder/.arguments"
}

seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }
