# libFuzzer targets: each is one file fuzz_NAME.c with LLVMFuzzerTestOneInput. t/fuzz/run finds them by name; the list
# is for distribution. Add yours as: fuzz_targets += %D%/fuzz_NAME
fuzz_targets =
check_scripts += %D%/fuzz.t
check_data += %D%/run

fuzz:
	$(top_srcdir)/t/fuzz/run 60

# What t/fuzz/run makes, corpora too.
clean-local:
	-rm -rf %D%/work

.PHONY: fuzz
fuzz_targets += %D%/fuzz_param %D%/fuzz_message %D%/fuzz_sgf
fuzz_targets += %D%/fuzz_graph_names %D%/fuzz_graph_el %D%/fuzz_graph_mtx %D%/fuzz_graph_wel %D%/fuzz_graph_gr \
	%D%/fuzz_graph_metis %D%/fuzz_graph_adj %D%/fuzz_graph_ldbc %D%/fuzz_graph_unpack %D%/fuzz_graph_binary
check_data += %D%/graph_reader.h %D%/require.h
fuzz_targets += %D%/fuzz_wqe %D%/fuzz_cqe
fuzz_targets += %D%/fuzz_group
fuzz_targets += %D%/fuzz_replica
fuzz_targets += %D%/fuzz_archive
fuzz_targets += %D%/fuzz_describe
fuzz_targets += %D%/fuzz_resp
fuzz_targets += %D%/fuzz_kvs_files
