# Benchmarks, build/benchmarks/pgas_<what>: a table of cases each. The harness (bench.c, print.c), the loops over puts and
# gets (rma.c) and the reference loops (ref*.c, the only files that use MPI and UCX) are one library.
# The table of all ratios: benchmarks/ratios [--quick], from the build folder.
