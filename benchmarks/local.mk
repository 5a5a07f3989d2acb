# Benchmarks, build/benchmarks/pgas_<what>: a table of cases each. The harness (bench.c, loops.c,
# options.c, placement.c, print.c), the loops over puts and gets (rma.c) and the reference loops
# (ref*.c, the only files that use MPI and UCX) are one library.
noinst_LTLIBRARIES += %D%/libbench.la
%C%_libbench_la_SOURCES = %D%/bench.c %D%/bench.h %D%/loops.c %D%/options.c %D%/options.h \
	%D%/placement.c %D%/print.c %D%/print.h %D%/rma.c %D%/rma.h %D%/ref.c %D%/ref.h \
	%D%/ref_bibw.c %D%/ref_memory.c %D%/ref_mpi.c %D%/ref_ucx.c %D%/team.c \
	%D%/array_work.c %D%/array_work.h %D%/ref_array.c %D%/ref_array.h
bench_ldadd = %D%/libbench.la $(public_ldadd) $(UCX_LIBS)

noinst_PROGRAMS += %D%/pgas_array_local %D%/pgas_array_random %D%/pgas_array_seq %D%/pgas_array_zipf \
	%D%/pgas_atomic %D%/pgas_barrier %D%/pgas_bibw_args %D%/pgas_broadcast %D%/pgas_busy_target %D%/pgas_call_crowd %D%/pgas_call_latency %D%/pgas_call_rate \
	%D%/pgas_collectives %D%/pgas_get_bw %D%/pgas_get_latency %D%/pgas_group %D%/pgas_gups %D%/pgas_histo %D%/pgas_indexgather %D%/pgas_invoke \
	%D%/pgas_mcts %D%/pgas_numa \
	%D%/pgas_put_bibw %D%/pgas_put_bw %D%/pgas_put_latency %D%/pgas_put_rate %D%/pgas_startup \
	%D%/pgas_verbs_latency %D%/pgas_verbs_rate
%C%_pgas_array_local_SOURCES = %D%/array_local.c
%C%_pgas_array_local_LDADD = $(bench_ldadd)
%C%_pgas_array_random_SOURCES = %D%/array_random.c
%C%_pgas_array_random_LDADD = $(bench_ldadd)
%C%_pgas_array_seq_SOURCES = %D%/array_seq.c
%C%_pgas_array_seq_LDADD = $(bench_ldadd)
%C%_pgas_array_zipf_SOURCES = %D%/array_zipf.c
%C%_pgas_array_zipf_LDADD = $(bench_ldadd)
%C%_pgas_atomic_SOURCES = %D%/atomic.c
%C%_pgas_atomic_LDADD = $(bench_ldadd)
%C%_pgas_barrier_SOURCES = %D%/barrier.c
%C%_pgas_barrier_LDADD = $(bench_ldadd)
%C%_pgas_bibw_args_SOURCES = %D%/bibw_args.c
%C%_pgas_bibw_args_LDADD = $(bench_ldadd)
%C%_pgas_broadcast_SOURCES = %D%/broadcast.c
%C%_pgas_broadcast_LDADD = $(bench_ldadd)
%C%_pgas_busy_target_SOURCES = %D%/busy_target.c
%C%_pgas_busy_target_LDADD = $(bench_ldadd)
%C%_pgas_call_crowd_SOURCES = %D%/call_crowd.c
%C%_pgas_call_crowd_LDADD = $(bench_ldadd)
%C%_pgas_call_latency_SOURCES = %D%/call_latency.c
%C%_pgas_call_latency_LDADD = $(bench_ldadd)
%C%_pgas_call_rate_SOURCES = %D%/call_rate.c
%C%_pgas_call_rate_LDADD = $(bench_ldadd)
%C%_pgas_collectives_SOURCES = %D%/collectives.c
%C%_pgas_collectives_LDADD = $(bench_ldadd)
%C%_pgas_get_bw_SOURCES = %D%/get_bw.c
%C%_pgas_get_bw_LDADD = $(bench_ldadd)
%C%_pgas_get_latency_SOURCES = %D%/get_latency.c
%C%_pgas_get_latency_LDADD = $(bench_ldadd)
%C%_pgas_group_SOURCES = %D%/group.c %D%/group_work.h %D%/group_ways.c %D%/group_engine.c \
	%D%/group_place.c %D%/ref_group.c
%C%_pgas_group_LDADD = $(bench_ldadd) -lm
%C%_pgas_gups_SOURCES = %D%/gups.c
%C%_pgas_gups_LDADD = $(bench_ldadd)
%C%_pgas_histo_SOURCES = %D%/histo.c
%C%_pgas_histo_LDADD = $(bench_ldadd)
%C%_pgas_indexgather_SOURCES = %D%/indexgather.c
%C%_pgas_indexgather_LDADD = $(bench_ldadd)
%C%_pgas_invoke_SOURCES = %D%/invoke.c
%C%_pgas_invoke_LDADD = $(bench_ldadd)
%C%_pgas_mcts_SOURCES = %D%/mcts.c %D%/ref_tree.c %D%/ref_tree.h
%C%_pgas_mcts_LDADD = $(bench_ldadd)
%C%_pgas_numa_SOURCES = %D%/numa.c
%C%_pgas_numa_LDADD = $(bench_ldadd)
%C%_pgas_put_bibw_SOURCES = %D%/put_bibw.c
%C%_pgas_put_bibw_LDADD = $(bench_ldadd)
%C%_pgas_put_bw_SOURCES = %D%/put_bw.c
%C%_pgas_put_bw_LDADD = $(bench_ldadd)
%C%_pgas_put_latency_SOURCES = %D%/put_latency.c
%C%_pgas_put_latency_LDADD = $(bench_ldadd)
%C%_pgas_put_rate_SOURCES = %D%/put_rate.c
%C%_pgas_put_rate_LDADD = $(bench_ldadd)
%C%_pgas_startup_SOURCES = %D%/startup.c
%C%_pgas_startup_LDADD = $(bench_ldadd)
%C%_pgas_verbs_latency_SOURCES = %D%/verbs_latency.c %D%/verbs_work.c %D%/verbs_work.h
%C%_pgas_verbs_latency_LDADD = $(bench_ldadd)
%C%_pgas_verbs_rate_SOURCES = %D%/verbs_rate.c %D%/verbs_work.c %D%/verbs_work.h
%C%_pgas_verbs_rate_LDADD = $(bench_ldadd)

# The table of all ratios: benchmarks/ratios [--quick], from the build folder.
EXTRA_DIST += %D%/ratios %D%/ratios.txt

check_scripts += t/spmd/bench.t
