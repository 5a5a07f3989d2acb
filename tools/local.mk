# Installed program and the scripts of the two README commands.
#   bin_PROGRAMS += %D%/pgas_info
#   %C%_pgas_info_SOURCES = %D%/pgas_info.c
#   %C%_pgas_info_LDADD = $(public_ldadd)
#   %C%_pgas_info_LDFLAGS = $(installed_ldflags)
EXTRA_DIST += %D%/check %D%/install-deps %D%/lib.sh %D%/quickstart
bin_PROGRAMS += %D%/pgas_info
%C%_pgas_info_SOURCES = %D%/pgas_info.c %D%/listeners.c %D%/listeners.h
%C%_pgas_info_LDADD = $(public_ldadd)
%C%_pgas_info_LDFLAGS = $(installed_ldflags)
EXTRA_DIST += %D%/debian-graph
bin_PROGRAMS += %D%/pgas_snic
%C%_pgas_snic_SOURCES = %D%/pgas_snic.c
%C%_pgas_snic_LDADD = libpgas-verbs.la
%C%_pgas_snic_LDFLAGS = $(installed_ldflags)
%C%_pgas_snic_CPPFLAGS = $(AM_CPPFLAGS) -DPGAS_SNIC_VERSION='"$(PACKAGE_VERSION)"'
bin_PROGRAMS += %D%/pgas_replica
%C%_pgas_replica_SOURCES = %D%/pgas_replica.c
%C%_pgas_replica_LDADD = libpgas-verbs.la
%C%_pgas_replica_LDFLAGS = $(installed_ldflags)
%C%_pgas_replica_CPPFLAGS = $(AM_CPPFLAGS) -DPGAS_REPLICA_VERSION='"$(PACKAGE_VERSION)"'
# Serial checkers of graph algorithms, for pgas_graph and tests.
graph_checkers = %D%/graph_check.c %D%/graph_check.h %D%/graph_check_paths.c %D%/graph_check_values.c \
	%D%/graph_check_groups.c %D%/graph_check_triangles.c
bin_PROGRAMS += %D%/pgas_graph
%C%_pgas_graph_SOURCES = %D%/pgas_graph.c %D%/graph_tool.h %D%/graph_options.c %D%/graph_algorithms.c %D%/graph_sources.c \
	%D%/graph_whole.c %D%/graph_text.c %D%/graph_output.c %D%/graph_top.c %D%/graph_report.c $(graph_checkers)
%C%_pgas_graph_LDADD = $(public_ldadd)
%C%_pgas_graph_LDFLAGS = $(installed_ldflags)
%C%_pgas_graph_CFLAGS = $(AM_CFLAGS) $(PGAS_OPENMP_CFLAGS)
# Redis' protocol, for pgas_kvsd and tests.
resp_sources = %D%/resp.c %D%/resp.h %D%/resp_write.c
bin_PROGRAMS += %D%/pgas_kvsd
%C%_pgas_kvsd_SOURCES = %D%/pgas_kvsd.c %D%/kvsd.h %D%/kvsd_admin.c %D%/kvsd_batch.c %D%/kvsd_change.c %D%/kvsd_clients.c \
	%D%/kvsd_connection.c %D%/kvsd_glob.c %D%/kvsd_job.c %D%/kvsd_keys.c %D%/kvsd_loop.c %D%/kvsd_options.c \
	%D%/kvsd_strings.c %D%/kvsd_table.c $(resp_sources)
%C%_pgas_kvsd_LDADD = $(public_ldadd)
%C%_pgas_kvsd_LDFLAGS = $(installed_ldflags)
