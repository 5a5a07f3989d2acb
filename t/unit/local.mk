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
check_PROGRAMS += %D%/library.t
%C%_library_t_SOURCES = %D%/library.c
check_PROGRAMS += %D%/machine.t
%C%_machine_t_SOURCES = %D%/machine.c
check_PROGRAMS += %D%/place.t %D%/progress.t
%C%_place_t_SOURCES = %D%/place.c
%C%_progress_t_SOURCES = %D%/progress.c
check_PROGRAMS += %D%/ref_tree.t
%C%_ref_tree_t_SOURCES = %D%/ref_tree.c benchmarks/ref_tree.c benchmarks/ref_tree.h
check_PROGRAMS += %D%/ycsb.t
%C%_ycsb_t_SOURCES = %D%/ycsb.c benchmarks/ycsb.c benchmarks/ycsb.h
%C%_ycsb_t_LDADD = $(LDADD) -lm
check_scripts += %D%/kvs_client.t
check_PROGRAMS += %D%/ref_graph.t
%C%_ref_graph_t_SOURCES = %D%/ref_graph.c benchmarks/ref_crew.c benchmarks/ref_crew.h benchmarks/ref_graph.c \
	benchmarks/ref_graph.h benchmarks/ref_graph_lists.c benchmarks/ref_graph_paths.c
check_PROGRAMS += %D%/graph_parts.t %D%/graph_reader.t
%C%_graph_parts_t_SOURCES = %D%/graph_parts.c
check_PROGRAMS += %D%/graph_input.t
%C%_graph_input_t_SOURCES = %D%/graph_input.c
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
check_PROGRAMS += %D%/poller.t
check_PROGRAMS += %D%/group_calls.t
%C%_group_calls_t_SOURCES = %D%/group_calls.c %D%/lone.c %D%/lone.h
%C%_poller_t_SOURCES = %D%/poller.c %D%/lone.c %D%/lone.h
%C%_account_t_SOURCES = %D%/account.c %D%/lone.c %D%/lone.h
%C%_wait_t_SOURCES = %D%/wait.c %D%/lone.c %D%/lone.h t/forbid.h
%C%_tsan_calls_t_SOURCES = %D%/tsan_calls.c %D%/lone.c %D%/lone.h
%C%_tsan_targets_t_SOURCES = %D%/tsan_targets.c %D%/lone.c %D%/lone.h
%C%_death_t_SOURCES = %D%/death.c %D%/lone.c %D%/lone.h
%C%_ctx_t_SOURCES = %D%/ctx.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/ahead.t
%C%_ahead_t_SOURCES = %D%/ahead.c %D%/lone.c %D%/lone.h

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
# The replicated log of examples/replog: its format and its recovery.
check_PROGRAMS += %D%/replog.t
%C%_replog_t_SOURCES = %D%/replog.c examples/replog/format.c examples/replog/format.h examples/replog/recover.c \
    examples/replog/look.c examples/replog/recover.h examples/replog/scan.c examples/replog/scan.h
