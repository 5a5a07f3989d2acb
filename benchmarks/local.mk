# Benchmarks, build/benchmarks/pgas_<what>: a table of cases each. The harness (bench.c, loops.c,
# options.c, placement.c, print.c), the loops over puts and gets (rma.c) and the reference loops
# (ref*.c, the only files that use MPI and UCX) are one library.
noinst_LTLIBRARIES += %D%/libbench.la
%C%_libbench_la_SOURCES = %D%/bench.c %D%/bench.h %D%/loops.c %D%/options.c %D%/options.h \
	%D%/placement.c %D%/print.c %D%/print.h %D%/rma.c %D%/rma.h %D%/ref.c %D%/ref.h \
	%D%/ref_alltoallv.c %D%/ref_bibw.c %D%/ref_coll.c %D%/ref_memory.c %D%/ref_ring.h %D%/ref_mpi.c %D%/ref_ucx.c \
	%D%/team.c \
	%D%/array_work.c %D%/array_work.h %D%/ref_array.c %D%/ref_array.h
bench_ldadd = %D%/libbench.la $(public_ldadd) $(UCX_LIBS)

noinst_PROGRAMS += %D%/pgas_array_local %D%/pgas_array_random %D%/pgas_array_seq %D%/pgas_array_zipf \
	%D%/pgas_atomic %D%/pgas_barrier %D%/pgas_bibw_args %D%/pgas_broadcast %D%/pgas_busy_target %D%/pgas_call_crowd %D%/pgas_call_latency %D%/pgas_call_rate \
	%D%/pgas_collectives %D%/pgas_get_bw %D%/pgas_get_latency %D%/pgas_graph %D%/pgas_group %D%/pgas_gups %D%/pgas_histo %D%/pgas_indexgather %D%/pgas_invoke %D%/pgas_kvs %D%/pgas_labels \
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
%C%_pgas_graph_SOURCES = %D%/graph.c %D%/ref_crew.c %D%/ref_crew.h %D%/ref_graph.c %D%/ref_graph.h \
	%D%/ref_graph_lists.c %D%/ref_graph_paths.c
%C%_pgas_graph_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
%C%_pgas_graph_LDADD = $(bench_ldadd)
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
%C%_pgas_kvs_SOURCES = %D%/kvs.c %D%/kvs_check.c %D%/kvs_space.c %D%/kvs_work.c %D%/kvs_work.h %D%/ref_table.c %D%/ref_table.h \
	%D%/resp_client.c %D%/resp_client.h %D%/ycsb.c %D%/ycsb.h
%C%_pgas_kvs_LDADD = $(bench_ldadd) -lm
%C%_pgas_labels_SOURCES = %D%/labels.c %D%/labels.h %D%/ref_labels.c
%C%_pgas_labels_LDADD = $(bench_ldadd)
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

# Servers of Redis' protocol: a client that loads them, and a bare server, which is the limit.
noinst_PROGRAMS += %D%/pgas_kvs_client %D%/ref_epoll
%C%_pgas_kvs_client_SOURCES = %D%/kvs_client.c %D%/resp_client.c %D%/resp_client.h %D%/ycsb.c %D%/ycsb.h
%C%_pgas_kvs_client_LDADD = $(bench_ldadd) -lm
%C%_ref_epoll_SOURCES = %D%/ref_epoll.c
%C%_ref_epoll_LDADD =

