# The program build/examples/amr/amr: adaptive mesh refinement by calls with registered vectors.
noinst_PROGRAMS += %D%/amr
%C%_amr_SOURCES = %D%/main.c %D%/settings.c %D%/mesh.c %D%/tree.c %D%/adapt.c %D%/block.c %D%/strip.c %D%/exchange.c %D%/message.c \
    %D%/report.c %D%/amr.h %D%/message.h
%C%_amr_LDADD = $(public_ldadd) -lm
