/* storage: what the stores read from Redis' replies, of whatever shape. */
#include "tests/fuzz/asks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_stores(data, size, 0);
    return 0;
}
