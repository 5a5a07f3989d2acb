# The native verbs backend: transport/ includes queue/, queue/ includes snic/, and both of these include wqe.h. The two lower
# folders stand on src/base alone and are also installed as libpgas-verbs, without MPI; the transport is in the core only.
# Add a file to one of the lists, a line each.
# The software NIC, which the fake cards of t/shim contain too.
snic_sources = %D%/wqe.h %D%/wqe.c \
	%D%/snic/snic.h %D%/snic/inside.h %D%/snic/lock.c %D%/snic/descriptor.c %D%/snic/view.c %D%/snic/device.c %D%/snic/objects.c \
	%D%/snic/engine.h %D%/snic/engine.c %D%/snic/chain.c %D%/snic/responder.c %D%/snic/memory.c %D%/snic/receive.c \
	%D%/snic/completion.c %D%/snic/adversary.c %D%/snic/late.c %D%/snic/run.c %D%/snic/process.h %D%/snic/client.c \
	%D%/snic/process.c %D%/snic/socket.c
verbs_queue_sources = $(snic_sources) \
	%D%/queue/device.h %D%/queue/devices.c %D%/queue/verbs.c \
	%D%/queue/raw.h %D%/queue/raw_setup.c %D%/queue/raw.c \
	%D%/queue/snic_qp.h %D%/queue/snic_qp.c %D%/queue/provider_snic.c \
	%D%/queue/tx.c \
	%D%/queue/gid.h %D%/queue/gid.c
if HAVE_VERBS
verbs_queue_sources += %D%/queue/library.h %D%/queue/library.c %D%/queue/port.h %D%/queue/port.c %D%/queue/mr.h %D%/queue/mr.c \
	%D%/queue/ibv.h %D%/queue/ibv_qp.c %D%/queue/ibv_queue.c %D%/queue/provider_ibv.c
endif
if HAVE_MLX5DV
verbs_queue_sources += %D%/queue/prm.h %D%/queue/prm.c %D%/queue/mlx5.h %D%/queue/mlx5_qp.c %D%/queue/provider_mlx5.c
endif
verbs_transport_sources = \
	%D%/transport/format.h %D%/transport/inside.h %D%/transport/tp.c %D%/transport/rails.c %D%/transport/ctx.c %D%/transport/endpoint.c \
	%D%/transport/cm.h %D%/transport/cm.c %D%/transport/cm_socket.c %D%/transport/cm_listen.c %D%/transport/hosts.c \
	%D%/transport/lost.c %D%/transport/memory.c %D%/transport/bounce.c %D%/transport/pending.h %D%/transport/pending.c \
	%D%/transport/rma.c %D%/transport/amo.c %D%/transport/flush.c %D%/transport/am.c %D%/transport/receive.h \
	%D%/transport/receive.c %D%/transport/inbound.c

libpgas_core_la_SOURCES += $(verbs_queue_sources) $(verbs_transport_sources)

lib_LTLIBRARIES += libpgas-verbs.la
libpgas_verbs_la_SOURCES = $(verbs_queue_sources) $(base_sources)
libpgas_verbs_la_LIBADD = $(VERBS_RPATH)
libpgas_verbs_la_LDFLAGS = $(installed_ldflags) $(interface_ldflags)
EXTRA_libpgas_verbs_la_DEPENDENCIES = $(top_srcdir)/src/libpgas.map
pkgconfig_DATA += pgas-verbs.pc
EXTRA_DIST += libpgas-verbs.pc.in %D%/README.md %D%/queue/README.md %D%/snic/README.md %D%/transport/README.md
