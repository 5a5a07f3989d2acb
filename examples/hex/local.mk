# The program build/examples/hex/hex: Hex by Monte-Carlo tree search, for Hex front ends.
noinst_PROGRAMS += %D%/hex
%C%_hex_SOURCES = %D%/main.c %D%/settings.c %D%/gtp.c %D%/commands_play.c %D%/commands_search.c %D%/commands_set.c \
    %D%/input.c %D%/game.c %D%/sgf_syntax.c %D%/sgf_game.c %D%/sgf_file.c %D%/engine.c %D%/think.c %D%/report.c %D%/clock.c \
    %D%/batch.c %D%/hexprog.h %D%/sgf.h
%C%_hex_LDADD = $(public_ldadd)
