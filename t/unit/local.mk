# Tests of one process. A program, two lines:
#   check_PROGRAMS += %D%/param.t
#   %C%_param_t_SOURCES = %D%/param.c
# A script: check_scripts += %D%/name.t
check_PROGRAMS += %D%/bitmap.t %D%/clock.t %D%/extents.t %D%/hash.t %D%/log.t %D%/param.t %D%/pool.t %D%/rng.t \
	%D%/status.t
%C%_bitmap_t_SOURCES = %D%/bitmap.c
%C%_clock_t_SOURCES = %D%/clock.c
%C%_extents_t_SOURCES = %D%/extents.c
%C%_hash_t_SOURCES = %D%/hash.c %D%/collisions.h
%C%_log_t_SOURCES = %D%/log.c
%C%_param_t_SOURCES = %D%/param.c
%C%_pool_t_SOURCES = %D%/pool.c
%C%_rng_t_SOURCES = %D%/rng.c
%C%_status_t_SOURCES = %D%/status.c
check_PROGRAMS += %D%/info_fill.t
%C%_info_fill_t_SOURCES = %D%/info_fill.c
check_PROGRAMS += %D%/machine.t
%C%_machine_t_SOURCES = %D%/machine.c
check_PROGRAMS += %D%/place.t %D%/progress.t
%C%_place_t_SOURCES = %D%/place.c
%C%_progress_t_SOURCES = %D%/progress.c
check_PROGRAMS += %D%/ref_tree.t
%C%_ref_tree_t_SOURCES = %D%/ref_tree.c benchmarks/ref_tree.c benchmarks/ref_tree.h
check_PROGRAMS += %D%/graph_parts.t %D%/graph_reader.t
%C%_graph_parts_t_SOURCES = %D%/graph_parts.c examples/pagerank_check.c
%C%_graph_reader_t_SOURCES = %D%/graph_reader.c
check_scripts += %D%/graph_debian.t
check_PROGRAMS += %D%/board.t
%C%_board_t_SOURCES = %D%/board.c
check_PROGRAMS += %D%/transport.t
%C%_transport_t_SOURCES = %D%/transport.c
# Tests of src/mem and src/call in a job that is one process, without MPI: see lone.h.
check_PROGRAMS += %D%/descriptor.t %D%/ring.t %D%/handler.t %D%/sync.t %D%/account.t %D%/wait.t %D%/tsan_calls.t \
    %D%/tsan_targets.t %D%/death.t %D%/ctx.t
