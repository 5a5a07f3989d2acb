# Queue pairs on a device of this machine, or of a virtual one: t/vm/rxe.t runs them there.
check_PROGRAMS += %D%/queues.t
%C%_queues_t_SOURCES = %D%/queues.c %D%/sides.h
check_PROGRAMS += %D%/group.t
%C%_group_t_SOURCES = %D%/group.c %D%/sides.h t/unit/group_model.h
check_scripts += %D%/devices.t
