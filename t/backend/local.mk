# Tests of the transport's ops table over each backend (their header has tls:). As in t/spmd.
check_PROGRAMS += %D%/ucx_rma.t %D%/ucx_amo.t %D%/ucx_am.t %D%/ucx_wake.t %D%/ucx_death.t %D%/ucx_ctxs.t \
	%D%/ucx_default.t %D%/verbs_corners.t %D%/verbs_left.t %D%/verbs_rails.t
%C%_ucx_rma_t_SOURCES = %D%/ucx_rma.c %D%/world.c %D%/world.h
%C%_ucx_amo_t_SOURCES = %D%/ucx_amo.c %D%/world.c %D%/world.h
%C%_ucx_am_t_SOURCES = %D%/ucx_am.c %D%/world.c %D%/world.h
%C%_ucx_wake_t_SOURCES = %D%/ucx_wake.c %D%/world.c %D%/world.h
%C%_ucx_death_t_SOURCES = %D%/ucx_death.c
%C%_ucx_ctxs_t_SOURCES = %D%/ucx_ctxs.c %D%/world.c %D%/world.h
%C%_ucx_default_t_SOURCES = %D%/ucx_default.c %D%/world.c %D%/world.h
%C%_verbs_corners_t_SOURCES = %D%/verbs_corners.c %D%/world.c %D%/world.h
%C%_verbs_left_t_SOURCES = %D%/verbs_left.c %D%/world.c %D%/world.h
%C%_verbs_rails_t_SOURCES = %D%/verbs_rails.c %D%/world.c %D%/world.h
