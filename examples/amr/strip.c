/* amr: strips carry cells at the face of a leaf to the ghosts of the leaf behind it. */
#include "amr.h"
#include <string.h>

strip_t strip_make(const tree_t *tree, int from, int face, int to)
{
    const box_t *source = &tree->leaf[from], *target = &tree->leaf[to];
    strip_t strip = { .from = from, .to = to, .face = (uint8_t)(face ^ 1), .kind = SAME };
    if (target->level < source->level) {
        strip.kind = TO_LARGER;
        strip.quadrant = (uint8_t)box_quadrant(source, face);
    } else if (target->level > source->level) {
        strip.kind = TO_SMALLER;
        strip.quadrant = (uint8_t)box_quadrant(target, face);
    }
    return strip;
}

size_t strip_size(const mesh_t *mesh, const strip_t *strip)
{
    int n = strip->kind == SAME ? mesh->n : mesh->n / 2;
    return (size_t)(n * n);
}

/* A larger neighbour gets the means of four cells. A smaller one gets a quarter of the cells. */
void strip_read(const mesh_t *mesh, const strip_t *strip, double *values)
{
    int n = mesh->n, half = n / 2, stride[3] = { 1, n, n * n };
    int face = strip->face ^ 1, d = face / 2;
    int one = stride[d == 0 ? 1 : 0], other = stride[d == 2 ? 1 : 2];
    const double *plane = cells_data(&mesh->blocks[strip->from - mesh->first].cells);
    if (face & 1)
        plane += (n - 1) * stride[d];

    if (strip->kind == TO_LARGER) {
        for (int b = 0; b < n; b += 2)
            for (int a = 0; a < n; a += 2) {
                const double *c = &plane[a * one + b * other];
                *values++ = 0.25 * ((c[0] + c[one]) + (c[other] + c[one + other]));
            }
        return;
    }
    int size = strip->kind == SAME ? n : half;
    if (strip->kind == TO_SMALLER)
        plane += (strip->quadrant & 1) * half * one + (strip->quadrant >> 1) * half * other;
    for (int b = 0; b < size; b++)
        for (int a = 0; a < size; a++)
            *values++ = plane[a * one + b * other];
}

void strip_write(mesh_t *mesh, const strip_t *strip, const double *values)
{
    int n = mesh->n, half = n / 2;
    double *ghost = mesh->blocks[strip->to - mesh->first].ghosts + strip->face * n * n;
    if (strip->kind == SAME)
        memcpy(ghost, values, (size_t)(n * n) * sizeof *ghost);
    if (strip->kind == TO_LARGER) {
        ghost += (strip->quadrant & 1) * half + (strip->quadrant >> 1) * half * n;
        for (int b = 0; b < half; b++)
            memcpy(&ghost[b * n], &values[b * half], (size_t)half * sizeof *ghost);
    }
    if (strip->kind == TO_SMALLER)
        for (int b = 0; b < n; b++)
            for (int a = 0; a < n; a++)
                ghost[a + b * n] = values[a / 2 + b / 2 * half];
}
