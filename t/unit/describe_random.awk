# Writes a C program of random described types: for each type the list of fields for the macros, and beside it functions
# that draw and compare values member by member. -v seed=N -v n_types=N
function below(n) { return int(rand() * n) }
function add(field, members, draw, same)
{
    fields = fields " \\\n    " field
    decl = decl members
    draws = draws "    " draw "\n"
    sames = sames "    " same "\n"
}
function one(type, member, kind,   t, k)
{
    t = scalar[1 + below(n_scalars)]
    if (kind == "SCALAR")
        add("F(SCALAR, " t ", " member ")", t " " member "; ", "draw_bytes(&v->" member ", sizeof v->" member ");",
            "same(&a->" member ", &b->" member ", sizeof a->" member ");")
    else if (kind == "ARRAY") {
        k = 1 + below(5)
        add("F(ARRAY, " t ", " member ", " k ")", t " " member "[" k "]; ",
            "draw_bytes(v->" member ", sizeof v->" member ");", "same(a->" member ", b->" member ", sizeof a->" member ");")
    } else if (kind == "STRING")
        add("F(STRING, " member ")", "char *" member "; ", "v->" member " = draw_text();",
            "same_text(a->" member ", b->" member ");")
    else if (kind == "VECTOR")
        add("F(VECTOR, " t ", " member ", n_" member ")", t " *" member "; size_t n_" member "; ",
            "v->n_" member " = draw_n(); v->" member " = draw_many(v->n_" member ", sizeof *v->" member ");",
            "same_many(a->" member ", a->n_" member ", b->" member ", b->n_" member ", sizeof *a->" member ");")
    else if (kind == "OPTIONAL")
        add("F(OPTIONAL, " t ", " member ")", t " *" member "; ",
            "v->" member " = draw_many(below(2), sizeof *v->" member ");",
            "same_many(a->" member ", a->" member " != NULL, b->" member ", b->" member " != NULL, sizeof *a->" member ");")
    else if (kind == "OBJECT")
        add("F(OBJECT, " member ")", "pgas_rma_object_t *" member "; ", "v->" member " = draw_object();",
            "same_object(a->" member ", b->" member ");")
    else
        add("F(RMA_VECTOR, cells, " member ")", "cells_t " member "; ", "draw_cells(&v->" member ");",
            "same_many(cells_data(&a->" member "), cells_size(&a->" member "), cells_data(&b->" member "), cells_size(&b->" \
            member "), sizeof(double));")
}
function nested(type, member, kind,   t)
{
    t = "type" below(type)
    if (kind == "STRUCT")
        add("F(STRUCT, " t ", " member ")", t "_t " member "; ", "draw_" t "(&v->" member ");",
            "same_" t "(&a->" member ", &b->" member ");")
    else if (kind == "STRUCT_ARRAY")
        add("F(STRUCT_ARRAY, " t ", " member ", 2)", t "_t " member "[2]; ",
            "for (int i = 0; i < 2; i++) draw_" t "(&v->" member "[i]);",
            "for (int i = 0; i < 2; i++) same_" t "(&a->" member "[i], &b->" member "[i]);")
    else if (kind == "STRUCT_VECTOR")
        add("F(STRUCT_VECTOR, " t ", " member ", n_" member ")", t "_t *" member "; size_t n_" member "; ",
            "v->n_" member " = below(4); v->" member " = draw_many(v->n_" member ", sizeof *v->" member "); " \
            "for (size_t i = 0; i < v->n_" member "; i++) draw_" t "(&v->" member "[i]);",
            "same_n(a->n_" member ", b->n_" member "); for (size_t i = 0; i < a->n_" member " && is_same; i++) same_" t \
            "(&a->" member "[i], &b->" member "[i]);")
    else
        add("F(STRUCT_OPTIONAL, " t ", " member ")", t "_t *" member "; ",
            "if ((v->" member " = draw_many(below(2), sizeof *v->" member "))) draw_" t "(v->" member ");",
            "same_n(!a->" member ", !b->" member "); if (a->" member " && is_same) same_" t "(a->" member ", b->" member ");")
}
BEGIN {
    srand(seed)
    n_scalars = split("char int8_t uint16_t int32_t uint64_t float double pair_t colour_t", scalar, " ")
    n_kinds = split("SCALAR SCALAR ARRAY STRING VECTOR OPTIONAL OBJECT RMA_VECTOR", kind, " ")
    n_nested = split("STRUCT STRUCT_ARRAY STRUCT_VECTOR STRUCT_OPTIONAL", nest, " ")
    for (type = 0; type < n_types; type++) {
        fields = decl = draws = sames = ""
        n_fields = 1 + below(7)
        n_inside = 0
        only = below(4) == 0 # some types of numbers only
        for (i = 0; i < n_fields; i++)
            if (type > 0 && n_inside < 2 && below(3) == 0 && !only) {
                nested(type, "m" i, nest[1 + below(n_nested)])
                n_inside++
            } else
                one(type, "m" i, only ? kind[1 + below(3)] : kind[1 + below(n_kinds)])
        name = "type" type
        own = below(3) == 0 # the program's own structure, with a member that is not listed
        print "#define FIELDS" type "(F)" fields
        if (own) {
            print "typedef struct { void *hidden; " decl "} " name "_t;"
            print "PGAS_DESCRIBE(" name ", FIELDS" type ")"
        } else
            print "PGAS_STRUCT(" name ", FIELDS" type ")"
        print "static void draw_" name "(" name "_t *v)\n{\n    n_drawn++;\n    memset(v, 0, sizeof *v);\n" draws "}"
        print "static void same_" name "(const " name "_t *a, const " name "_t *b)\n{\n" sames "}"
        print "ROUND_TRIP(" name ")\n"
    }
    print "static int (*const round_trip[])(void) = {"
    for (type = 0; type < n_types; type++)
        print "    round_trip_type" type ","
    print "};"
}
