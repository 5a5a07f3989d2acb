/* hex: declarations that the files of the program share. Rank 0 has the game, runs the protocol and
 * decides. The other ranks only execute its orders (engine.c). */
#ifndef HEXPROG_H
#define HEXPROG_H

#include <pgas/hex.h>
#include <pgas/mcts.h>
#include <pgas/pgas.h>
#include <stdbool.h>
#include <stdio.h>

#define MOVES_MAX        (PGAS_HEX_SIZE_MAX * PGAS_HEX_SIZE_MAX + 1) /* each cell, and a swap */
#define DEFAULT_ROLLOUTS 100000
#define MESSAGE_MAX      256

/* ---- settings.c: a table of the settings of the command line and of the command param ---- */
enum {
    SIZE,
    SWAP,
    ROLLOUTS,
    TIME,
    THREADS,
    PLAYOUTS,
    POLICY,
    EXPLORATION,
    FPU,
    PENDING,
    PLACE,
    AGG,
    MODE,
    SEED,
    MEMORY,
    N_SETTINGS
};
typedef struct {
    double of[N_SETTINGS]; /* words by their number */
} settings_t;
void settings_init(settings_t *settings);
/* The index of a setting; -1: there is none of that name. */
int setting_find(const char *name);
/* Sets one from text. @return false: *why has the allowed values, and the setting is unchanged */
bool setting_parse(settings_t *settings, int which, const char *text, char why[MESSAGE_MAX]);
/* "name value" or, value NULL, all that the command param shows. */
void setting_show(const settings_t *settings, int which, FILE *out);
const char *setting_name(int which);
bool setting_is_flag(int which); /* on the command line it takes no value */
void settings_help(FILE *out);
void settings_to_opts(const settings_t *settings, pgas_mcts_opts_t *opts);

/* ---- game.c: the moves made and the position they led to; text of moves ---- */
typedef struct {
    pgas_hex_t at;
    bool may_swap;
    int n_moves;
    pgas_mcts_move_t moves[MOVES_MAX];
    /* the color of each move: one color may move several times in a row */
    uint8_t turns[MOVES_MAX];
} game_t;
bool game_start(game_t *game, int size, bool may_swap); /* false: no such size */
/* Makes a move given as text; it need not be the color's turn. @return false: *why has the reason,
 * and the game is unchanged */
bool game_play_text(game_t *game, int turn, const char *text, char why[MESSAGE_MAX]);
bool game_play(game_t *game, int turn, pgas_mcts_move_t move);
void game_set_turn(game_t *game, int turn);
bool game_undo(game_t *game);
bool game_set_swap(game_t *game, bool may_swap); /* false: there was a swap already */
void move_text(int size, pgas_mcts_move_t move, char text[16]);
int color_parse(const char *text); /* -1: none */
extern const char *const color_name[2];

/* ---- sgf_syntax.c, sgf_game.c, sgf_file.c (see sgf.h) ---- */
/* Reads the main line of the only game of a file. @return false: *why has the place and the error,
 * and *game is unchanged */
bool sgf_read(const char *path, game_t *game, char why[MESSAGE_MAX]);
bool sgf_parse(const char *name, const char *text, size_t bytes, game_t *game,
               char why[MESSAGE_MAX]);
void sgf_write(const game_t *game, FILE *out);
bool sgf_save(const game_t *game, const char *path); /* false: errno says why */

/* ---- think.c: rank 0 searches ---- */
typedef struct {
    bool there; /* something was searched */
    int size;
    pgas_mcts_result_t result;
    pgas_mcts_info_t info;
    size_t n_children, n_line;
    pgas_mcts_child_t children[MOVES_MAX];
    pgas_mcts_move_t line[PGAS_MCTS_VARIATION_MAX];
} report_t;
typedef struct {
    pgas_mcts_t *search; /* NULL: none yet */
    bool broken;         /* a rank is dead: no more orders */
    game_t root;         /* the position at its tree's root; n_moves -1: none */
    settings_t made;     /* the settings it was made with */
    report_t report;     /* of the last search, on rank 0 */
    void (*progress)(const pgas_mcts_result_t *result, void *arg);
    void *progress_arg;
} engine_t;
/* Searches the position of a game that is not over; seconds 0: as the settings say. Then
 * engine->report is filled, and has a best move also if the search was stopped at once. */
pgas_status_t engine_think(engine_t *engine, const game_t *game, const settings_t *settings,
                           double seconds);

/* ---- engine.c: orders of rank 0 that all ranks execute together ---- */
/* in the place of another */
pgas_status_t engine_create(engine_t *engine, int size, const pgas_mcts_opts_t *opts);
pgas_status_t engine_state(engine_t *engine, const pgas_hex_t *state);
pgas_status_t engine_advance(engine_t *engine, pgas_mcts_move_t move);
pgas_status_t engine_search(engine_t *engine, const pgas_mcts_budget_t *budget);
pgas_status_t engine_end(engine_t *engine); /* the last */
pgas_status_t engine_follow(void);          /* the other ranks, until then */

/* ---- report.c: boards and results of searches, as text ---- */
void board_show(const game_t *game, FILE *out);
void report_values(const report_t *report, size_t n_most, FILE *out);
void report_line(const report_t *report, FILE *out);
void report_stats(const report_t *report, FILE *out);

/* ---- clock.c: time per move of the protocol's clocks ---- */
typedef struct {
    bool on;
    double main, byo; /* seconds; byo for `stones` moves */
    int stones;
    struct {
        double left;
        int stones; /* to make in that time; 0: main time */
    } of[2];
} hexclock_t;
void clock_set(hexclock_t *clock, double main_time, double byo, int stones);
void clock_tell(hexclock_t *clock, int turn, double left, int stones);
/* seconds for a move; 0: no limit */
double clock_share(const hexclock_t *clock, int turn, int n_empty);
void clock_spend(hexclock_t *clock, int turn, double seconds);

/* ---- input.c: its thread reads standard input, so that a search can be stopped ---- */
#define LINE_BYTES 4096 /* longer ones are cut off there, and refused */
bool input_start(void);
/* The next line with a command, without control characters; the caller frees it. NULL: the end. */
char *input_take(void);
/* From now on a line that has arrived since the last input_take, or arrives, stops this search.
 * NULL: none does. */
void input_watch(pgas_mcts_t *search);

/* ---- gtp.c, commands_*.c: the protocol ---- */
typedef struct {
    settings_t settings;
    game_t game;
    engine_t engine;
    hexclock_t clock;
} session_t;
typedef struct {
    const char *name;
    int n_least, n_most; /* arguments */
    const char *args;
    /* @return false: the output is an error */
    bool (*run)(session_t *session, int n_args, char **args, FILE *out);
} command_t;
/* each ended by a name NULL */
extern const command_t commands_play[], commands_search[], commands_set[];
extern const command_t *const command_lists[3];
/* prints an error; returns false, as a failed command does */
bool refuse(FILE *out, const char *text, const char *more);
const command_t *command_find(const char *name);
int gtp_run(session_t *session); /* until quit or the end of input; the program's exit status */

/* ---- batch.c: one position, or one game against itself; exit status ---- */
int analyse(session_t *session, const char *path, const char *moves);
int selfplay(session_t *session, const char *path);
#endif
