# Tests of one process. A program, two lines:
#   check_PROGRAMS += %D%/param.t
#   %C%_param_t_SOURCES = %D%/param.c
# A script: check_scripts += %D%/name.t
check_PROGRAMS += %D%/bitmap.t %D%/clock.t %D%/extents.t %D%/hash.t %D%/log.t %D%/param.t %D%/pool.t %D%/rng.t \
	%D%/status.t
%C%_bitmap_t_SOURCES = %D%/bitmap.c
%C%_clock_t_SOURCES = %D%/clock.c
%C%_extents_t_SOURCES = %D%/extents.c
%C%_hash_t_SOURCES = %D%/hash.c
%C%_log_t_SOURCES = %D%/log.c
%C%_param_t_SOURCES = %D%/param.c
%C%_pool_t_SOURCES = %D%/pool.c
%C%_rng_t_SOURCES = %D%/rng.c
%C%_status_t_SOURCES = %D%/status.c
check_PROGRAMS += %D%/place.t
%C%_place_t_SOURCES = %D%/place.c
check_PROGRAMS += %D%/graph_parts.t %D%/graph_reader.t
%C%_graph_parts_t_SOURCES = %D%/graph_parts.c
%C%_graph_reader_t_SOURCES = %D%/graph_reader.c
check_scripts += %D%/graph_debian.t
check_PROGRAMS += %D%/board.t
%C%_board_t_SOURCES = %D%/board.c
check_PROGRAMS += %D%/transport.t
%C%_transport_t_SOURCES = %D%/transport.c
