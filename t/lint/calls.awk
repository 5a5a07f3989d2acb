# Reads the output of nm -P -A over the library's objects twice, and prints the references that break the layering of
# the folders (floors.awk): object: symbol of FOLDER: reason.

{
    object = $1
    sub(/\.o(\[[^]]*\])?:$/, "", object)
    sub(/\.libs\//, "", object)
    name = $2
    type = $3
}

FNR == NR {
    if (type ~ /^[TDBRCVW]$/) home[name] = folder_of(object)
    next
}

type == "U" && name in home {
    mine = folder_of(object)
    reason = objection(mine, home[name])
    # An engine calls what a user calls. The registry names the tables of the backends.
    if (name ~ /^pgas_/ && mine in floor_of && floor_of[mine] == ENGINES) reason = ""
    if (object == "src/transport/registry" && name ~ /^pgasi_[a-z]*_ops$/) reason = ""
    if (reason) print object ": " name " of " home[name] ": " reason
}
