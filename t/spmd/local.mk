# Tests of several ranks (their header has np:). A program, two lines:
#   check_PROGRAMS += %D%/rma.t
#   %C%_rma_t_SOURCES = %D%/rma.c
# with OpenMP: %C%_rma_t_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS), and the first line between `if HAVE_OPENMP' and `endif'
# A script: check_scripts += %D%/name.t
check_scripts += %D%/progress.t

check_PROGRAMS += %D%/rma.t
%C%_rma_t_SOURCES = %D%/rma.c %D%/atomic_model.h %D%/rma_model.h %D%/job.h
check_PROGRAMS += %D%/unused.t
%C%_unused_t_SOURCES = %D%/unused.c %D%/job.h
check_PROGRAMS += %D%/call.t
%C%_call_t_SOURCES = %D%/call.c %D%/job.h
check_PROGRAMS += %D%/boot.t %D%/coll.t %D%/coll_nb.t %D%/team.t
%C%_boot_t_SOURCES = %D%/boot.c
%C%_coll_t_SOURCES = %D%/coll.c
%C%_coll_nb_t_SOURCES = %D%/coll_nb.c
%C%_team_t_SOURCES = %D%/team.c
check_PROGRAMS += %D%/rma_large.t %D%/heap.t %D%/team_heap.t %D%/atomic.t %D%/signal.t
check_PROGRAMS += %D%/many.t %D%/growth.t
%C%_growth_t_SOURCES = %D%/growth.c %D%/job.h
%C%_many_t_SOURCES = %D%/many.c %D%/job.h t/random.h
%C%_rma_large_t_SOURCES = %D%/rma_large.c %D%/job.h
%C%_heap_t_SOURCES = %D%/heap.c %D%/job.h
%C%_team_heap_t_SOURCES = %D%/team_heap.c %D%/job.h
%C%_atomic_t_SOURCES = %D%/atomic.c %D%/job.h
%C%_signal_t_SOURCES = %D%/signal.c %D%/job.h

