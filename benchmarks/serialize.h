/** The record of pgas_serialize, and the interface of the serializers that it compares. C and C++
 *  include this file.
 *
 *  The record has 1000 numbers and 100 strings, as in the comparison cpp-serializers. Each
 *  serializer has the record in its usual form. One operation saves that form into an archive and
 *  loads the archive into a second form. Two values change before each operation and are read after
 *  it. The whole last record of a run is compared later. */
#ifndef SERIALIZE_H
#define SERIALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SERIALIZE_NUMBERS    1000
#define SERIALIZE_TEXTS      100
#define SERIALIZE_TEXT_BYTES 86

/** All values of the record, contiguous. */
typedef struct {
    int64_t number[SERIALIZE_NUMBERS];
    char text[SERIALIZE_TEXTS][SERIALIZE_TEXT_BYTES];
} serialize_record_t;

/** A serializer. */
typedef struct {
    /* Makes the serializer's form of the record. The program calls it once. */
    void (*open)(const serialize_record_t *record);
    /* Runs n operations. @return the number of wrong records */
    uint64_t (*run)(uint64_t n);
    /* Copies the record that was loaded last. @return false: it has other numbers of elements */
    bool (*read)(serialize_record_t *record_p);
    /* Returns the bytes of the last archive, without data that stay in place. */
    size_t (*bytes)(void);
} serialize_peer_t;

/** Serializers that are not in this build have the address NULL. */
#define SERIALIZE_PEER(NAME) extern const serialize_peer_t serialize_##NAME __attribute__((weak))
SERIALIZE_PEER(in_place);
SERIALIZE_PEER(packed);
SERIALIZE_PEER(memcpy);
SERIALIZE_PEER(limit_in_place);
SERIALIZE_PEER(limit_packed);
SERIALIZE_PEER(protobuf_c);
SERIALIZE_PEER(nanopb);
SERIALIZE_PEER(msgpack);
SERIALIZE_PEER(libcbor);
SERIALIZE_PEER(flatbuffers);
SERIALIZE_PEER(capnproto);
SERIALIZE_PEER(cereal);
SERIALIZE_PEER(boost);

/** Makes the serializer from static functions NAME_open, NAME_read, NAME_bytes, and these:
 *      void NAME_change(int64_t first, char last)  sets the first number and the last character
 *      void NAME_save(void)
 *      void NAME_load(void)                        frees the memory of the load before
 *      bool NAME_has(int64_t first, char last)     of the loaded record */
#define SERIALIZE_DEFINE(NAME)                                                        \
    static uint64_t NAME##_run(uint64_t n)                                            \
    {                                                                                 \
        uint64_t n_wrong = 0;                                                         \
        for (uint64_t i = 0; i < n; i++) {                                            \
            NAME##_change((int64_t)i, (char)i);                                       \
            NAME##_save();                                                            \
            __asm__ volatile("" ::: "memory");                                        \
            NAME##_load();                                                            \
            __asm__ volatile("" ::: "memory");                                        \
            n_wrong += !NAME##_has((int64_t)i, (char)i);                              \
        }                                                                             \
        return n_wrong;                                                               \
    }                                                                                 \
    extern const serialize_peer_t serialize_##NAME;                                   \
    const serialize_peer_t serialize_##NAME = { NAME##_open, NAME##_run, NAME##_read, \
                                                NAME##_bytes };

/** Ends the program after an error of a serializer. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void serialize_die(const char *what);

#ifdef __cplusplus
}
#endif
#endif
