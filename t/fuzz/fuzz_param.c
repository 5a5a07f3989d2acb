/* what: A parameter, an option list, an environment entry or PGAS_LOG may have any text. Parsing
 *       ends with a status and a reason, and writes on success only. An accepted value prints to a
 *       text that is accepted as the same value.
 * source: public headers; libFuzzer
 * Input: a byte that picks the parameter, then the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/param.h"
#include "t/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void try_field(pgasi_param_id_t id, const char *text)
{
    pgasi_params_t first, second;
    char why[PGASI_PARAM_WHY_BYTES] = "", printed[PGASI_PARAM_TEXT_BYTES];
    const char *name = pgasi_param_describe(id)->name;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    if (pgasi_param_parse(name, text, &first, why, sizeof why) != PGAS_OK) {
        require(why[0] != '\0', "a refusal has a reason");
        require(memcmp(&first, &second, sizeof first) == 0, "a refusal changes nothing");
        return;
    }
    pgasi_param_text(&first, id, printed);
    require(pgasi_param_parse(name, printed, &second, why, sizeof why) == PGAS_OK,
            "a printed value is accepted");
    require(memcmp(&first, &second, sizeof first) == 0, "and is the same");
}

static void try_double(const char *text)
{
    char why[PGASI_PARAM_WHY_BYTES];
    double value = 0;
    pgas_status_t status = pgasi_param_parse_value(PGASI_PARAM_TYPE_DOUBLE, "-1e3..1e3", text,
                                                   &value, why, sizeof why);
    require(status != PGAS_OK || (value >= -1e3 && value <= 1e3), "a number is in its range");
}

static void try_list(const char *text)
{
    static pgasi_params_t params;
    static pgasi_param_origin_t origins[PGASI_PARAM_COUNT];
    char why[PGASI_PARAM_WHY_BYTES];
    require(pgasi_param_defaults(&params, origins, why, sizeof why) == PGAS_OK, "defaults parse");
    pgasi_param_set_list(&params, origins, text, PGASI_PARAM_FROM_INIT, why, sizeof why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    char why[PGASI_PARAM_WHY_BYTES];
    if (n_bytes == 0)
        return 0;
    char *text = (char *)malloc(n_bytes); /* exact, so that the sanitizer sees one byte too many */
    memcpy(text, data + 1, n_bytes - 1);
    text[n_bytes - 1] = '\0';
    try_field((pgasi_param_id_t)(data[0] % PGASI_PARAM_COUNT), text);
    try_double(text);
    try_list(text);
    pgasi_param_unknown(text, why, sizeof why);
    pgasi_log_check(text, why, sizeof why);
    free(text);
    return 0;
}