# The octree of examples/amr.
check_PROGRAMS += %D%/amr_tree.t
%C%_amr_tree_t_SOURCES = %D%/amr_tree.c examples/amr/tree.c examples/amr/adapt.c examples/amr/amr.h
check_PROGRAMS += %D%/op.t
%C%_op_t_SOURCES = %D%/op.c
check_PROGRAMS += %D%/array_lock_queue.t
%C%_array_lock_queue_t_SOURCES = %D%/array_lock_queue.c
check_PROGRAMS += %D%/array_map.t
%C%_array_map_t_SOURCES = %D%/array_map.c
check_PROGRAMS += %D%/tsan_array.t
%C%_tsan_array_t_SOURCES = %D%/tsan_array.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/array_lock.t
%C%_array_lock_t_SOURCES = %D%/array_lock.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/array_grants.t
%C%_array_grants_t_SOURCES = %D%/array_grants.c %D%/lone.c %D%/lone.h
# The coherence protocol: its table is that of the model, which spin explores, and works over a simulated network.
check_scripts += %D%/array_model.t %D%/wait_model.t %D%/ahead_model.t %D%/group_model.t %D%/stamps_model.t
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
# pgas_replica, and the log that is replicated by it.
check_scripts += %D%/replica_tool.t %D%/replog_kill.t
check_data += %D%/replicas.sh
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
check_PROGRAMS += %D%/snic_laps.t %D%/snic_recycle.t
%C%_snic_laps_t_SOURCES = %D%/snic_laps.c %D%/snic.h
%C%_snic_recycle_t_SOURCES = %D%/snic_recycle.c %D%/snic.h
check_PROGRAMS += %D%/snic_chain.t
%C%_snic_chain_t_SOURCES = %D%/snic_chain.c %D%/snic.h
check_PROGRAMS += %D%/snic_states.t
%C%_snic_states_t_SOURCES = %D%/snic_states.c %D%/snic_bare.h
check_PROGRAMS += %D%/snic_atomics.t
%C%_snic_atomics_t_SOURCES = %D%/snic_atomics.c %D%/snic.h
# Groups of replicas: their side of the connections.
check_PROGRAMS += %D%/group_wire.t
%C%_group_wire_t_SOURCES = %D%/group_wire.c
check_PROGRAMS += %D%/group_replica.t
%C%_group_replica_t_SOURCES = %D%/group_replica.c %D%/group_bare.h
check_PROGRAMS += %D%/group_drain.t
%C%_group_drain_t_SOURCES = %D%/group_drain.c %D%/group_bare.h
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
check_PROGRAMS += %D%/group_program.t
%C%_group_program_t_SOURCES = %D%/group_program.c
check_PROGRAMS += %D%/group_window.t %D%/group_latency.t
%C%_group_window_t_SOURCES = %D%/group_window.c
%C%_group_latency_t_SOURCES = %D%/group_latency.c
check_PROGRAMS += %D%/group_chain.t
%C%_group_chain_t_SOURCES = %D%/group_chain.c %D%/group_model.h
check_PROGRAMS += %D%/group_members.t
%C%_group_members_t_SOURCES = %D%/group_members.c
check_PROGRAMS += %D%/group_forward.t
%C%_group_forward_t_SOURCES = %D%/group_forward.c %D%/group_bare.h
check_PROGRAMS += %D%/group_stopped.t %D%/group_idle.t %D%/group_nic.t
%C%_group_stopped_t_SOURCES = %D%/group_stopped.c %D%/group_children.h
%C%_group_idle_t_SOURCES = %D%/group_idle.c %D%/group_children.h
%C%_group_nic_t_SOURCES = %D%/group_nic.c
check_PROGRAMS += %D%/group_client.t
%C%_group_client_t_SOURCES = %D%/group_client.c %D%/group_model.h
check_PROGRAMS += %D%/group_reform.t
%C%_group_reform_t_SOURCES = %D%/group_reform.c %D%/group_model.h %D%/group_bare.h
check_PROGRAMS += %D%/group_add.t
%C%_group_add_t_SOURCES = %D%/group_add.c %D%/group_model.h %D%/group_bare.h
check_PROGRAMS += %D%/group_kill.t
%C%_group_kill_t_SOURCES = %D%/group_kill.c %D%/group_children.h t/random.h
# Registered objects and vectors of them.
check_PROGRAMS += %D%/rma_object.t
%C%_rma_object_t_SOURCES = %D%/rma_object.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/rma_threads.t
%C%_rma_threads_t_SOURCES = %D%/rma_threads.c %D%/lone.c %D%/lone.h
check_PROGRAMS += %D%/archive.t %D%/archive_model.t %D%/archive_large.t
%C%_archive_t_SOURCES = %D%/archive.c
%C%_archive_model_t_SOURCES = %D%/archive_model.c
%C%_archive_large_t_SOURCES = %D%/archive_large.c
check_scripts += %D%/archive_inline.t
# Described types: each kind by hand, and random values.
check_PROGRAMS += %D%/describe.t %D%/describe_model.t
check_scripts += %D%/describe_compile.t %D%/describe_random.t
check_data += %D%/describe_random.awk %D%/describe_random.h
%C%_describe_t_SOURCES = %D%/describe.c %D%/describe_types.h
%C%_describe_model_t_SOURCES = %D%/describe_model.c %D%/describe_oracle.h %D%/describe_types.h
check_PROGRAMS += %D%/call_archive.t
%C%_call_archive_t_SOURCES = %D%/call_archive.c %D%/lone.c %D%/lone.h t/pattern.h
check_PROGRAMS += %D%/tsan_call_archive.t
%C%_tsan_call_archive_t_SOURCES = %D%/tsan_call_archive.c %D%/lone.c %D%/lone.h t/pattern.h
# The serial checkers of pgas_graph, on graphs made by hand.
check_PROGRAMS += %D%/graph_check.t
%C%_graph_check_t_SOURCES = %D%/graph_check.c $(graph_checkers)
check_PROGRAMS += %D%/kvs_parts.t
%C%_kvs_parts_t_SOURCES = %D%/kvs_parts.c
# Redis' protocol.
check_PROGRAMS += %D%/resp.t
%C%_resp_t_SOURCES = %D%/resp.c $(resp_sources)
# Files of the key-value store.
check_PROGRAMS += %D%/kvs_record.t %D%/kvs_log.t %D%/kvs_newest.t
%C%_kvs_newest_t_SOURCES = %D%/kvs_newest.c
%C%_kvs_record_t_SOURCES = %D%/kvs_record.c %D%/kvs_records.h t/random.h
%C%_kvs_log_t_SOURCES = %D%/kvs_log.c %D%/kvs_records.h t/random.h
check_PROGRAMS += %D%/history.t
%C%_history_t_SOURCES = %D%/history.c t/history.c t/history.h t/random.h
check_PROGRAMS += %D%/tsan_kvs_part.t
%C%_tsan_kvs_part_t_SOURCES = %D%/tsan_kvs_part.c t/history.c t/history.h t/pattern.h t/random.h
