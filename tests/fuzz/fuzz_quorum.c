/* storage/quorum: what follows from the replies of three or five servers, which are made up,
 * late, missing or alike; some servers cannot be reached. */
#include "tests/fuzz/asks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t servers = fuzz_byte(&input);

    fuzz_stores(input.data, input.size, servers & 1 ? 5 : 3);
    return 0;
}
