/* amr: the cells of one leaf: the blob, its advection, and the change between levels.
 *
 * Advection is a finite-volume scheme, first-order upwind. The flow out of a cell through a face is
 * the flow into the cell behind it. At a face between two sizes, the larger cell uses the mean of
 * the four smaller cells, and each smaller cell uses the larger one. So both sides compute the same
 * flow, and the mass does not change. */
#include "amr.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double velocity[3] = { 1.2, -0.7, 0.1 };

/* A block splits if cells differ by more than the first value. It merges if they differ by less
 * than the second value. */
#define JUMP_SPLIT 0.03
#define JUMP_MERGE 0.01

void block_init(const mesh_t *mesh, block_t *block, int leaf)
{
    size_t plane = (size_t)(mesh->n * mesh->n);
    block->box = mesh->tree.leaf[leaf];
    block->cells = (cells_t){ 0 };
    block->ghosts = need(calloc(N_FACES * plane, sizeof *block->ghosts));
}

void block_free(block_t *block)
{
    cells_free(&block->cells);
    free(block->ghosts);
}

double block_width(const mesh_t *mesh, const block_t *block)
{
    return ldexp(1.0 / mesh->n, -block->box.level);
}

/* A smooth bump of height 1 around the middle of the cube. */
static double blob(double x, double y, double z)
{
    double far = ((x - 0.5) * (x - 0.5) + (y - 0.5) * (y - 0.5) + (z - 0.5) * (z - 0.5)) / 0.04;
    return far < 1 ? (1 - far) * (1 - far) : 0;
}

void block_fill(const mesh_t *mesh, block_t *block)
{
    int n = mesh->n;
    double h = block_width(mesh, block);
    double corner[3];
    for (int d = 0; d < 3; d++)
        corner[d] = h * n * block->box.at[d];
    if (cells_size(&block->cells) == 0)
        message_cells(&block->cells, (size_t)(n * n * n));
    double *cell = cells_data(&block->cells);
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++)
                *cell++ = blob(corner[0] + (i + 0.5) * h, corner[1] + (j + 0.5) * h,
                               corner[2] + (k + 0.5) * h);
}

/* Copies the cells and the ghosts around them to one array of (n + 2)^3 numbers. */
static double *surround(const mesh_t *mesh, const block_t *block)
{
    static double *padded;
    int n = mesh->n, m = n + 2, stride[3] = { 1, m, m * m };
    if (!padded)
        padded = need(calloc((size_t)(m * m * m), sizeof *padded));
    const double *cell = cells_data(&block->cells), *ghost = block->ghosts;
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++, cell += n)
            memcpy(&padded[1 + m * (j + 1) + m * m * (k + 1)], cell, (size_t)n * sizeof *cell);
    for (int face = 0; face < N_FACES; face++) {
        int d = face / 2, one = stride[d == 0 ? 1 : 0], other = stride[d == 2 ? 1 : 2];
        double *plane = &padded[face & 1 ? (n + 1) * stride[d] : 0];
        for (int b = 1; b <= n; b++)
            for (int a = 1; a <= n; a++)
                plane[a * one + b * other] = *ghost++;
    }
    return padded;
}

/* Returns the flow from one cell to the next one, through a unit of area in a unit of time. */
static double flow(double here, double next, double speed)
{
    return speed > 0 ? speed * here : speed * next;
}

void block_advect(const mesh_t *mesh, block_t *block)
{
    int n = mesh->n, m = n + 2;
    double factor = mesh->dt / block_width(mesh, block), *cell = cells_data(&block->cells);
    const double *padded = surround(mesh, block);
    for (int k = 1; k <= n; k++)
        for (int j = 1; j <= n; j++)
            for (int i = 1; i <= n; i++) {
                const double *u = &padded[i + m * j + m * m * k];
                double x = flow(u[-1], u[0], velocity[0]) - flow(u[0], u[1], velocity[0]);
                double y = flow(u[-m], u[0], velocity[1]) - flow(u[0], u[m], velocity[1]);
                double z = flow(u[-m * m], u[0], velocity[2]) - flow(u[0], u[m * m], velocity[2]);
                *cell++ = u[0] + factor * (x + y + z);
            }
}

int8_t block_wish(const mesh_t *mesh, const block_t *block)
{
    int n = mesh->n, m = n + 2, stride[3] = { 1, m, m * m };
    const double *padded = surround(mesh, block);
    double most = 0;
    for (int k = 1; k <= n; k++)
        for (int j = 1; j <= n; j++)
            for (int i = 1; i <= n; i++)
                for (int d = 0; d < 3; d++) {
                    const double *u = &padded[i + m * j + m * m * k];
                    double up = fabs(u[stride[d]] - u[0]), down = fabs(u[0] - u[-stride[d]]);
                    most = up > most ? up : most;
                    most = down > most ? down : most;
                }
    if (most > JUMP_SPLIT)
        return 1;
    return most < JUMP_MERGE ? -1 : 0;
}

/* The first cell of an octant. */
static size_t octant_at(int n, int octant)
{
    int x = octant & 1, y = octant >> 1 & 1, z = octant >> 2;
    return (size_t)(n / 2 * (x + n * (y + n * z)));
}

void block_split(const mesh_t *mesh, const block_t *block, int octant, double *child)
{
    int n = mesh->n;
    const double *cell = cells_data(&block->cells) + octant_at(n, octant);
    for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++)
                *child++ = cell[i / 2 + n * (j / 2 + n * (k / 2))];
}

void block_shrink(const mesh_t *mesh, const block_t *block, double *eighth)
{
    int n = mesh->n;
    const double *cells = cells_data(&block->cells);
    for (int k = 0; k < n; k += 2)
        for (int j = 0; j < n; j += 2)
            for (int i = 0; i < n; i += 2) {
                const double *c = &cells[i + n * (j + n * k)], *up = c + n * n;
                *eighth++ = 0.125 * (((c[0] + c[1]) + (c[n] + c[n + 1])) +
                                     ((up[0] + up[1]) + (up[n] + up[n + 1])));
            }
}

void block_put_octant(const mesh_t *mesh, block_t *block, int octant, const double *eighth)
{
    int n = mesh->n, half = n / 2;
    double *cell = cells_data(&block->cells) + octant_at(n, octant);
    for (int k = 0; k < half; k++)
        for (int j = 0; j < half; j++, eighth += half)
            memcpy(&cell[n * (j + n * k)], eighth, (size_t)half * sizeof *eighth);
}
