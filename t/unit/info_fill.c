/* what: A query fills the caller's struct as far as the caller knows it, and refuses a struct
 *       without a size.
 * source: src/base/info_fill.h */
#include "base/info_fill.h"
#include "t/tap.h"

typedef struct {
    size_t size;
    uint64_t first, second;
} newer_t;

static const newer_t result = { sizeof(newer_t), 11, 22 };

static void equal_structs_get_every_field(void)
{
    newer_t info = { sizeof info, 0, 0 };
    is_int(pgasi_info_fill(&info, &result, sizeof result), PGAS_OK, "a struct of the same size");
    ok(info.size == sizeof info && info.first == 11 && info.second == 22, "all fields are set");
}

static void older_programs_get_their_fields(void)
{
    newer_t info = { offsetof(newer_t, second), 0, 7 };
    is_int(pgasi_info_fill(&info, &result, sizeof result), PGAS_OK, "a smaller struct");
    ok(info.first == 11 && info.second == 7, "nothing behind its size is written");
}

static void newer_programs_learn_what_is_set(void)
{
    struct {
        newer_t known;
        uint64_t third;
    } info = { { sizeof info, 0, 0 }, 33 };
    is_int(pgasi_info_fill(&info, &result, sizeof result), PGAS_OK, "a larger struct");
    ok(info.known.size == sizeof result && info.known.second == 22 && info.third == 33,
       "its size says how many bytes are set");
}

static void structs_without_a_size_are_refused(void)
{
    newer_t info = { 0, 5, 6 };
    is_int(pgasi_info_fill(&info, &result, sizeof result), PGAS_ERR_INVALID, "size 0");
    ok(info.size == 0 && info.first == 5, "the struct is unchanged");
    is_int(pgasi_info_fill(NULL, &result, sizeof result), PGAS_ERR_INVALID, "NULL");
}

int main(void)
{
    plan(9);
    equal_structs_get_every_field();
    older_programs_get_their_fields();
    newer_programs_learn_what_is_set();
    structs_without_a_size_are_refused();
    return done();
}