check_PROGRAMS += %D%/graph.t
%C%_graph_t_SOURCES = %D%/graph.c %D%/graph_files.h %D%/graph_model.h %D%/job.h
check_PROGRAMS += %D%/graph_binary.t %D%/graph_formats.t
%C%_graph_binary_t_SOURCES = %D%/graph_binary.c %D%/graph_files.h %D%/graph_model.h %D%/job.h
%C%_graph_formats_t_SOURCES = %D%/graph_formats.c %D%/graph_files.h %D%/graph_model.h %D%/job.h
check_PROGRAMS += %D%/agg.t %D%/agg_overflow.t %D%/agg_stats.t %D%/batch.t %D%/route.t %D%/quiesce.t %D%/thread.t
%C%_agg_t_SOURCES = %D%/agg.c %D%/job.h
%C%_agg_overflow_t_SOURCES = %D%/agg_overflow.c %D%/job.h
%C%_agg_stats_t_SOURCES = %D%/agg_stats.c %D%/job.h
%C%_route_t_SOURCES = %D%/route.c %D%/job.h
%C%_batch_t_SOURCES = %D%/batch.c %D%/job.h
%C%_quiesce_t_SOURCES = %D%/quiesce.c %D%/job.h
%C%_thread_t_SOURCES = %D%/thread.c %D%/job.h
if HAVE_OPENMP
check_PROGRAMS += %D%/hybrid.t
endif
%C%_hybrid_t_SOURCES = %D%/hybrid.c %D%/job.h
%C%_hybrid_t_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
check_PROGRAMS += %D%/graph_runs.t
%C%_graph_runs_t_SOURCES = %D%/graph_runs.c %D%/graph_model.h %D%/job.h %D%/said.h $(graph_checkers)
check_PROGRAMS += %D%/late_handlers.t %D%/reports.t %D%/one_way.t %D%/idle.t %D%/asleep.t %D%/no_membarrier.t %D%/again.t %D%/leave.t %D%/busy.t %D%/call_limits.t
%C%_late_handlers_t_SOURCES = %D%/late_handlers.c %D%/job.h %D%/said.h
%C%_one_way_t_SOURCES = %D%/one_way.c %D%/job.h
%C%_reports_t_SOURCES = %D%/reports.c %D%/job.h
%C%_idle_t_SOURCES = %D%/idle.c %D%/job.h
%C%_no_membarrier_t_SOURCES = %D%/no_membarrier.c %D%/job.h t/forbid.h
%C%_leave_t_SOURCES = %D%/leave.c %D%/job.h
%C%_again_t_SOURCES = %D%/again.c %D%/job.h
%C%_asleep_t_SOURCES = %D%/asleep.c %D%/job.h
%C%_busy_t_SOURCES = %D%/busy.c %D%/job.h
%C%_call_limits_t_SOURCES = %D%/call_limits.c %D%/job.h
check_scripts += %D%/examples.t %D%/typed_programs.t %D%/other_headers.t
check_PROGRAMS += %D%/init.t %D%/listen.t %D%/lost.t %D%/refusals.t
%C%_init_t_SOURCES = %D%/init.c %D%/job.h %D%/said.h
%C%_listen_t_SOURCES = %D%/listen.c %D%/job.h
%C%_lost_t_SOURCES = %D%/lost.c %D%/job.h
%C%_refusals_t_SOURCES = %D%/refusals.c %D%/job.h %D%/said.h
check_PROGRAMS += %D%/fault.t %D%/info.t
%C%_fault_t_SOURCES = %D%/fault.c %D%/atomic_model.h %D%/rma_model.h %D%/job.h %D%/said.h
%C%_info_t_SOURCES = %D%/info.c %D%/job.h
check_scripts += %D%/kill.t
EXTRA_PROGRAMS += %D%/victim
check_DATA += %D%/victim
CLEANFILES += %D%/victim
%C%_victim_SOURCES = %D%/victim.c
%C%_victim_LDADD = $(public_ldadd)
check_scripts += %D%/ctx.t
EXTRA_PROGRAMS += %D%/ctx_victim
check_DATA += %D%/ctx_victim
CLEANFILES += %D%/ctx_victim
%C%_ctx_victim_SOURCES = %D%/ctx_victim.c
%C%_ctx_victim_LDADD = $(public_ldadd)
check_scripts += %D%/crash.t
EXTRA_PROGRAMS += %D%/crash
check_DATA += %D%/crash
CLEANFILES += %D%/crash
%C%_crash_SOURCES = %D%/crash.c
%C%_crash_LDADD = $(public_ldadd)
check_scripts += %D%/hex_gtp.t %D%/amr.t
check_scripts += %D%/info_tool.t %D%/listeners.t
check_PROGRAMS += %D%/target.t %D%/blocking.t %D%/in_place.t %D%/far_queue.t
%C%_target_t_SOURCES = %D%/target.c %D%/job.h
%C%_blocking_t_SOURCES = %D%/blocking.c %D%/job.h
%C%_in_place_t_SOURCES = %D%/in_place.c %D%/job.h
%C%_far_queue_t_SOURCES = %D%/far_queue.c %D%/job.h
check_PROGRAMS += %D%/sync.t
%C%_sync_t_SOURCES = %D%/sync.c %D%/job.h
check_PROGRAMS += %D%/regmem.t
%C%_regmem_t_SOURCES = %D%/regmem.c %D%/job.h
check_PROGRAMS += %D%/zones.t
%C%_zones_t_SOURCES = %D%/zones.c %D%/job.h
check_PROGRAMS += %D%/regmem_large.t
%C%_regmem_large_t_SOURCES = %D%/regmem_large.c %D%/job.h
check_PROGRAMS += %D%/buffer.t %D%/buffer_limits.t %D%/buffer_large.t
check_PROGRAMS += %D%/buffer_targets.t
%C%_buffer_targets_t_SOURCES = %D%/buffer_targets.c %D%/job.h
%C%_buffer_t_SOURCES = %D%/buffer.c %D%/job.h
%C%_buffer_limits_t_SOURCES = %D%/buffer_limits.c %D%/job.h
%C%_buffer_large_t_SOURCES = %D%/buffer_large.c %D%/job.h
check_PROGRAMS += %D%/broadcast.t
%C%_broadcast_t_SOURCES = %D%/broadcast.c %D%/job.h
check_PROGRAMS += %D%/broadcast_buffer.t
%C%_broadcast_buffer_t_SOURCES = %D%/broadcast_buffer.c %D%/buffers.h %D%/job.h
check_PROGRAMS += %D%/broadcast_team.t
%C%_broadcast_team_t_SOURCES = %D%/broadcast_team.c %D%/job.h
check_PROGRAMS += %D%/results.t
%C%_results_t_SOURCES = %D%/results.c %D%/job.h
check_PROGRAMS += %D%/shared_wait.t
%C%_shared_wait_t_SOURCES = %D%/shared_wait.c %D%/job.h
check_PROGRAMS += %D%/alloc_on.t
%C%_alloc_on_t_SOURCES = %D%/alloc_on.c %D%/job.h
check_PROGRAMS += %D%/typed.t
%C%_typed_t_SOURCES = %D%/typed.c %D%/job.h
check_PROGRAMS += %D%/lock.t
%C%_lock_t_SOURCES = %D%/lock.c %D%/job.h
check_PROGRAMS += %D%/object.t
%C%_object_t_SOURCES = %D%/object.c %D%/job.h
check_PROGRAMS += %D%/messenger.t %D%/soak.t
%C%_messenger_t_SOURCES = %D%/messenger.c %D%/message.h %D%/job.h
%C%_soak_t_SOURCES = %D%/soak.c %D%/job.h

