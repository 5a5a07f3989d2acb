/* what: Reading any bytes as SGF ends with a game, or with a reason that names a line. A game that
 *       was read and written is read as the same game. A leading byte-order mark makes no
 *       difference.
 * source: examples/hex/sgf.h; libFuzzer */
#include <stdlib.h>
#include <string.h>
#include "examples/hex/game.c"
#include "examples/hex/sgf_file.c"
#include "examples/hex/sgf_game.c"
#include "examples/hex/sgf_syntax.c"
#include "t/fuzz/require.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n_bytes);

static bool same_game(const game_t *a, const game_t *b)
{
    bool same = a->at.size == b->at.size && a->n_moves == b->n_moves && a->may_swap == b->may_swap;
    for (int i = 0; same && i < a->n_moves; i++)
        same = a->moves[i] == b->moves[i] && a->turns[i] == b->turns[i];
    return same;
}

/* The text has no spare byte, so the sanitizer detects a read after its end. */
static bool parse(const unsigned char *data, size_t n_bytes, bool mark, game_t *game, char *why)
{
    size_t skip = mark ? 3 : 0;
    char *text = malloc(n_bytes + skip + (n_bytes + skip == 0));
    memcpy(text, "\xef\xbb\xbf", skip);
    memcpy(text + skip, data, n_bytes);
    bool good = sgf_parse("file", text, n_bytes + skip, game, why);
    free(text);
    return good;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n_bytes)
{
    static game_t game, marked, again;
    char why[MESSAGE_MAX] = "", why_marked[MESSAGE_MAX] = "", *text = NULL;
    size_t length = 0;
    game.may_swap = marked.may_swap = again.may_swap = false;
    bool good = parse(data, n_bytes, false, &game, why);
    if (n_bytes == 0 || data[0] != 0xef)
        require(parse(data, n_bytes, true, &marked, why_marked) == good &&
                    strcmp(why, why_marked) == 0,
                "a byte-order mark makes no difference");
    if (!good) {
        require(strncmp(why, "file:", 5) == 0 && atoi(why + 5) > 0,
                "a refusal has a line and a reason");
        return 0;
    }
    FILE *out = open_memstream(&text, &length);
    sgf_write(&game, out);
    fclose(out);
    require(parse((const unsigned char *)text, length, false, &again, why) &&
                same_game(&game, &again),
            "a game that was read is written and read as the same");
    free(text);
    return 0;
}
