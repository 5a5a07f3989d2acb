/* Boost.Serialization for pgas_serialize: its binary archives over fixed memory. Records are loaded
 * into the same vectors and strings each time. */
#include "benchmarks/ref_serialize_stream.hh"

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

static char archive[32768];
static size_t archive_bytes;
static stl_record source, loaded;

static void boost_open(const serialize_record_t *record)
{
    source.fill(record);
}

static inline void boost_change(int64_t first, char last)
{
    source.change(first, last);
}

static inline void boost_save()
{
    memory_buffer buffer(archive, archive + sizeof archive);
    boost::archive::binary_oarchive out(buffer, boost::archive::no_header);
    out << source;
    archive_bytes = buffer.written();
}

static inline void boost_load()
{
    memory_buffer buffer(archive, archive + archive_bytes);
    boost::archive::binary_iarchive in(buffer, boost::archive::no_header);
    in >> loaded;
}

static inline bool boost_has(int64_t first, char last)
{
    return loaded.has(first, last);
}

static bool boost_read(serialize_record_t *record_p)
{
    return loaded.read(record_p);
}

static size_t boost_bytes()
{
    return archive_bytes;
}

SERIALIZE_DEFINE(boost)
