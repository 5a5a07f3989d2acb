/** One-sided transfers of elements: puts into another rank's heap, before a message that announces
 *  the elements. The callers are serving (msg/serve.h). */
#ifndef PGASI_ARRAY_PUT_H
#define PGASI_ARRAY_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "array/array.h"

/** Puts bytes at an offset in a rank's heap. They are visible there before that rank runs messages
 *  that the caller sends to it afterwards. data is in this rank's heap and does not change before
 *  the rank answers such a message.
 *  @return true: the put has started
 *          false: nothing has happened, and messages have to carry the data. Messages to the rank
 *          do not travel by puts, its heap's key is not known yet, or the transport has no room */
bool pgasi_array_put(pgasi_array_t *a, int to, uint64_t offset, const void *data, size_t bytes);

#endif
