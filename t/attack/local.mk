# Jobs under attack: kills, stops, strangers, starvation, partitions.
check_scripts += %D%/attack.t
check_data += %D%/attack
EXTRA_PROGRAMS += %D%/worker
check_DATA += %D%/worker
CLEANFILES += %D%/worker
%C%_worker_SOURCES = %D%/worker.c
%C%_worker_LDADD = $(public_ldadd)

# The long form, some ten minutes; ATTACK_SEED names another seed.
attack: %D%/worker
	BUILD=$(abs_top_builddir) $(abs_top_srcdir)/t/attack/attack 80 $${ATTACK_SEED:-1}

.PHONY: attack
