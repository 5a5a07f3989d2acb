/* cereal for pgas_serialize: its binary archives over fixed memory. Records are loaded into the
 * same vectors and strings each time. */
#include "benchmarks/ref_serialize_stream.hh"

#include <cereal/archives/binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <istream>
#include <ostream>

static char archive[32768];
static size_t archive_bytes;
static stl_record source, loaded;

static void cereal_open(const serialize_record_t *record)
{
    source.fill(record);
}

static inline void cereal_change(int64_t first, char last)
{
    source.change(first, last);
}

static inline void cereal_save()
{
    memory_buffer buffer(archive, archive + sizeof archive);
    std::ostream stream(&buffer);
    cereal::BinaryOutputArchive out(stream);
    out(source.numbers, source.texts);
    archive_bytes = buffer.written();
}

static inline void cereal_load()
{
    memory_buffer buffer(archive, archive + archive_bytes);
    std::istream stream(&buffer);
    cereal::BinaryInputArchive in(stream);
    in(loaded.numbers, loaded.texts);
}

static inline bool cereal_has(int64_t first, char last)
{
    return loaded.has(first, last);
}

static bool cereal_read(serialize_record_t *record_p)
{
    return loaded.read(record_p);
}

static size_t cereal_bytes()
{
    return archive_bytes;
}

SERIALIZE_DEFINE(cereal)
