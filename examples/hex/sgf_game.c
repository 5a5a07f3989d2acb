/* hex: the meaning of the main line of an SGF. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "sgf.h"

/* Properties of the first node: sizes and rules. */
static bool root_value(sgf_t *sgf, const char *ident, const char *value, char *place)
{
    if (!sgf->root)
        return sgf_wrong(sgf, "%s stands behind the first node", ident);
    if (*place)
        return sgf_wrong(sgf, "%s twice", ident);
    snprintf(place, sizeof sgf->gm, "%s", *value ? value : "?");
    return true;
}

static bool move_value(sgf_t *sgf, int turn, const char *value)
{
    if (sgf->turn >= 0)
        return sgf_wrong(sgf, "two moves in one node");
    sgf->turn = turn;
    snprintf(sgf->move, sizeof sgf->move, "%s", value);
    return true;
}

bool sgf_value(sgf_t *sgf, const char *ident, const char *value, int n)
{
    if (strcmp(ident, "GM") == 0)
        return root_value(sgf, ident, value, sgf->gm);
    if (strcmp(ident, "SZ") == 0)
        return root_value(sgf, ident, value, sgf->sz);
    if (strcmp(ident, "B") == 0 || strcmp(ident, "W") == 0)
        return move_value(sgf, ident[0] == 'W', value);
    if (strcmp(ident, "AB") == 0 || strcmp(ident, "AW") == 0 || strcmp(ident, "AE") == 0)
        return sgf_wrong(sgf, "%s: positions that were set up are not supported", ident);
    if (strcmp(ident, "FF") == 0 &&
        (n > 0 || strlen(value) != 1 || value[0] < '1' || value[0] > '4'))
        return sgf_wrong(sgf, "FF[%s] is not known", value);
    if (strcmp(ident, "RU") == 0 && sgf->root && strcmp(value, "swap") == 0)
        sgf->game.may_swap = true;
    return true;
}

/* "5" or "5:5"; 0: something else. */
static int size_parse(const char *text)
{
    char *end, *end2;
    long size = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || size < PGAS_HEX_SIZE_MIN || size > PGAS_HEX_SIZE_MAX)
        return 0;
    if (*end == ':' && isdigit((unsigned char)end[1]) && strtol(end + 1, &end2, 10) == size)
        end = end2;
    return *end ? 0 : (int)size;
}

static bool begin(sgf_t *sgf)
{
    int size = size_parse(sgf->sz);
    if (strcmp(sgf->gm, "11") != 0)
        return *sgf->gm ? sgf_wrong(sgf, "GM[%s] is another game: Hex is GM[11]", sgf->gm)
                        : sgf_wrong(sgf, "no GM[11]: this is not Hex");
    if (!*sgf->sz)
        return sgf_wrong(sgf, "no SZ: the size of the board");
    if (size == 0)
        return sgf_wrong(sgf, "SZ[%s]: sizes are %d to %d", sgf->sz, PGAS_HEX_SIZE_MIN,
                         PGAS_HEX_SIZE_MAX);
    return game_start(&sgf->game, size, sgf->game.may_swap);
}

bool sgf_node(sgf_t *sgf)
{
    char why[MESSAGE_MAX];
    if (sgf->root && !begin(sgf))
        return false;
    sgf->root = false;
    if (sgf->turn < 0)
        return true;
    if (strcmp(sgf->move, "swap-pieces") == 0 && sgf->game.n_moves == 1)
        game_set_swap(&sgf->game, true); /* it says that the rule holds */
    if (!game_play_text(&sgf->game, sgf->turn, sgf->move, why))
        return sgf_wrong(sgf, "illegal move %c[%s]: %s", "BW"[sgf->turn], sgf -> move, why);
    sgf->turn = -1;
    return true;
}

bool sgf_parse(const char *name, const char *text, size_t bytes, game_t *game,
               char why[MESSAGE_MAX])
{
    static sgf_t sgf;
    sgf = (sgf_t){ .name = name,
                   .pos = text,
                   .end = text + bytes,
                   .line = 1,
                   .why = why,
                   .root = true,
                   .turn = -1 };
    sgf.game.may_swap = game->may_swap;
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        sgf.pos += 3; /* a byte-order mark */
    if (!sgf_walk(&sgf))
        return false;
    *game = sgf.game;
    return true;
}
