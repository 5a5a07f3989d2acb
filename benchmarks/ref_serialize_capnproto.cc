/* Cap'n Proto for pgas_serialize. The first segment is reused memory, and the archive is the list
 * of segments. A loaded record is read in place: the program gets the address and size of every
 * text. */
#include "benchmarks/serialize.h"
#include "benchmarks/serialize.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <optional>
#include <string.h>
#include <string>
#include <vector>

static std::vector<int64_t> source_numbers;
static std::vector<std::string> source_texts;
static capnp::word scratch[4096];
static std::optional<capnp::MallocMessageBuilder> builder;
static std::optional<capnp::SegmentArrayMessageReader> reader;
static size_t archive_bytes;
static capnp::List<int64_t>::Reader numbers;
static struct {
    const char *data;
    size_t n;
} views[SERIALIZE_TEXTS];

static void capnproto_open(const serialize_record_t *record)
{
    source_numbers.assign(record->number, record->number + SERIALIZE_NUMBERS);
    for (int i = 0; i < SERIALIZE_TEXTS; i++)
        source_texts.emplace_back(record->text[i], SERIALIZE_TEXT_BYTES);
}

static inline void capnproto_change(int64_t first, char last)
{
    source_numbers[0] = first;
    source_texts.back().back() = last;
}

/* The end of a builder makes its scratch memory zero again. */
static inline void capnproto_save()
{
    reader.reset();
    builder.reset();
    builder.emplace(kj::arrayPtr(scratch, sizeof scratch / sizeof *scratch));
    auto record = builder->initRoot<serialize::Record>();
    auto to = record.initNumbers((unsigned)source_numbers.size());
    for (unsigned i = 0; i < source_numbers.size(); i++)
        to.set(i, source_numbers[i]);
    auto texts = record.initTexts((unsigned)source_texts.size());
    for (unsigned i = 0; i < source_texts.size(); i++)
        texts.set(i,
                  kj::arrayPtr((const kj::byte *)source_texts[i].data(), source_texts[i].size()));
}

static inline void capnproto_load()
{
    reader.emplace(builder->getSegmentsForOutput());
    auto record = reader->getRoot<serialize::Record>();
    numbers = record.getNumbers();
    auto texts = record.getTexts();
    if (texts.size() != SERIALIZE_TEXTS)
        serialize_die("Cap'n Proto: not this record");
    for (unsigned i = 0; i < texts.size(); i++) {
        auto text = texts[i];
        views[i].data = (const char *)text.begin();
        views[i].n = text.size();
    }
}

static inline bool capnproto_has(int64_t first, char last)
{
    return numbers[0] == first && views[SERIALIZE_TEXTS - 1].data[SERIALIZE_TEXT_BYTES - 1] == last;
}

static bool capnproto_read(serialize_record_t *record_p)
{
    if (numbers.size() != SERIALIZE_NUMBERS)
        return false;
    for (unsigned i = 0; i < SERIALIZE_NUMBERS; i++)
        record_p->number[i] = numbers[i];
    for (int i = 0; i < SERIALIZE_TEXTS; i++) {
        if (views[i].n != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], views[i].data, SERIALIZE_TEXT_BYTES);
    }
    return true;
}

static size_t capnproto_bytes()
{
    archive_bytes = 0;
    for (auto segment : builder->getSegmentsForOutput())
        archive_bytes += segment.size() * sizeof(capnp::word);
    return archive_bytes;
}

SERIALIZE_DEFINE(capnproto)
