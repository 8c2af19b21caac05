/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_MESSAGE_READER_H
#define REPRISE_MESSAGE_READER_H

#include "message.h"
#include "schema.h"

/* What the payload is; of Avro also its schema, which lives as long as the reader, and where it
 * begins. Fails as the registry does. */
RP_NODISCARD int rp_payload_form_of(struct rp_message_reader *reader, struct rp_bytes payload,
                                    enum rp_payload_form *form, const struct rp_schema **schema,
                                    size_t *prefix, struct rp_error *err);

#endif