# Every primitive at once, for a minute: five configurations of the header.
soak: %D%/soak.t soak-mcts soak-array soak-group soak-kvs
	SOAK_SECONDS=12 $(T_LOG_COMPILER) %D%/soak.t

# 300 random histories over TCP beside busy loops, in half an hour.
soak-tcp: %D%/soak.t %D%/array_soak.t %D%/lost.t
	$(srcdir)/t/soak-tcp.sh

# The long forms of tests of searches.
soak-mcts: %D%/hex_openings.t %D%/mcts_conserve.t %D%/hex_player
	CONSERVE_ROUNDS=300 PGAS_TEST_TIMEOUT=600 $(T_LOG_COMPILER) %D%/mcts_conserve.t
	OPENINGS=product PGAS_TEST_TIMEOUT=3600 $(T_LOG_COMPILER) %D%/hex_openings.t
	OPENINGS=large PGAS_TEST_TIMEOUT=3600 $(T_LOG_COMPILER) %D%/hex_openings.t
	HEX_MATCH=1000 PGAS_TEST_TIMEOUT=3600 $(T_LOG_COMPILER) $(srcdir)/%D%/hex_match.t

# Arrays: a minute of everything at once, and long forms.
soak-array: %D%/array_soak.t %D%/array_model.t %D%/array_litmus.t
	ARRAY_SOAK_SECONDS=15 $(T_LOG_COMPILER) %D%/array_soak.t
	ARRAY_ROUNDS=20 ARRAY_STEPS=200 PGAS_TEST_TIMEOUT=600 $(T_LOG_COMPILER) %D%/array_model.t
	LITMUS_ROUNDS=4000 PGAS_TEST_TIMEOUT=600 $(T_LOG_COMPILER) %D%/array_litmus.t

# Chains of replicas: 100,000 operations for each adversary, and 200 kills.
soak-group: t/unit/group_chain.t t/unit/group_kill.t
	GROUP_OPERATIONS=100000 PGAS_TEST_TIMEOUT=1800 $(T_LOG_COMPILER) t/unit/group_chain.t
	GROUP_KILLS=200 PGAS_TEST_TIMEOUT=1800 $(T_LOG_COMPILER) t/unit/group_kill.t

# Stores: a million operations against a plain table in each configuration, long histories, a value of 512 MiB.
soak-kvs: %D%/kvs_model.t %D%/kvs_history.t %D%/kvs_sizes.t
	KVS_STEPS=1000000 PGAS_TEST_TIMEOUT=600 $(T_LOG_COMPILER) %D%/kvs_model.t
	KVS_ROUNDS=60 KVS_STEPS=1900 PGAS_TEST_TIMEOUT=600 $(T_LOG_COMPILER) %D%/kvs_history.t
	KVS_LARGE=1 PGAS_TEST_MATRIX=pair PGAS_TEST_TIMEOUT=600 $(T_LOG_COMPILER) %D%/kvs_sizes.t

