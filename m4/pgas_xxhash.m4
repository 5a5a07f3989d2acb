# PGAS_XXHASH: hashes of keys and checksums of files. Its functions are compiled in (XXH_INLINE_ALL), so nothing links it.
AC_DEFUN([PGAS_XXHASH], [
  PGAS_DEPENDENCY([XXHASH], [xxhash], [libxxhash], [0.8.0], [xxhash.h], [XXH_VERSION_NUMBER >= 800],
    [XXH3_64bits], [-lxxhash], [libxxhash-dev], [xxhash, for keys and checksums],
    [XXH_VERSION_MAJOR XXH_VERSION_MINOR XXH_VERSION_RELEASE])
  AS_IF([test $pgas_have_XXHASH = no],
    [AC_MSG_ERROR(
      [xxhash 0.8.0 or newer is needed. On Debian: apt install libxxhash-dev; elsewhere --with-xxhash=DIR])])
])
