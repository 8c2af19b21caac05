/* SPDX-License-Identifier: Apache-2.0 */
#include "producer.h"

#include <stdio.h>
#include <stdlib.h>

#include "crash_point.h"

#define OPEN_MS 10000
#define ID_MAX  500

/* The requests that brokers apply to whatever transaction is under way, by Kafka's protocol. */
enum api { ADD_PARTITIONS = 24, ADD_OFFSETS = 25, END_TXN = 26, TXN_OFFSETS = 28 };

/* librdkafka's threads call it. */
static rd_kafka_resp_err_t heed_answer(rd_kafka_t *rk, int sockfd, const char *name, int32_t id,
                                       int16_t api, int16_t version, int32_t number, size_t size,
                                       int64_t rtt, rd_kafka_resp_err_t err, void *opaque)
{
    atomic_bool *unanswered = opaque;
    (void)rk, (void)sockfd, (void)name, (void)id, (void)version, (void)number, (void)size,
        (void)rtt;
    if (err != RD_KAFKA_RESP_ERR_NO_ERROR &&
        (api == ADD_PARTITIONS || api == ADD_OFFSETS || api == END_TXN || api == TXN_OFFSETS))
        atomic_store(unanswered, true);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t heed_answers(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *opaque,
                                        char *text, size_t size)
{
    (void)conf, (void)text, (void)size;
    return rd_kafka_interceptor_add_on_response_received(rk, "reprise", heed_answer, opaque);
}

/* Shorter than a call of the publisher's takes, so that a record that is not delivered is named,
 * and a silent broker's successor asked. librdkafka would take as long as a transaction may. */
static int limit_waits(rd_kafka_conf_t *conf, const struct rp_config *config, struct rp_error *err)
{
    static const struct rp_property delivery = {(char *)"message.timeout.ms", (char *)"15000"};
    static const struct rp_property answer = {(char *)"socket.timeout.ms", (char *)"9000"};
    char text[24];
    size_t size = sizeof text;
    bool known = rd_kafka_conf_get(conf, "transaction.timeout.ms", text, &size) == RD_KAFKA_CONF_OK;
    if (!known || strtoll(text, NULL, 10) < RP_PRODUCER_CALL_MS ||
        (rp_kafka_conf_default(conf, config, RP_KAFKA_PRODUCER, &delivery, err) == 0 &&
         rp_kafka_conf_default(conf, config, RP_KAFKA_PRODUCER, &answer, err) == 0))
        return 0;
    return -1;
}

static int make_transactional(rd_kafka_conf_t *conf, const struct rp_producer_spec *spec,
                              const char *id, struct rp_error *err)
{
    (void)rd_kafka_conf_interceptor_add_on_new(conf, "reprise", heed_answers, spec->unanswered);
    return limit_waits(conf, spec->config, err) != 0
               ? -1
               : rp_kafka_conf_set(conf, "transactional.id", id, err);
}

static rd_kafka_conf_t *make_conf(const struct rp_producer_spec *spec, const char *id,
                                  struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(spec->config, RP_KAFKA_PRODUCER, err);
    if (conf == NULL)
        return NULL;
    const struct rp_property linger = {(char *)"linger.ms", (char *)(uintptr_t)spec->linger_ms};
    rd_kafka_conf_set_dr_msg_cb(conf, spec->delivered);
    rd_kafka_conf_set_opaque(conf, spec->opaque);
    if (rp_kafka_conf_default(conf, spec->config, RP_KAFKA_PRODUCER, &linger, err) == 0 &&
        rp_kafka_conf_set(conf, "client.id", id, err) == 0 &&
        (!spec->transactional || make_transactional(conf, spec, id, err) == 0))
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

int rp_producer_new(const struct rp_producer_spec *spec, const char *suffix, rd_kafka_t **out,
                    struct rp_error *err)
{
    char id[ID_MAX];
    (void)snprintf(id, sizeof id, "%s%s", spec->id, suffix);
    rd_kafka_conf_t *conf = make_conf(spec, id, err);
    return conf == NULL ? -1 : rp_kafka_new(RD_KAFKA_PRODUCER, conf, out, err);
}

int rp_producer_fence(rd_kafka_t *rk, struct rp_error *err)
{
    RP_CRASH_POINT(init_before);
    rd_kafka_error_t *error = rd_kafka_init_transactions(rk, OPEN_MS);
    RP_CRASH_POINT(init_after);
    return error == NULL ? 0 : rp_kafka_fail_error(err, error, "init transactions");
}

int64_t rp_producer_batch_bytes(rd_kafka_t *rk)
{
    char text[24];
    size_t size = sizeof text;
    bool known =
        rd_kafka_conf_get(rd_kafka_conf(rk), "batch.size", text, &size) == RD_KAFKA_CONF_OK;
    return known ? strtoll(text, NULL, 10) : INT64_MAX;
}

rd_kafka_headers_t *rp_producer_headers(const struct rp_header *headers, size_t n)
{
    rd_kafka_headers_t *list = rd_kafka_headers_new(n);
    for (size_t i = 0; i < n; i++)
        (void)rd_kafka_header_add(list, headers[i].key.data, (ssize_t)headers[i].key.len,
                                  headers[i].value.data, (ssize_t)headers[i].value.len);
    return list;
}
