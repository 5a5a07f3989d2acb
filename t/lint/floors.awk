# The floors of the folders (HACKING.md, "Layers"). A folder uses folders below it; folders on one floor do not use
# each other. includes.awk and calls.awk read this file first.

BEGIN {
    n = split("base:0 boot:1 transport:2 mem:3 msg:4 call:5 bulk:6 bcast:6 many:6 object:6 init:7 archive:8 array:8 group:8 " \
              "graph:9 kvs:9 mcts:9", names, " ")
    for (i = 1; i <= n; i++) {
        split(names[i], part, ":")
        floor_of["src/" part[1]] = part[2]
    }
    ENGINES = 9
    # A backend uses src/base and its own folders in this order; the last one also uses src/transport.
    n = split("verbs_backend:0 verbs_backend/snic:1 verbs_backend/queue:2 verbs_backend/transport:3 ucx_backend:3",
              names, " ")
    for (i = 1; i <= n; i++) {
        split(names[i], part, ":")
        step_of[part[1]] = part[2]
    }
}

# The folder of a file of the library, or "".
function folder_of(path) {
    while (sub(/\/[^\/]*$/, "", path))
        if (path in floor_of || path in step_of) return path
    return ""
}

# Why a file of the folder mine may not use one of the folder other, or "".
function objection(mine, other) {
    if (mine == other || mine == "" || other == "") return ""
    if (mine in floor_of) {
        # Groups program the cards: pgas/verbs.h, and the bytes of queue entries.
        if (mine == "src/group" && (other == "verbs_backend" || other == "verbs_backend/queue")) return ""
        if (other in step_of) return "backends register themselves, nobody uses them"
        if (floor_of[mine] == ENGINES && other != "src/base") return "engines use base and public headers"
        if (floor_of[other] == floor_of[mine]) return "folders on one floor do not use each other"
        return floor_of[other] > floor_of[mine] ? "a folder uses only folders below it" : ""
    }
    if (other in step_of) {
        if (substr(mine, 1, 4) != substr(other, 1, 4)) return "backends do not know each other"
        return step_of[other] > step_of[mine] ? "a folder uses only folders below it" : ""
    }
    if (other == "src/base" || (other == "src/transport" && step_of[mine] == 3)) return ""
    return "a backend uses src/base, and its last folder src/transport"
}
