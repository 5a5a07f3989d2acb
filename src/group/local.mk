# floor 8: groups of replicas. The first list is also in libpgas-verbs: it uses base, wqe.h and the functions of pgas/verbs.h only.
# The second one forms groups of ranks. Add yours to one of them, a line each.
group_sources = %D%/device.c %D%/device.h %D%/latency.c %D%/latency.h %D%/window.c %D%/window.h %D%/program.c %D%/program.h
group_sources += %D%/members.c %D%/members.h %D%/records.c %D%/records.h
group_sources += %D%/wire.c %D%/wire.h %D%/link.c %D%/link.h
group_sources += %D%/replica.c %D%/replica.h %D%/peers.c %D%/requests.c %D%/changes.c
group_sources += %D%/session.c %D%/session.h %D%/copy.c %D%/chain.c %D%/forward.c
group_sources += %D%/client.c %D%/client.h %D%/state.c %D%/queues.c %D%/submit.c %D%/describe.c %D%/choose.c
group_sources += %D%/gather.c %D%/forming.h %D%/reform.c %D%/add.c
libpgas_core_la_SOURCES += $(group_sources)
libpgas_verbs_la_SOURCES += $(group_sources)
EXTRA_DIST += %D%/chain.pml
libpgas_core_la_SOURCES += %D%/calls.c %D%/calls.h %D%/calls_client.c %D%/job.c
