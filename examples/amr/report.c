/* amr: results: the mass, a checksum, and a picture. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "amr.h"

/* A leaf's contribution to the results. The cube is periodic, so the shortest of the distances to
 * the center counts. */
static totals_t totals_of(const mesh_t *mesh, const block_t *block)
{
    int n = mesh->n;
    double h = block_width(mesh, block), volume = h * h * h;
    totals_t totals = { .checksum = block->box.key * 64 + (uint64_t)block->box.level };
    for (int i = 0; i < n * n * n; i++) {
        double value = cells_data(&block->cells)[i];
        int at[3] = { i % n, i / n % n, i / (n * n) };
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        totals.checksum = (totals.checksum ^ bits) * 0x100000001b3; /* FNV-1a by words */
        totals.checksum ^= totals.checksum >> 29;
        totals.mass += value * volume;
        for (int d = 0; d < 3; d++) {
            double place = (block->box.at[d] * (double)n + at[d] + 0.5) * h;
            totals.off[d] += value * volume * remainder(place - 0.5 - velocity[d] * mesh->time, 1);
        }
    }
    return totals;
}

/* Rank 0 adds up leaf by leaf in their order, so that rounding does not depend on the ranks. */
static totals_t add_up(const totals_t *all, int n)
{
    totals_t sum = { 0 };
    for (int i = 0; i < n; i++) {
        sum.mass += all[i].mass;
        sum.checksum = (sum.checksum ^ all[i].checksum) * 0x100000001b3;
        for (int d = 0; d < 3; d++)
            sum.off[d] += all[i].off[d];
    }
    for (int d = 0; d < 3 && n; d++)
        sum.off[d] /= sum.mass;
    return sum;
}

totals_t report_totals(const mesh_t *mesh)
{
    int n_ranks = pgas_n_ranks();
    size_t n = (size_t)mesh->n_blocks, *bytes_of = need(calloc((size_t)n_ranks, sizeof *bytes_of));
    totals_t *mine = need(calloc(n + 1, sizeof *mine));
    totals_t *all = need(calloc((size_t)mesh->tree.n, sizeof *all));
    for (size_t i = 0; i < n; i++)
        mine[i] = totals_of(mesh, &mesh->blocks[i]);
    for (int rank = 0; rank < n_ranks; rank++)
        bytes_of[rank] = sizeof *mine * (size_t)(tree_first(&mesh->tree, rank + 1) -
                                                 tree_first(&mesh->tree, rank));
    check(pgas_gatherv(NULL, mine, n * sizeof *mine, all, bytes_of, 0), "pgas_gatherv");
    totals_t sum = add_up(all, pgas_rank() == 0 ? mesh->tree.n : 0);
    free(all);
    free(mine);
    free(bytes_of);
    return sum;
}

/* Returns the library's counters, added up over the ranks. */
traffic_t report_traffic(void)
{
    pgas_rma_info_t info = { .size = sizeof info };
    check(pgas_rma_info(&info), "pgas_rma_info");
    traffic_t mine = { info.n_calls_sent, info.bytes_sent, info.n_registered_sent,
                       info.n_pointers_sent, info.n_registrations },
              sum;
    check(pgas_allreduce(NULL, &mine, &sum, sizeof sum / sizeof(uint64_t), PGAS_U64, PGAS_ADD),
          "pgas_allreduce");
    return sum;
}

/* ---- the picture ---- */

/* From dark blue over red and yellow to white. */
static void color(double value, uint8_t pixel[3])
{
    static const double stop[4][3] = {
        { 20, 20, 60 }, { 220, 50, 40 }, { 255, 220, 80 }, { 255, 255, 255 }
    };
    double v = 3 * fmin(fmax(value, 0), 0.999);
    int i = (int)v;
    for (int c = 0; c < 3; c++)
        pixel[c] = (uint8_t)(stop[i][c] + (v - i) * (stop[i + 1][c] - stop[i][c]));
}

/* Paints the cells of a block in the middle plane. Each is a square of side * side pixels. */
static void paint(const mesh_t *mesh, const block_t *block, uint8_t *picture)
{
    int n = mesh->n, level = block->box.level, width = n << mesh->tree.finest;
    int side = 1 << (mesh->tree.finest - level), wide = n * side;
    uint32_t middle = (uint32_t)n << (level - 1), low = block->box.at[2] * (uint32_t)n;
    if (middle < low || middle >= low + (uint32_t)n)
        return;
    const double *cell = cells_data(&block->cells) + (size_t)(middle - low) * (size_t)(n * n);
    for (int y = 0; y < wide; y++)
        for (int x = 0; x < wide; x++) {
            size_t column = block->box.at[0] * (size_t)wide + (size_t)x;
            size_t row = (size_t)width - 1 - (block->box.at[1] * (size_t)wide + (size_t)y);
            uint8_t *pixel = &picture[3 * (row * (size_t)width + column)];
            color(cell[x / side + n * (y / side)], pixel);
            if (x == 0 || y == 0) /* an edge of the block */
                for (int i = 0; i < 3; i++)
                    pixel[i] = (uint8_t)(pixel[i] / 2 + 50);
        }
}

bool report_picture(const mesh_t *mesh, const char *path)
{
    size_t width = (size_t)mesh->n << mesh->tree.finest, bytes = 3 * width * width;
    uint8_t *picture = need(calloc(bytes, 1));
    for (int i = 0; i < mesh->n_blocks; i++)
        paint(mesh, &mesh->blocks[i], picture);
    /* Each pixel has a color on one rank and is 0 on the others. */
    check(pgas_reduce(NULL, picture, bytes, PGAS_U8, PGAS_MAX, 0), "pgas_reduce");
    bool is_good = true;
    if (pgas_rank() == 0) {
        FILE *out = fopen(path, "wb");
        is_good = out && fprintf(out, "P6\n%zu %zu\n255\n", width, width) > 0 &&
                  fwrite(picture, bytes, 1, out) == 1;
        if (out && fclose(out) != 0)
            is_good = false;
        if (!is_good)
            perror(path);
    }
    free(picture);
    return is_good;
}
