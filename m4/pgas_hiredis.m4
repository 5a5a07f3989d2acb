# PGAS_HIREDIS: hiredis. Only t/spmd/redis_pipeline uses it, as a client of pgas_kvsd.
AC_DEFUN([PGAS_HIREDIS], [
  PGAS_DEPENDENCY([HIREDIS], [hiredis], [hiredis], [0.14], [hiredis/hiredis.h], [HIREDIS_MAJOR > 0 || HIREDIS_MINOR >= 14],
    [redisConnect], [-lhiredis], [libhiredis-dev], [hiredis, a client with which a test calls pgas_kvsd],
    [HIREDIS_MAJOR HIREDIS_MINOR HIREDIS_PATCH])
])
