# The stock libibverbs and libmlx5 on fake cards: a library that tests preload (under.h), and what /sys would show of the cards.
if HAVE_MLX5DV
check_LTLIBRARIES += %D%/libpgas-shim.la
%C%_libpgas_shim_la_SOURCES = %D%/interpose.c %D%/uverbs.c %D%/devx.c %D%/card.c %D%/shim.h \
	$(snic_sources) $(base_sources)
%C%_libpgas_shim_la_LDFLAGS = $(installed_ldflags) -module -avoid-version -shared -rpath /nowhere \
	-export-symbols-regex '^(open|open64|stat|close|write|ioctl|mmap|socket|pgasi_shim_is_here)$$'
%C%_libpgas_shim_la_LIBADD = -ldl
check_DATA += %D%/sysfs
under_shim = %D%/libpgas-shim.la %D%/sysfs
endif
check_data += %D%/sysfs.sh

%D%/sysfs: $(top_srcdir)/%D%/sysfs.sh
	$(MKDIR_P) %D%
	$(top_srcdir)/%D%/sysfs.sh $@

clean_folders += %D%/sysfs

# Tests: where libmlx5 is absent they say so.
check_PROGRAMS += %D%/providers.t %D%/chains.t
%C%_providers_t_SOURCES = %D%/providers.c %D%/pair.h %D%/under.h
EXTRA_%C%_providers_t_DEPENDENCIES = $(under_shim)
%C%_chains_t_SOURCES = %D%/chains.c %D%/pair.h %D%/under.h
EXTRA_%C%_chains_t_DEPENDENCIES = $(under_shim)
check_PROGRAMS += %D%/stock.t
%C%_stock_t_SOURCES = %D%/stock.c %D%/under.h
%C%_stock_t_LDADD = $(LDADD) $(VERBS_LIBS)
EXTRA_%C%_stock_t_DEPENDENCIES = $(under_shim)
check_PROGRAMS += %D%/group.t
%C%_group_t_SOURCES = %D%/group.c %D%/under.h t/unit/group_model.h
EXTRA_%C%_group_t_DEPENDENCIES = $(under_shim)
