# Tests of one process. A program, two lines:
#   check_PROGRAMS += %D%/param.t
#   %C%_param_t_SOURCES = %D%/param.c
# A script: check_scripts += %D%/name.t
