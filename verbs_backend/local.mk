# The native verbs backend. The low level stands on src/base alone and is also installed as libpgas-verbs, without MPI; the
# transport over it is in the core only. Add yours to one of the two lists, a line each.
# The software NIC's inside, which the fake cards of t/shim have too.
snic_sources = %D%/wqe.h %D%/wqe.c \
	%D%/engine.h %D%/engine.c %D%/snic_late.c %D%/snic.h %D%/snic_context.c %D%/snic_run.c %D%/snic_process.c \
	%D%/snic_socket.c
verbs_low_sources = $(snic_sources) \
	%D%/device.h \
	%D%/raw.h %D%/raw.c \
	%D%/provider_snic.c \
	%D%/tx.c %D%/bufs.c %D%/net.c \
	%D%/gid.h %D%/gid.c \
	%D%/verbs.c
if HAVE_VERBS
verbs_low_sources += %D%/port.h %D%/port.c %D%/mr.h %D%/mr.c %D%/ibv.h %D%/ibv_queue.c %D%/provider_ibv.c
endif
if HAVE_MLX5DV
verbs_low_sources += %D%/prm.h %D%/prm.c %D%/mlx5.h %D%/mlx5_qp.c %D%/provider_mlx5.c
endif
verbs_transport_sources = \
	%D%/transport.h %D%/tp.c %D%/ctx.c %D%/endpoint.c %D%/wire.c %D%/memory.c %D%/bounce.c %D%/todo.c %D%/rma.c %D%/amo.c \
	%D%/flush.c %D%/am.c %D%/receive.c %D%/lost.c

libpgas_core_la_SOURCES += $(verbs_low_sources) $(verbs_transport_sources)

lib_LTLIBRARIES += libpgas-verbs.la
libpgas_verbs_la_SOURCES = $(verbs_low_sources) $(base_sources)
libpgas_verbs_la_LIBADD = $(VERBS_LIBS)
libpgas_verbs_la_LDFLAGS = $(installed_ldflags) -version-info 0:0:0 -export-symbols-regex '^pgas_'
pkgconfig_DATA += pgas-verbs.pc
EXTRA_DIST += libpgas-verbs.pc.in %D%/README.md
