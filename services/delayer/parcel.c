/* SPDX-License-Identifier: Apache-2.0 */
#include "parcel.h"

#include <assert.h>

#define N_FIELDS  6u
#define NULL_SIZE UINT32_MAX

/* In front of the fields' bytes, which follow one after another. */
struct parcel_head {
    int64_t due_ms, first_failed_at_ms;
    int32_t attempt;
    uint32_t sizes[N_FIELDS]; /* NULL_SIZE: null */
};

static void fields_of(struct parcel *p, struct rp_bytes *fields[N_FIELDS])
{
    fields[0] = &p->passage.task_id;
    fields[1] = &p->passage.target;
    fields[2] = &p->passage.policy;
    fields[3] = &p->passage.replay_id;
    fields[4] = &p->key;
    fields[5] = &p->value;
}

int parcel_put(struct hold *hold, const struct parcel *parcel, uint64_t *out_handle,
               struct rp_error *err)
{
    struct parcel copy = *parcel;
    struct rp_bytes *fields[N_FIELDS], parts[N_FIELDS + 1];
    struct parcel_head head = {
        .due_ms = parcel->passage.due_ms,
        .first_failed_at_ms = parcel->passage.first_failed_at_ms,
        .attempt = parcel->passage.attempt,
    };
    fields_of(&copy, fields);
    parts[0] = (struct rp_bytes){&head, sizeof head};
    for (size_t i = 0; i < N_FIELDS; i++) {
        assert(fields[i]->len < NULL_SIZE); /* Kafka's own lengths are 31 bits */
        head.sizes[i] = fields[i]->data == NULL ? NULL_SIZE : (uint32_t)fields[i]->len;
        parts[i + 1] = *fields[i];
    }
    return hold_put(hold, parts, N_FIELDS + 1, out_handle, err);
}

void parcel_read(struct rp_bytes bytes, struct parcel *out)
{
    struct parcel_head head;
    struct rp_bytes *fields[N_FIELDS];
    const uint8_t *p = bytes.data;
    memcpy(&head, p, sizeof head);
    p += sizeof head;
    *out = (struct parcel){.passage = {
                               .attempt = head.attempt,
                               .due_ms = head.due_ms,
                               .first_failed_at_ms = head.first_failed_at_ms,
                           }};
    fields_of(out, fields);
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (head.sizes[i] == NULL_SIZE)
            continue;
        *fields[i] = (struct rp_bytes){p, head.sizes[i]};
        p += head.sizes[i];
    }
    assert(p == (const uint8_t *)bytes.data + bytes.len);
}
