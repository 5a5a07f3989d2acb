/** A C++ stream buffer over fixed memory, for serializers that write to streams: faster than
 *  std::stringstream. Values and their check are those of std::vector and std::string. */
#ifndef REF_SERIALIZE_STREAM_H
#define REF_SERIALIZE_STREAM_H

#include "benchmarks/serialize.h"

#include <stdint.h>
#include <string.h>
#include <streambuf>
#include <string>
#include <vector>

class memory_buffer : public std::streambuf
{
  public:
    memory_buffer(char *begin, char *end)
    {
        setp(begin, end);
        setg(begin, begin, end);
    }
    size_t written() const
    {
        return (size_t)(pptr() - pbase());
    }
};

struct stl_record {
    std::vector<int64_t> numbers;
    std::vector<std::string> texts;

    template <class Archive> void serialize(Archive &archive, unsigned)
    {
        archive &numbers;
        archive &texts;
    }
    void fill(const serialize_record_t *record)
    {
        numbers.assign(record->number, record->number + SERIALIZE_NUMBERS);
        for (int i = 0; i < SERIALIZE_TEXTS; i++)
            texts.emplace_back(record->text[i], SERIALIZE_TEXT_BYTES);
    }
    void change(int64_t first, char last)
    {
        numbers[0] = first;
        texts.back().back() = last;
    }
    bool has(int64_t first, char last) const
    {
        return numbers.size() == SERIALIZE_NUMBERS && texts.size() == SERIALIZE_TEXTS &&
               numbers[0] == first && texts.back().back() == last;
    }
    bool read(serialize_record_t *record_p) const
    {
        if (numbers.size() != SERIALIZE_NUMBERS || texts.size() != SERIALIZE_TEXTS)
            return false;
        memcpy(record_p->number, numbers.data(), sizeof record_p->number);
        for (int i = 0; i < SERIALIZE_TEXTS; i++) {
            if (texts[i].size() != SERIALIZE_TEXT_BYTES)
                return false;
            memcpy(record_p->text[i], texts[i].data(), SERIALIZE_TEXT_BYTES);
        }
        return true;
    }
};

#endif
