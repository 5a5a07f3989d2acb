# Prints the #include lines that break the layering of the folders (HACKING.md, "Layers"): path:line: reason.
# Run from the top folder over relative paths.

BEGIN {
    n = split("base:0 boot:1 transport:2 mem:3 msg:4 call:5 bulk:6 bcast:6 object:6 init:7 archive:8 array:8 group:8 " \
              "graph:9 kvs:9 mcts:9", names, " ")
    for (i = 1; i <= n; i++) {
        split(names[i], part, ":")
        floor_of[part[1]] = part[2]
    }
    n = split("complex ctype errno inttypes limits math stdarg stdbool stddef stdint stdio stdlib string", names, " ")
    for (i = 1; i <= n; i++) standard[names[i] ".h"] = 1
}

function blame(reason) { print FILENAME ":" FNR ": " header ": " reason }

# The folder of src that a quoted path names, or "".
function internal(path) {
    sub(/\/.*/, "", path)
    return path in floor_of ? path : ""
}

# Headers of other projects belong to one folder each.
function check_foreign() {
    if (top == "t") return
    ref = FILENAME ~ /^benchmarks\/ref_[^\/]*$/
    if (header == "mpi.h" && folder != "src/boot" && FILENAME != "include/pgas/init.h" && !ref)
        blame("MPI is src/boot's")
    if (header ~ /^pgas\/(init|pgas)\.h$/ && (folder == "src/base" || top ~ /_backend$/)) blame("it includes mpi.h")
    if (header ~ /^(hwloc\.h|hwloc\/)/ && folder != "src/boot") blame("hwloc is src/boot's")
    if (header ~ /^uc[pst]\// && top != "ucx_backend" && !ref) blame("UCX is ucx_backend's")
    if (header ~ /^infiniband\// && folder != "verbs_backend/queue") blame("verbs are verbs_backend/queue's")
    if (header == "omp.h" && top != "examples" && top != "benchmarks") blame("the library does not use OpenMP")
}

# The floor of a file of verbs_backend, from its path.
function verbs_floor(path) {
    if (path ~ /^verbs_backend\/transport\//) return 3
    if (path ~ /^verbs_backend\/queue\//) return 2
    return path ~ /^verbs_backend\/snic\// ? 1 : 0
}

# Folders of verbs_backend: transport over queue over snic over wqe.h.
function check_verbs() {
    if (header ~ /^verbs_backend\// && verbs_floor(header) > verbs_floor(FILENAME))
        blame("a folder includes only folders below it")
    if (header == "transport/transport.h" && verbs_floor(FILENAME) != 3)
        blame("queue and snic stand on base alone")
}

# Folders of src, seen from a folder of src.
function check_floor(mine, other) {
    if (other == mine) return
    if (floor_of[mine] == 9 && other != "base") blame("engines use base and public headers")
    else if (floor_of[other] == floor_of[mine]) blame("folders on one floor do not include each other")
    else if (floor_of[other] > floor_of[mine]) blame("a folder includes only folders below it")
}

function check_ours() {
    other = internal(header)
    backend = header ~ /^(ucx|verbs)_backend\//
    if (top == "include") {
        if (header !~ /^pgas\// && !(header in standard) && header != "mpi.h")
            blame("a public header includes public and standard headers")
    } else if (top == "src") {
        if (backend) blame("backends register themselves, nobody includes them")
        else if (other != "") check_floor(substr(folder, 5), other)
    } else if (top ~ /_backend$/) {
        if (backend && header !~ "^" top "/") blame("backends do not know each other")
        else if (other != "" && other != "base" && header != "transport/transport.h")
            blame("a backend includes base and transport/transport.h")
        if (top == "verbs_backend") check_verbs()
    } else if (top != "t" && (other != "" || backend || header == "config.h"))
        blame("only public headers here")
    if (top != "t" && header ~ /^(t\/|tap\.h|spmd\.h)/) blame("test headers are for tests")
}

/^([ \t]|\/\*[^*]*\*\/)*#([ \t]|\/\*[^*]*\*\/)*include([ \t]|\/\*[^*]*\*\/)*["<]/ {
    header = $0
    sub(/^[^"<]*["<]/, "", header)
    sub(/[">].*/, "", header)
    top = folder = FILENAME
    sub(/\/.*/, "", top)
    sub(/\/[^\/]*$/, "", folder)
    if (header ~ /(^|\/)\.\.?\//) blame("a path from the top is wanted, so that its folder can be seen")
    if (folder ~ /^src\/[^\/]*\//) folder = "src/" internal(substr(folder, 5))
    check_foreign()
    check_ours()
}
