# Hosts as network namespaces.
check_scripts += %D%/cluster.t %D%/deaths.t
check_data += %D%/agent %D%/hosts.sh %D%/run
EXTRA_PROGRAMS += %D%/quiet_victim
check_DATA += %D%/quiet_victim
CLEANFILES += %D%/quiet_victim
%C%_quiet_victim_SOURCES = %D%/quiet_victim.c
%C%_quiet_victim_LDADD = $(public_ldadd)