%C%_descriptor_t_SOURCES = %D%/descriptor.c %D%/lone.c %D%/lone.h
%C%_ring_t_SOURCES = %D%/ring.c %D%/lone.c %D%/lone.h
%C%_handler_t_SOURCES = %D%/handler.c %D%/lone.c %D%/lone.h
%C%_sync_t_SOURCES = %D%/sync.c %D%/lone.c %D%/lone.h
%C%_account_t_SOURCES = %D%/account.c %D%/lone.c %D%/lone.h
%C%_wait_t_SOURCES = %D%/wait.c %D%/lone.c %D%/lone.h t/forbid.h
%C%_tsan_calls_t_SOURCES = %D%/tsan_calls.c %D%/lone.c %D%/lone.h
%C%_tsan_targets_t_SOURCES = %D%/tsan_targets.c %D%/lone.c %D%/lone.h
%C%_death_t_SOURCES = %D%/death.c %D%/lone.c %D%/lone.h
%C%_ctx_t_SOURCES = %D%/ctx.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/tsan_sync.t
%C%_tsan_sync_t_SOURCES = %D%/tsan_sync.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/tree.t
%C%_tree_t_SOURCES = %D%/tree.c
check_PROGRAMS += %D%/regmem.t
%C%_regmem_t_SOURCES = %D%/regmem.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/nb.t
%C%_nb_t_SOURCES = %D%/nb.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/regmem_rings.t
%C%_regmem_rings_t_SOURCES = %D%/regmem_rings.c %D%/lone.c %D%/lone.h
# Instructions of a call, and what is counted for that.
check_scripts += %D%/inline.t %D%/instructions.t %D%/verbs_instructions.t
EXTRA_PROGRAMS += %D%/filled
check_DATA += %D%/filled
CLEANFILES += %D%/filled
%C%_filled_SOURCES = %D%/filled.c %D%/lone.c %D%/lone.h
%C%_filled_LDADD = $(core_ldadd)
check_PROGRAMS += %D%/regmem_threads.t
%C%_regmem_threads_t_SOURCES = %D%/regmem_threads.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/route.t
%C%_route_t_SOURCES = %D%/route.c
check_PROGRAMS += %D%/tsan_helpers.t
%C%_tsan_helpers_t_SOURCES = %D%/tsan_helpers.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/strangers.t
%C%_strangers_t_SOURCES = %D%/strangers.c %D%/lone.c %D%/lone.h
# Hex, against a plain model of it.
check_PROGRAMS += %D%/hex.t %D%/hex_playouts.t
%C%_hex_t_SOURCES = %D%/hex.c %D%/collisions.h %D%/hex_model.h
%C%_hex_playouts_t_SOURCES = %D%/hex_playouts.c %D%/hex_model.h
check_PROGRAMS += %D%/op.t
%C%_op_t_SOURCES = %D%/op.c
check_PROGRAMS += %D%/array_lock_queue.t
%C%_array_lock_queue_t_SOURCES = %D%/array_lock_queue.c
check_PROGRAMS += %D%/tsan_array.t
%C%_tsan_array_t_SOURCES = %D%/tsan_array.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/array_lock.t
%C%_array_lock_t_SOURCES = %D%/array_lock.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/array_grants.t
%C%_array_grants_t_SOURCES = %D%/array_grants.c %D%/lone.c %D%/lone.h
# The coherence protocol: its table is that of the model, which spin explores, and works over a simulated network.
check_scripts += %D%/array_model.t %D%/wait_model.t
check_PROGRAMS += %D%/array_state.t %D%/array_table.t
%C%_array_state_t_SOURCES = %D%/array_state.c %D%/array_net.h
%C%_array_table_t_SOURCES = %D%/array_table.c
%C%_array_table_t_CPPFLAGS = $(AM_CPPFLAGS) -DPROTOCOL='"$(abs_top_srcdir)/src/array/protocol.pml"'
# Bytes of work queues, against golden ones and rdma-core's.
check_PROGRAMS += %D%/verbs_wqe.t %D%/verbs_cqe.t
%C%_verbs_wqe_t_SOURCES = %D%/verbs_wqe.c %D%/hex_bytes.h
%C%_verbs_cqe_t_SOURCES = %D%/verbs_cqe.c %D%/hex_bytes.h
# The software NIC between processes; it starts tools/pgas_snic.
check_PROGRAMS += %D%/snic_process.t
%C%_snic_process_t_SOURCES = %D%/snic_process.c
check_PROGRAMS += %D%/snic_lives.t
%C%_snic_lives_t_SOURCES = %D%/snic_lives.c
check_PROGRAMS += %D%/snic_strangers.t
%C%_snic_strangers_t_SOURCES = %D%/snic_strangers.c
check_scripts += %D%/snic_tool.t
check_PROGRAMS += %D%/snic_corrupt.t
%C%_snic_corrupt_t_SOURCES = %D%/snic_corrupt.c
check_PROGRAMS += %D%/verbs_tx_model.t
%C%_verbs_tx_model_t_SOURCES = %D%/verbs_tx_model.c %D%/verbs_fake.h %D%/verbs_buffers.h
# The software NIC: each of its rules, by the public functions.
check_PROGRAMS += %D%/snic_access.t %D%/snic_errors.t %D%/snic_shapes.t %D%/snic_order.t
%C%_snic_access_t_SOURCES = %D%/snic_access.c %D%/snic.h
%C%_snic_errors_t_SOURCES = %D%/snic_errors.c %D%/snic.h
%C%_snic_order_t_SOURCES = %D%/snic_order.c %D%/snic.h
%C%_snic_shapes_t_SOURCES = %D%/snic_shapes.c %D%/snic.h
check_PROGRAMS += %D%/tsan_verbs.t
%C%_tsan_verbs_t_SOURCES = %D%/tsan_verbs.c
check_PROGRAMS += %D%/verbs_tx.t
%C%_verbs_tx_t_SOURCES = %D%/verbs_tx.c %D%/verbs_buffers.h
check_PROGRAMS += %D%/snic_chains.t
%C%_snic_chains_t_SOURCES = %D%/snic_chains.c %D%/snic.h
check_PROGRAMS += %D%/snic_laps.t
%C%_snic_laps_t_SOURCES = %D%/snic_laps.c %D%/snic.h
check_PROGRAMS += %D%/snic_chain.t
%C%_snic_chain_t_SOURCES = %D%/snic_chain.c %D%/snic.h
check_PROGRAMS += %D%/snic_states.t
%C%_snic_states_t_SOURCES = %D%/snic_states.c %D%/snic_bare.h
check_PROGRAMS += %D%/snic_atomics.t
%C%_snic_atomics_t_SOURCES = %D%/snic_atomics.c %D%/snic.h
check_PROGRAMS += %D%/verbs_gid.t
%C%_verbs_gid_t_SOURCES = %D%/verbs_gid.c
check_PROGRAMS += %D%/verbs_large.t
%C%_verbs_large_t_SOURCES = %D%/verbs_large.c
# The watch between hosts, on a simulated network.
check_PROGRAMS += %D%/watch_links.t
%C%_watch_links_t_SOURCES = %D%/watch_links.c

check_PROGRAMS += %D%/watch_ring.t
%C%_watch_ring_t_SOURCES = %D%/watch_ring.c
check_PROGRAMS += %D%/verbs_info.t
%C%_verbs_info_t_SOURCES = %D%/verbs_info.c
