/* hex: SGF (FF[4], GM[11]) in two layers: sgf_syntax.c walks over the text, sgf_game.c interprets
 * the main line. It is strict: an unknown part of the game itself is an error with its line. Other
 * properties are skipped, variations are read and dropped. */
#ifndef SGF_H
#define SGF_H

#include "hexprog.h"

typedef struct {
    const char *name, *pos, *end; /* of the file; the text still to read */
    int line;
    char *why;
    bool ended; /* after the main line: the rest is variations */
    bool root;  /* in the first node */
    game_t game;
    char gm[8], sz[8], move[32]; /* of this node; empty: not there */
    int turn;                    /* whose move; -1: none */
} sgf_t;

bool sgf_walk(sgf_t *sgf);
/* Notes an error, gives false. */
__attribute__((format(printf, 2, 3))) bool sgf_wrong(sgf_t *sgf, const char *format, ...);
/* What sgf_walk calls in the main line: the nth value (from 0) of a property; the end of a node. */
bool sgf_value(sgf_t *sgf, const char *ident, const char *value, int n);
bool sgf_node(sgf_t *sgf);
#endif
