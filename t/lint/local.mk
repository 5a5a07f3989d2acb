# Tests that read the sources, and tests of the harness itself. Add a script as: check_scripts += %D%/NAME.t
check_scripts += %D%/args.t %D%/calls.t %D%/configure.t %D%/format.t %D%/getenv.t %D%/clocks.t %D%/harness.t %D%/headers.t \
	%D%/includes.t %D%/install.t %D%/interface.t %D%/mutants.t %D%/page.t %D%/quickstart.t \
	%D%/readme.t %D%/symbols.t %D%/tools.t %D%/typed.t
check_data += %D%/calls.awk %D%/floors.awk %D%/includes.awk %D%/interface.awk

# What harness.t looks at.
EXTRA_PROGRAMS += %D%/liar
check_DATA += %D%/liar
CLEANFILES += %D%/liar
%C%_liar_SOURCES = %D%/liar.c
%C%_liar_LDADD = t/libspmd.la $(MPI_LIBS)
