/* FlatBuffers for pgas_serialize. The builder is reused. A loaded record is read in place: the
 * program gets the address and size of every string. FlatBuffers' verifier does not run. */
#include "benchmarks/serialize.h"
#include "benchmarks/serialize_generated.h"

#include <string.h>
#include <string>
#include <vector>

static std::vector<int64_t> source_numbers;
static std::vector<std::string> source_texts;
static flatbuffers::FlatBufferBuilder builder(32768);
static std::vector<flatbuffers::Offset<flatbuffers::String>> offsets(SERIALIZE_TEXTS);
static const serialize::Record *loaded;
static struct {
    const char *data;
    size_t n;
} views[SERIALIZE_TEXTS];

static void flatbuffers_open(const serialize_record_t *record)
{
    source_numbers.assign(record->number, record->number + SERIALIZE_NUMBERS);
    for (int i = 0; i < SERIALIZE_TEXTS; i++)
        source_texts.emplace_back(record->text[i], SERIALIZE_TEXT_BYTES);
}

static inline void flatbuffers_change(int64_t first, char last)
{
    source_numbers[0] = first;
    source_texts.back().back() = last;
}

static inline void flatbuffers_save()
{
    builder.Clear();
    for (size_t i = 0; i < source_texts.size(); i++)
        offsets[i] = builder.CreateString(source_texts[i].data(), source_texts[i].size());
    auto texts = builder.CreateVector(offsets);
    auto numbers = builder.CreateVector(source_numbers);
    builder.Finish(serialize::CreateRecord(builder, numbers, texts));
}

static inline void flatbuffers_load()
{
    loaded = serialize::GetRecord(builder.GetBufferPointer());
    size_t n = loaded->texts()->size();
    if (n != SERIALIZE_TEXTS)
        serialize_die("FlatBuffers: not this record");
    for (size_t i = 0; i < n; i++) {
        auto text = loaded->texts()->Get((flatbuffers::uoffset_t)i);
        views[i].data = text->data();
        views[i].n = text->size();
    }
}

static inline bool flatbuffers_has(int64_t first, char last)
{
    return loaded->numbers()->Get(0) == first &&
           views[SERIALIZE_TEXTS - 1].data[SERIALIZE_TEXT_BYTES - 1] == last;
}

static bool flatbuffers_read(serialize_record_t *record_p)
{
    if (loaded->numbers()->size() != SERIALIZE_NUMBERS)
        return false;
    memcpy(record_p->number, loaded->numbers()->data(), sizeof record_p->number);
    for (int i = 0; i < SERIALIZE_TEXTS; i++) {
        if (views[i].n != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], views[i].data, SERIALIZE_TEXT_BYTES);
    }
    return true;
}

static size_t flatbuffers_bytes()
{
    return builder.GetSize();
}

SERIALIZE_DEFINE(flatbuffers)
