/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "codec.h"
#include "record_encode.h"
#include "shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As a bare record, without a look at the contract. */
static void encode(const struct rp_shape *shape, const void *record, struct rp_buf *out)
{
    out->len = 0;
    int rc = rp_record_encode(shape, record, out, NULL);
    assert(rc == 0);
    (void)rc;
}

static void check_task(struct rp_codec *codec, struct rp_bytes value)
{
    struct rp_arena arena = {0};
    struct rp_buf first = {0}, second = {0};
    struct rp_failed_task task, again;
    if (rp_codec_decode_task(codec, value, &arena, &task, NULL) == 0 && task.task_id.len > 0) {
        encode(&rp_failed_task_shape, &task, &first);
        int rc = rp_codec_decode_task(codec, rp_buf_bytes(&first), &arena, &again, NULL);
        assert(rc == 0);
        (void)rc;
        encode(&rp_failed_task_shape, &again, &second);
        assert(rp_bytes_equal(rp_buf_bytes(&first), rp_buf_bytes(&second)));
    }
    rp_buf_clear(&first);
    rp_buf_clear(&second);
    rp_arena_clear(&arena);
}

static void check_letter(struct rp_codec *codec, struct rp_bytes value)
{
    struct rp_arena arena = {0};
    struct rp_buf first = {0}, second = {0};
    struct rp_dead_letter letter, again;
    if (rp_codec_decode_dead_letter(codec, value, &arena, &letter, NULL) == 0) {
        int rc = rp_dead_letter_encode(&letter, &first, NULL);
        assert(rc == 0);
        rc = rp_codec_decode_dead_letter(codec, rp_buf_bytes(&first), &arena, &again, NULL);
        assert(rc == 0);
        rc = rp_dead_letter_encode(&again, &second, NULL);
        assert(rc == 0);
        (void)rc;
        assert(rp_bytes_equal(rp_buf_bytes(&first), rp_buf_bytes(&second)));
    }
    rp_buf_clear(&first);
    rp_buf_clear(&second);
    rp_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_codec *codec;
    if (codec == NULL && rp_codec_new(NULL, &codec, NULL) != 0)
        abort();
    check_task(codec, (struct rp_bytes){data, size});
    check_letter(codec, (struct rp_bytes){data, size});
    return 0;
}
