/* what: The reader of adj may get any bytes. Reading ends with a status. A refusal has a line and a
 *       reason. Cutting the bytes into pieces makes no difference. Accepted numbers are in range.
 * source: public headers; libFuzzer
 * Input: two bytes that say where to cut, then the text. */
#include "t/fuzz/graph_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    return fuzz_reader(PGAS_GRAPH_ADJ, data, n_bytes);
}
