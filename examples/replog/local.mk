# The program build/examples/replog/replog: a replicated log over a group of pgas_replica. It needs no MPI.
noinst_PROGRAMS += %D%/replog
%C%_replog_SOURCES = %D%/main.c %D%/append.c %D%/read.c %D%/bench.c %D%/writer.c %D%/lock.c %D%/store.c %D%/recover.c \
    %D%/open.c %D%/repair.c %D%/look.c %D%/scan.c %D%/format.c %D%/commands.h %D%/writer.h %D%/lock.h %D%/store.h %D%/recover.h %D%/scan.h %D%/format.h
%C%_replog_LDADD = libpgas-verbs.la