.PHONY: soak soak-tcp soak-mcts soak-array soak-group soak-kvs
check_PROGRAMS += %D%/far_channel.t
%C%_far_channel_t_SOURCES = %D%/far_channel.c %D%/message.h %D%/pieces.h %D%/job.h
check_PROGRAMS += %D%/mcts_conserve.t
%C%_mcts_conserve_t_SOURCES = %D%/mcts_conserve.c %D%/mcts_made.h %D%/job.h
check_PROGRAMS += %D%/mcts_memory.t
%C%_mcts_memory_t_SOURCES = %D%/mcts_memory.c %D%/job.h
check_scripts += %D%/mcts_kill.t
EXTRA_PROGRAMS += %D%/mcts_victim
check_DATA += %D%/mcts_victim
CLEANFILES += %D%/mcts_victim
%C%_mcts_victim_SOURCES = %D%/mcts_victim.c
%C%_mcts_victim_LDADD = $(public_ldadd)
check_PROGRAMS += %D%/hex_openings.t
%C%_hex_openings_t_SOURCES = %D%/hex_openings.c %D%/job.h
check_scripts += %D%/hex_match.t
EXTRA_PROGRAMS += %D%/hex_player
check_DATA += %D%/hex_player
CLEANFILES += %D%/hex_player
%C%_hex_player_SOURCES = %D%/hex_player.c
%C%_hex_player_LDADD = $(public_ldadd)
check_PROGRAMS += %D%/mcts.t %D%/mcts_control.t %D%/mcts_modes.t %D%/mcts_input.t %D%/mcts_corners.t
%C%_mcts_t_SOURCES = %D%/mcts.c %D%/mcts_run.h %D%/mcts_games.h %D%/job.h
%C%_mcts_control_t_SOURCES = %D%/mcts_control.c %D%/mcts_run.h %D%/mcts_games.h %D%/job.h
%C%_mcts_modes_t_SOURCES = %D%/mcts_modes.c %D%/mcts_run.h %D%/mcts_games.h %D%/job.h %D%/said.h
%C%_mcts_input_t_SOURCES = %D%/mcts_input.c %D%/mcts_run.h %D%/mcts_games.h %D%/job.h %D%/said.h
%C%_mcts_corners_t_SOURCES = %D%/mcts_corners.c %D%/mcts_run.h %D%/mcts_games.h %D%/job.h
check_PROGRAMS += %D%/array_lock.t
%C%_array_lock_t_SOURCES = %D%/array_lock.c %D%/job.h
check_PROGRAMS += %D%/array.t
%C%_array_t_SOURCES = %D%/array.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_many.t %D%/array_ops.t
%C%_array_many_t_SOURCES = %D%/array_many.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_sparse.t
%C%_array_sparse_t_SOURCES = %D%/array_sparse.c %D%/array_crew.h %D%/job.h
%C%_array_ops_t_SOURCES = %D%/array_ops.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_paths.t
%C%_array_paths_t_SOURCES = %D%/array_paths.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_cache.t
%C%_array_cache_t_SOURCES = %D%/array_cache.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_put.t
%C%_array_put_t_SOURCES = %D%/array_put.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_runs.t
%C%_array_runs_t_SOURCES = %D%/array_runs.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_pins.t
%C%_array_pins_t_SOURCES = %D%/array_pins.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_refusals.t
%C%_array_refusals_t_SOURCES = %D%/array_refusals.c %D%/array_crew.h %D%/job.h %D%/said.h
check_PROGRAMS += %D%/array_fair.t
%C%_array_fair_t_SOURCES = %D%/array_fair.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_model.t
%C%_array_model_t_SOURCES = %D%/array_model.c %D%/array_model.h %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_churn.t
%C%_array_churn_t_SOURCES = %D%/array_churn.c %D%/job.h
check_PROGRAMS += %D%/array_join.t
%C%_array_join_t_SOURCES = %D%/array_join.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/array_litmus.t
%C%_array_litmus_t_SOURCES = %D%/array_litmus.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/reserve.t
%C%_reserve_t_SOURCES = %D%/reserve.c %D%/job.h
check_PROGRAMS += %D%/clock_step.t
%C%_clock_step_t_SOURCES = %D%/clock_step.c %D%/job.h
check_PROGRAMS += %D%/ucx_settings.t
%C%_ucx_settings_t_SOURCES = %D%/ucx_settings.c %D%/job.h
check_PROGRAMS += %D%/few_files.t
%C%_few_files_t_SOURCES = %D%/few_files.c %D%/job.h %D%/said.h
check_PROGRAMS += %D%/scarce.t
%C%_scarce_t_SOURCES = %D%/scarce.c t/forbid.h %D%/job.h %D%/said.h
check_PROGRAMS += %D%/no_vm_copies.t
%C%_no_vm_copies_t_SOURCES = %D%/no_vm_copies.c t/forbid.h %D%/job.h %D%/said.h
check_scripts += %D%/limits.t
check_scripts += %D%/kvs_deaths.t
EXTRA_PROGRAMS += %D%/kvs_victim
check_DATA += %D%/kvs_victim
CLEANFILES += %D%/kvs_victim
%C%_kvs_victim_SOURCES = %D%/kvs_victim.c
%C%_kvs_victim_LDADD = $(public_ldadd)
check_scripts += %D%/array_kill.t
EXTRA_PROGRAMS += %D%/array_victim
check_DATA += %D%/array_victim
CLEANFILES += %D%/array_victim
%C%_array_victim_SOURCES = %D%/array_victim.c
%C%_array_victim_LDADD = $(public_ldadd)
if HAVE_OPENMP
check_PROGRAMS += %D%/array_openmp.t
endif
%C%_array_openmp_t_SOURCES = %D%/array_openmp.c %D%/array_crew.h %D%/job.h
%C%_array_openmp_t_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
check_PROGRAMS += %D%/array_soak.t
%C%_array_soak_t_SOURCES = %D%/array_soak.c %D%/array_crew.h %D%/job.h
check_PROGRAMS += %D%/verbs_three.t
%C%_verbs_three_t_SOURCES = %D%/verbs_three.c %D%/job.h
check_PROGRAMS += %D%/group.t
%C%_group_t_SOURCES = %D%/group.c %D%/job.h
check_scripts += %D%/group_kill.t
EXTRA_PROGRAMS += %D%/group_victim
check_DATA += %D%/group_victim
CLEANFILES += %D%/group_victim
%C%_group_victim_SOURCES = %D%/group_victim.c
%C%_group_victim_LDADD = $(public_ldadd)
check_PROGRAMS += %D%/rma_object.t
%C%_rma_object_t_SOURCES = %D%/rma_object.c %D%/job.h
check_PROGRAMS += %D%/call_args.t
%C%_call_args_t_SOURCES = %D%/call_args.c %D%/job.h t/pattern.h
check_PROGRAMS += %D%/args_copies.t
%C%_args_copies_t_SOURCES = %D%/args_copies.c %D%/job.h
check_PROGRAMS += %D%/args.t %D%/args_leaks.t
%C%_args_t_SOURCES = %D%/args.c %D%/args.h %D%/job.h %D%/said.h t/pattern.h
%C%_args_leaks_t_SOURCES = %D%/args_leaks.c %D%/job.h
check_scripts += %D%/call_args_kill.t
EXTRA_PROGRAMS += %D%/call_args_victim
check_DATA += %D%/call_args_victim
CLEANFILES += %D%/call_args_victim
%C%_call_args_victim_SOURCES = %D%/call_args_victim.c
%C%_call_args_victim_LDADD = $(public_ldadd)
check_PROGRAMS += %D%/call_args_threads.t
%C%_call_args_threads_t_SOURCES = %D%/call_args_threads.c %D%/job.h t/pattern.h
# Graph algorithms on random graphs: against the serial checkers of pgas_graph, and against igraph.
check_PROGRAMS += %D%/graph_checked.t
%C%_graph_checked_t_SOURCES = %D%/graph_checked.c %D%/graph_pair.h %D%/job.h $(graph_checkers)
check_PROGRAMS += %D%/graph_components.t
%C%_graph_components_t_SOURCES = %D%/graph_components.c %D%/graph_pair.h %D%/job.h $(graph_checkers)
check_PROGRAMS += %D%/graph_igraph.t
%C%_graph_igraph_t_SOURCES = %D%/graph_igraph.c %D%/graph_pair.h %D%/job.h $(graph_checkers)
%C%_graph_igraph_t_CPPFLAGS = $(AM_CPPFLAGS) $(IGRAPH_CFLAGS)
%C%_graph_igraph_t_LDADD = $(LDADD) $(IGRAPH_LIBS)
# The command pgas_graph.
check_scripts += %D%/graph_tool.t
check_scripts += %D%/graph_kill.t
check_PROGRAMS += %D%/graph_local.t
%C%_graph_local_t_SOURCES = %D%/graph_local.c %D%/job.h
# The server for clients of Redis.
check_scripts += %D%/kvsd.t
EXTRA_PROGRAMS += %D%/kvsd_client
check_DATA += %D%/kvsd_client
CLEANFILES += %D%/kvsd_client
%C%_kvsd_client_SOURCES = %D%/kvsd_client.c
%C%_kvsd_client_LDADD = $(public_ldadd)
# Files of the key-value store.
check_scripts += %D%/kvs_durable.t %D%/kvs_kill.t
EXTRA_PROGRAMS += %D%/kvs_files %D%/kvs_writer
check_DATA += %D%/kvs_files %D%/kvs_writer
CLEANFILES += %D%/kvs_files %D%/kvs_writer
%C%_kvs_files_SOURCES = %D%/kvs_files.c
%C%_kvs_files_LDADD = $(public_ldadd)
%C%_kvs_writer_SOURCES = %D%/kvs_writer.c
%C%_kvs_writer_LDADD = $(public_ldadd)
# pgas_kvsd and Redis' clients. The programs are not tests: kvsd_redis.t runs them.
check_scripts += %D%/kvsd_redis.t
redis_programs = %D%/redis_compare %D%/redis_crowd %D%/redis_pipeline
EXTRA_PROGRAMS += $(redis_programs)
check_DATA += $(redis_programs)
CLEANFILES += $(redis_programs)
%C%_redis_compare_SOURCES = %D%/redis_compare.c %D%/redis_commands.h %D%/redis_wire.h t/random.h
%C%_redis_compare_LDADD =
%C%_redis_crowd_SOURCES = %D%/redis_crowd.c %D%/redis_wire.h
%C%_redis_crowd_LDADD =
%C%_redis_pipeline_SOURCES = %D%/redis_pipeline.c
%C%_redis_pipeline_CPPFLAGS = $(AM_CPPFLAGS) $(HIREDIS_CFLAGS)
%C%_redis_pipeline_LDADD = $(HIREDIS_LIBS)
check_PROGRAMS += %D%/kvs_history.t
%C%_kvs_history_t_SOURCES = %D%/kvs_history.c %D%/array_crew.h %D%/job.h t/history.c t/history.h t/random.h
check_PROGRAMS += %D%/kvs.t %D%/kvs_whole.t %D%/kvs_no_memory.t %D%/kvs_sizes.t %D%/kvs_crowd.t %D%/kvs_model.t
%C%_kvs_t_SOURCES = %D%/kvs.c %D%/kvs_keys.h %D%/array_crew.h %D%/job.h t/pattern.h
%C%_kvs_whole_t_SOURCES = %D%/kvs_whole.c %D%/kvs_keys.h %D%/array_crew.h %D%/job.h %D%/said.h
%C%_kvs_no_memory_t_SOURCES = %D%/kvs_no_memory.c %D%/kvs_keys.h %D%/array_crew.h %D%/job.h t/pattern.h
%C%_kvs_sizes_t_SOURCES = %D%/kvs_sizes.c %D%/kvs_keys.h %D%/array_crew.h %D%/job.h t/pattern.h t/random.h
%C%_kvs_crowd_t_SOURCES = %D%/kvs_crowd.c %D%/kvs_keys.h %D%/array_crew.h %D%/job.h t/pattern.h t/random.h
%C%_kvs_model_t_SOURCES = %D%/kvs_model.c %D%/kvs_keys.h %D%/array_crew.h %D%/job.h t/pattern.h t/random.h
