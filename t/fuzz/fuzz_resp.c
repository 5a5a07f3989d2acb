/* what: The parser of Redis' protocol ends with a result on any input, gives the same requests in
 *       pieces as at once, and its arguments are inside the input.
 * source: tools/resp.h; libFuzzer
 * Input: a byte with the size of pieces and the limits, then what a client sends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "t/fuzz/require.h"
#include "tools/resp.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

typedef struct {
    uint64_t hash;
    size_t n_requests, used;
    resp_result_t result;
} outcome_t;

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
    return (hash ^ bytes) * 0x100000001b3u;
}

/* Parses in pieces of so many bytes. Each piece is at another place, in memory of exact size. */
static outcome_t parse(const uint8_t *data, size_t n, size_t step, resp_limits_t limits)
{
    outcome_t outcome = { 0, 0, 0, RESP_MORE };
    resp_parser_t parser = { .limits = limits };
    size_t begin = 0, end = 0, used = 0;
    while (outcome.result != RESP_ERROR && (end < n || outcome.result == RESP_REQUEST)) {
        if (outcome.result == RESP_MORE)
            end = n - end > step ? end + step : n;
        char *input = malloc(end - begin + 1);
        if (!input)
            break;
        memcpy(input, data + begin, end - begin);
        input = realloc(input, end - begin > 0 ? end - begin : 1);
        outcome.result = resp_parse(&parser, input, end - begin, &used);
        if (outcome.result == RESP_REQUEST) {
            require(used > 0 && used <= end - begin, "a request has bytes, and only those there");
            for (size_t i = 0; i < parser.n_args; i++) {
                const resp_arg_t *arg = &parser.args[i];
                require(arg->data >= input && arg->bytes <= used &&
                            arg->data + arg->bytes <= input + used,
                        "arguments are inside the request");
                outcome.hash = mix(outcome.hash, arg->data, arg->bytes);
            }
            begin += used;
            outcome.n_requests++;
        } else if (outcome.result == RESP_MORE) {
            require(resp_wants(&parser) > 0, "an incomplete request wants bytes");
        }
        free(input);
    }
    outcome.used = begin;
    resp_parser_fini(&parser);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    resp_limits_t limits = { 1000, 1 << 20, 1 << 21, false };
    if (n_bytes == 0)
        return 0;
    limits.unauthenticated = data[0] & 1;
    if (data[0] & 2)
        limits = (resp_limits_t){ 3, 20, 60, limits.unauthenticated };
    outcome_t whole = parse(data + 1, n_bytes - 1, SIZE_MAX / 2, limits);
    outcome_t pieces = parse(data + 1, n_bytes - 1, 1 + data[0] / 4, limits);
    require(whole.result == pieces.result && whole.n_requests == pieces.n_requests &&
                whole.hash == pieces.hash && whole.used == pieces.used,
            "pieces do not matter");
    return 0;
}