# Other serializers, as far as configure has found them. Their compilers make code from descriptions. Objects refer to
# the peers weakly, so all files are objects of the program, none of a library.
noinst_PROGRAMS += %D%/pgas_serialize
%C%_pgas_serialize_SOURCES = %D%/serialize.c %D%/serialize.h %D%/serialize_ours.c %D%/ref_serialize.c
nodist_%C%_pgas_serialize_SOURCES =
%C%_pgas_serialize_LDADD = $(bench_ldadd) $(SERIALIZER_LIBS)
EXTRA_DIST += %D%/serialize.proto %D%/serialize.options %D%/serialize.fbs %D%/serialize.capnp %D%/ref_serialize_stream.hh
if HAVE_CXX
%C%_pgas_serialize_LINK = $(CXXLINK)
else
%C%_pgas_serialize_LINK = $(LINK)
endif
if HAVE_PROTOBUF_C
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_protobuf_c.c
nodist_%C%_pgas_serialize_SOURCES += %D%/serialize.pb-c.c %D%/serialize.pb-c.h
%D%/ref_serialize_protobuf_c.$(OBJEXT): %D%/serialize.pb-c.h
%D%/serialize.pb-c.h: %D%/serialize.pb-c.c
%D%/serialize.pb-c.c: %D%/serialize.proto
	$(AM_V_GEN)$(PROTOBUF_C_COMPILER) -I$(top_srcdir) --c_out=. $(top_srcdir)/%D%/serialize.proto
endif
if HAVE_NANOPB
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_nanopb.c
nodist_%C%_pgas_serialize_SOURCES += %D%/serialize.pb.c %D%/serialize.pb.h
%D%/ref_serialize_nanopb.$(OBJEXT): %D%/serialize.pb.h
%D%/serialize.pb.h: %D%/serialize.pb.c
%D%/serialize.pb.c: %D%/serialize.proto %D%/serialize.options
	$(AM_V_GEN)$(NANOPB_COMPILER) -q -I$(top_srcdir) -D. -f$(top_srcdir)/%D%/serialize.options \
	  $(top_srcdir)/%D%/serialize.proto
endif
if HAVE_MSGPACK
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_msgpack.c
endif
if HAVE_LIBCBOR
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_libcbor.c
endif
if HAVE_FLATBUFFERS
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_flatbuffers.cc
nodist_%C%_pgas_serialize_SOURCES += %D%/serialize_generated.h
%D%/ref_serialize_flatbuffers.$(OBJEXT): %D%/serialize_generated.h
%D%/serialize_generated.h: %D%/serialize.fbs
	$(AM_V_GEN)$(FLATBUFFERS_COMPILER) --cpp -o %D% $(top_srcdir)/%D%/serialize.fbs
endif
if HAVE_CAPNPROTO
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_capnproto.cc
nodist_%C%_pgas_serialize_SOURCES += %D%/serialize.capnp.c++ %D%/serialize.capnp.h
%D%/ref_serialize_capnproto.$(OBJEXT): %D%/serialize.capnp.h
%D%/serialize.capnp.h: %D%/serialize.capnp.c++
# Otherwise make looks for a rule that links serialize.capnp from serialize.capnp.o.
%D%/serialize.capnp: ;
%D%/serialize.capnp.c++: %D%/serialize.capnp
	$(AM_V_GEN)$(CAPNPROTO_COMPILER) compile -oc++:. --src-prefix=$(top_srcdir) $(top_srcdir)/%D%/serialize.capnp
endif
if HAVE_CEREAL
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_cereal.cc
endif
if HAVE_BOOST
%C%_pgas_serialize_SOURCES += %D%/ref_serialize_boost.cc
endif
CLEANFILES += %D%/serialize.pb-c.c %D%/serialize.pb-c.h %D%/serialize.pb.c %D%/serialize.pb.h \
	%D%/serialize_generated.h %D%/serialize.capnp.c++ %D%/serialize.capnp.h

# The table of all ratios: benchmarks/ratios [--quick], from the build folder. A start of MPI alone is
# a reference there.
noinst_PROGRAMS += %D%/ref_hello
%C%_ref_hello_SOURCES = %D%/ref_hello.c
%C%_ref_hello_LDADD = $(MPI_LIBS)
EXTRA_DIST += %D%/ratios %D%/ratios.txt
# Servers of Redis' protocol: benchmarks/kvsd, from the build folder.
EXTRA_DIST += %D%/kvsd
# Arrays by nodes and threads: benchmarks/sweep, from the build folder.
EXTRA_DIST += %D%/sweep
# Instructions of hot paths: benchmarks/instructions, from the build folder.
EXTRA_DIST += %D%/instructions

check_scripts += t/spmd/bench.t
