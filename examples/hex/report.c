/* hex: results of searches, and boards, as text. */
#include "hexprog.h"

/* "a5 0.6123 1042" for each move that was tried, best first: its value for the player that moves,
 * and its visits, or "proven" if the value is exact. */
void report_values(const report_t *report, size_t n_most, FILE *out)
{
    for (size_t i = 0; i < report->n_children && i < n_most; i++) {
        const pgas_mcts_child_t *child = &report->children[i];
        char text[16];
        if (child->visits == 0 && !child->proven)
            continue;
        move_text(report->size, child->move, text);
        fprintf(out, "%s %.4f %llu%s\n", text, child->value, (unsigned long long)child->visits,
                child->proven ? " proven" : "");
    }
}

void report_line(const report_t *report, FILE *out)
{
    for (size_t i = 0; i < report->n_line; i++) {
        char text[16];
        move_text(report->size, report->line[i], text);
        fprintf(out, "%s%s", i ? " " : "", text);
    }
    fprintf(out, "\n");
}

static const char *const end_name[] = { "rollouts", "time", "memory", "stop", "proof", "end" };

void report_stats(const report_t *report, FILE *out)
{
    const pgas_mcts_info_t *s = &report->info;
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        { "visits", report->result.visits },
        { "rollouts", s->rollouts },
        { "lost", s->lost },
        { "playouts", s->playouts },
        { "final-states", s->final_states },
        { "nodes", s->nodes },
        { "bytes", s->bytes },
        { "bytes-high", s->bytes_high },
        { "nodes-expanded", s->nodes_expanded },
        { "children", s->children },
        { "depth-max", s->depth_max },
        { "selections", s->selections },
        { "remote", s->remote },
        { "deferred", s->deferred },
        { "reports", s->reports },
        { "reports-remote", s->reports_remote },
        { "combined", s->combined },
        { "shared", s->shared },
        { "transpositions", s->transpositions },
        { "phases", s->phases },
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        fprintf(out, "%s %llu\n", counts[i].name, (unsigned long long)counts[i].value);
    fprintf(out, "depth-mean %.2f\nchildren-mean %.2f\nseconds %.3f\n", s->depth_mean,
            s->nodes_expanded ? (double)s->children / (double)s->nodes_expanded : 0, s->seconds);
    fprintf(out,
            "rollouts-per-second-thread %.0f\nplayouts-per-second-thread %.0f\nimbalance %.2f\n",
            s->rollouts_per_second_thread, s->playouts_per_second_thread, s->imbalance);
    fprintf(out, "value %.4f%s\nended-by %s\n", report->result.value,
            report->result.proven ? " proven" : "", end_name[report->result.end]);
}

static void letters(int size, int indent, FILE *out)
{
    fprintf(out, "%*s", indent, "");
    for (int c = 0; c < size; c++)
        fprintf(out, " %c", 'a' + c);
    fprintf(out, "\n");
}

static char stone_at(const pgas_hex_t *at, int row, int column)
{
    if (at->stones[0][row] >> column & 1)
        return 'x';
    return at->stones[1][row] >> column & 1 ? 'o' : '.';
}

void board_show(const game_t *game, FILE *out)
{
    const pgas_hex_t *at = &game->at;
    letters(at->size, 1, out);
    for (int r = 0; r < at->size; r++) {
        fprintf(out, "%*d", r + 2, r + 1);
        for (int c = 0; c < at->size; c++)
            fprintf(out, " %c", stone_at(at, r, c));
        fprintf(out, "  %d\n", r + 1);
    }
    letters(at->size, at->size + 2, out);
    fprintf(out, "black x: top to bottom, white o: left to right; %s %s\n",
            color_name[at->winner >= 0 ? at->winner : at->turn],
            at->winner >= 0 ? "has won" : "to move");
}
