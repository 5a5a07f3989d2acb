/* amr: adaptive mesh refinement. A blob moves through a periodic cube of 3 dimensions. Small cells
 * follow it; large ones fill the rest.
 *
 *   mpirun -n 4 build/examples/amr/amr --steps 200 --check --output blob.ppm
 *
 * The cube is an octree. Its leaves are blocks of 8^3 cells (--block). Each rank owns an equal part
 * of the leaves along the Morton curve. A step in time has three parts:
 *   1. Each rank sends the cells at the faces of its blocks to the owners of the neighbours: one
 *      call for each of these ranks, with one vector of all these numbers (exchange.c).
 *   2. It computes the new cells of its blocks (block.c).
 *   3. Every fourth step blocks with steep slopes split into eight, and eight flat ones merge
 *      (adapt.c). Then the parts of the curve have other ends. Blocks go to their new owners: one
 *      call for each rank, with the blocks as arguments (exchange.c).
 * The calls are in message.c. With --registered the receiver reads a vector straight from the
 * sender's memory, and the memory into which it reads becomes its block. --pointers and --packed
 * show what other ways cost. The cells have the same bits on any number of ranks.
 *
 * Read amr.h first; then tree.c, adapt.c, block.c, strip.c; then exchange.c and message.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "message.h"

#define STEPS_PER_TREE 4

static const char *const way_name[] = { "registered", "pointers", "packed" };

void check(pgas_status_t status, const char *what)
{
    char text[200];
    if (status == PGAS_OK)
        return;
    snprintf(text, sizeof text, "amr: %s: %s", what, pgas_status_text(status));
    pgas_abort(1, text);
}

void *need(void *memory)
{
    check(memory ? PGAS_OK : PGAS_ERR_NO_MEMORY, "memory");
    return memory;
}

/* ---- the run ---- */

/* A picture: in a folder one of each call, otherwise only the last one. */
static bool draw(const mesh_t *mesh, int step)
{
    struct stat info;
    char path[4096];
    if (!settings.output)
        return true;
    bool is_folder = stat(settings.output, &info) == 0 && S_ISDIR(info.st_mode);
    if (!is_folder && step < settings.steps)
        return true;
    snprintf(path, sizeof path, is_folder ? "%s/step%06d.ppm" : "%s", settings.output, step);
    return report_picture(mesh, path);
}

/* @return the number of blocks in all steps */
static uint64_t run(mesh_t *mesh, bool *is_drawn_p)
{
    uint64_t n_blocks = 0;
    for (int step = 0; step < settings.steps; step++) {
        char note[40];
        if (step % STEPS_PER_TREE == 0) {
            mesh_regrid(mesh);
            *is_drawn_p &= draw(mesh, step);
        }
        if (settings.spoil && step == settings.steps / 2 && mesh->n_blocks)
            cells_data(&mesh->blocks[0].cells)[0] += 1e-3;
        mesh_advect(mesh);
        n_blocks += (uint64_t)mesh->tree.n;
        snprintf(note, sizeof note, "%d blocks", mesh->tree.n);
        pgas_progress_show("steps", (uint64_t)step + 1, (uint64_t)settings.steps, note);
    }
    *is_drawn_p &= draw(mesh, settings.steps);
    return n_blocks;
}

/* Rounding changes the mass by far less than 1e-12 of it. The scheme moves the center of mass like
 * the exact solution while the blob is in cells of one size; otherwise nearly so. */
static bool show_totals(const totals_t *before, const totals_t *after)
{
    double change = fabs(after->mass - before->mass) / before->mass;
    double off = fmax(fabs(after->off[0]), fmax(fabs(after->off[1]), fabs(after->off[2])));
    bool is_conserved = change <= 1e-12, is_in_place = off <= 0.01;
    printf("mass %.12f, changed by %.1e of it: %s\n", after->mass, change,
           is_conserved ? "right" : "WRONG");
    printf("center of mass off by %.1e: %s\n", off, is_in_place ? "right" : "WRONG");
    printf("checksum %016llx\n", (unsigned long long)after->checksum);
    return is_conserved && is_in_place;
}

static void show_traffic(void)
{
    traffic_t traffic = report_traffic();
    if (pgas_rank() == 0 && settings.way != PACKED)
        printf("%llu calls, %.1f MB: %llu registered vectors, %llu others, %llu registrations\n",
               (unsigned long long)traffic.n_calls, (double)traffic.bytes / 1e6,
               (unsigned long long)traffic.n_registered, (unsigned long long)traffic.n_pointers,
               (unsigned long long)traffic.n_registrations);
}

int main(int argc, char **argv)
{
    settings_parse(argc, argv);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    mesh_t mesh;
    messages_init();
    mesh_init(&mesh, settings.block, settings.levels);
    totals_t before = report_totals(&mesh);

    pgas_barrier(NULL);
    double start = pgas_time();
    bool is_drawn = true;
    uint64_t n_blocks = run(&mesh, &is_drawn);
    pgas_barrier(NULL);
    double seconds = pgas_time() - start;

    totals_t after = report_totals(&mesh);
    bool is_right = true;
    if (pgas_rank() == 0)
        printf("%d steps on %d ranks, %s: %d blocks of %d^3 cells at the end, %.0f blocks per "
               "second\n",
               settings.steps, pgas_n_ranks(), way_name[settings.way], mesh.tree.n, mesh.n,
               (double)n_blocks / seconds);
    if (settings.check && pgas_rank() == 0)
        is_right = show_totals(&before, &after);
    show_traffic();
    mesh_free(&mesh);
    messages_free();
    pgas_finalize();
    return is_drawn && is_right ? 0 : 1;
}
