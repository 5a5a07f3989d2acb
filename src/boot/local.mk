# floor 1: MPI and hwloc. Add yours as: libpgas_core_la_SOURCES += %D%/NAME.c %D%/NAME.h
libpgas_core_la_SOURCES += %D%/boot.h %D%/hooks.c %D%/hooks.h %D%/wait.c %D%/wait.h
libpgas_core_la_SOURCES += %D%/internal.h %D%/board.h %D%/board.c %D%/job.c %D%/launch.c %D%/start.c \
	%D%/limits.c %D%/node.c %D%/shm.c %D%/place.c %D%/team.c %D%/team_make.c %D%/coll.c %D%/coll_direct.c %D%/coll_node.c %D%/coll_mpi.c %D%/coll_nb.c \
	%D%/ring.c %D%/ring.h %D%/watch.c %D%/watch.h %D%/watch_start.c %D%/procs.c %D%/links.c %D%/connection.c %D%/connection.h %D%/socket.c %D%/address.c %D%/report.c
EXTRA_DIST += %D%/wait.pml
