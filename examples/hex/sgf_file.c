/* hex: files in SGF. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hexprog.h"

#define FILE_MAX (1 << 20)

bool sgf_read(const char *path, game_t *game, char why[MESSAGE_MAX])
{
    char *text = malloc(FILE_MAX + 1);
    FILE *file = text ? fopen(path, "rb") : NULL;
    size_t bytes = file ? fread(text, 1, FILE_MAX + 1, file) : 0;
    bool good = file && !ferror(file) && bytes <= FILE_MAX;
    if (!good)
        snprintf(why, MESSAGE_MAX, "%.120s: %s", path,
                 bytes > FILE_MAX ? "larger than 1 MiB" : strerror(errno));
    if (file)
        fclose(file);
    good = good && sgf_parse(path, text, bytes, game, why);
    free(text);
    return good;
}

void sgf_write(const game_t *game, FILE *out)
{
    int size = game->at.size, winner = game->at.winner;
    fprintf(out, "(;FF[4]GM[11]SZ[%d]AP[libpgas-hex:%s]%s", size, pgas_version(),
            game->may_swap ? "RU[swap]" : "");
    if (winner >= 0)
        fprintf(out, "RE[%c+]", "BW"[winner]);
    for (int i = 0; i < game->n_moves; i++) {
        char text[16];
        move_text(size, game->moves[i], text);
        fprintf(out, "%s;%c[%s]", i % 10 ? "" : "\n", "BW"[game->turns[i]], text);
    }
    fprintf(out, ")\n");
}

bool sgf_save(const game_t *game, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    sgf_write(game, file);
    bool good = !ferror(file);
    return fclose(file) == 0 && good;
}
