# PGAS_SERIALIZERS: other libraries that save and load records. Only benchmarks/pgas_serialize uses them, to compare. Each
# is optional, and so is the C++ compiler that some of them need. pgas_serializers: the names of those that were found.
AC_DEFUN([PGAS_SERIALIZERS], [
  AC_ARG_WITH([serializers],
    [AS_HELP_STRING([--with-serializers=yes|no|auto], [other serializers, for a benchmark @<:@auto@:>@])],
    [], [with_serializers=auto])
  AS_CASE([$with_serializers], [yes|no|auto], [],
    [AC_MSG_ERROR([--with-serializers=$with_serializers: yes, no or auto; the system's packages are used])])
  AC_LANG_PUSH([C++])
  pgas_save_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=gnu++17"
  AC_MSG_CHECKING([for a C++17 compiler])
  pgas_have_cxx=no
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <optional>
#include <string>]], [[std::optional<std::string> text; return text ? 1 : 0;]])], [pgas_have_cxx=yes])
  AC_MSG_RESULT([$pgas_have_cxx])
  AC_LANG_POP([C++])
  AM_CONDITIONAL([HAVE_CXX], [test $pgas_have_cxx = yes])

  pgas_serializers= pgas_serializers_missing= SERIALIZER_LIBS=
  PGAS_SERIALIZER([PROTOBUF_C], [protobuf-c], [C], [protoc-c], [-lprotobuf-c], [libprotobuf-c-dev protobuf-c-compiler],
    [[#include <protobuf-c/protobuf-c.h>]], [[return protobuf_c_version() == NULL;]])
  PGAS_SERIALIZER([NANOPB], [nanopb], [C], [nanopb_generator nanopb_generator.py], [-lprotobuf-nanopb], [libnanopb-dev nanopb],
    [[#include <pb_encode.h>]], [[pb_ostream_t stream = pb_ostream_from_buffer(NULL, 0); return stream.bytes_written != 0;]])
  PGAS_SERIALIZER([MSGPACK], [msgpack-c], [C], [], [-lmsgpackc], [libmsgpack-dev],
    [[#include <msgpack.h>]], [[return msgpack_version() == NULL;]])
  PGAS_SERIALIZER([LIBCBOR], [libcbor], [C], [], [-lcbor], [libcbor-dev],
    [[#include <cbor.h>]], [[return cbor_new_null() == NULL;]])
  PGAS_SERIALIZER([FLATBUFFERS], [flatbuffers], [C++], [flatc], [], [libflatbuffers-dev flatbuffers-compiler],
    [[#include <flatbuffers/flatbuffers.h>]], [[flatbuffers::FlatBufferBuilder builder; return builder.GetSize() != 0;]])
  PGAS_SERIALIZER([CAPNPROTO], [capnproto], [C++], [capnp], [-lcapnp -lkj], [libcapnp-dev capnproto],
    [[#include <capnp/message.h>]], [[capnp::MallocMessageBuilder builder; return builder.sizeInWords() > 9;]])
  PGAS_SERIALIZER([CEREAL], [cereal], [C++], [], [], [libcereal-dev],
    [[#include <cereal/archives/binary.hpp>
#include <sstream>]], [[std::stringstream stream; cereal::BinaryOutputArchive out(stream); return !stream;]])
  PGAS_SERIALIZER([BOOST], [boost], [C++], [], [-lboost_serialization], [libboost-serialization-dev],
    [[#include <boost/archive/binary_oarchive.hpp>
#include <sstream>]], [[std::stringstream stream; boost::archive::binary_oarchive out(stream); return !stream;]])
  AS_IF([test "$with_serializers" = yes && test -n "$pgas_serializers_missing"],
    [AC_MSG_ERROR([--with-serializers was asked for; on Debian: apt install$pgas_serializers_missing])])
  CXXFLAGS=$pgas_save_CXXFLAGS
  AC_SUBST([SERIALIZER_LIBS])
  AC_SUBST([PGAS_SERIALIZERS], [$pgas_serializers])
])

# PGAS_SERIALIZER(PREFIX, NAME, LANGUAGE, COMPILERS, LIBS, DEBIAN-PACKAGES, PROLOGUE, BODY)
# COMPILERS: names of the program that makes code from a description, substituted as PREFIX_COMPILER; one of them is enough.
AC_DEFUN([PGAS_SERIALIZER], [
  pgas_have_serializer=no
  AS_IF([test "$with_serializers" != no && m4_if([$3], [C++], [test $pgas_have_cxx = yes], [:])], [
    m4_ifnblank([$4], [AC_PATH_PROGS([$1_COMPILER], [$4])])
    AC_LANG_PUSH([$3])
    AC_MSG_CHECKING([for $2])
    pgas_save_LIBS=$LIBS
    LIBS="$5 $LIBS"
    AS_IF([m4_ifnblank([$4], [test -n "$$1_COMPILER"], [:])],
      [AC_LINK_IFELSE([AC_LANG_PROGRAM([$7], [$8])], [pgas_have_serializer=yes])])
    LIBS=$pgas_save_LIBS
    AC_MSG_RESULT([$pgas_have_serializer])
    AC_LANG_POP([$3])])
  AS_IF([test $pgas_have_serializer = yes],
    [pgas_serializers="$pgas_serializers${pgas_serializers:+ }$2" SERIALIZER_LIBS="$5 $SERIALIZER_LIBS"],
    [pgas_serializers_missing="$pgas_serializers_missing $6"])
  AM_CONDITIONAL([HAVE_$1], [test $pgas_have_serializer = yes])
])
