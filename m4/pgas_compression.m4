# PGAS_COMPRESSION: zlib and libzstd, for graphs in compressed files. Both are optional, and opened when such a file is read.
AC_DEFUN([PGAS_COMPRESSION], [
  PGAS_DEPENDENCY([ZLIB], [zlib], [zlib], [1.2.3], [zlib.h], [ZLIB_VERNUM >= 0x1230], [inflate], [-lz], [zlib1g-dev],
    [zlib, for graphs compressed by gzip], [ZLIB_VER_MAJOR ZLIB_VER_MINOR ZLIB_VER_REVISION])
  PGAS_DEPENDENCY([ZSTD], [zstd], [libzstd], [1.4.0], [zstd.h], [ZSTD_VERSION_NUMBER >= 10400],
    [ZSTD_decompressStream], [-lzstd], [libzstd-dev], [libzstd, for graphs compressed by zstd],
    [ZSTD_VERSION_MAJOR ZSTD_VERSION_MINOR ZSTD_VERSION_RELEASE])
])
