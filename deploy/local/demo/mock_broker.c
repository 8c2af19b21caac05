/* SPDX-License-Identifier: Apache-2.0 */
/* librdkafka's mock cluster as a process of its own, for machines without Java. Makes the topics
 * that it is given, prints its address, and serves until it is told to stop. It keeps its records
 * in memory and has no transactions worth the name, so nothing that it shows is a proof. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "reprise-mock-broker: %s: %s\n", what, why);
    return 1;
}

/* NAME or NAME:PARTITIONS. */
static int make_topic(rd_kafka_mock_cluster_t *cluster, const char *arg)
{
    char name[250];
    int partitions = 1;
    size_t len = strcspn(arg, ":");
    if (len == 0 || len >= sizeof name)
        return fail(arg, "not NAME:PARTITIONS");
    memcpy(name, arg, len);
    name[len] = '\0';
    if (arg[len] == ':') {
        char *end;
        long n = strtol(arg + len + 1, &end, 10);
        if (*end != '\0' || n < 1 || n > 1000)
            return fail(arg, "partitions are a number from 1 to 1000");
        partitions = (int)n;
    }
    rd_kafka_resp_err_t rc = rd_kafka_mock_topic_create(cluster, name, partitions, 1);
    return rc == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : fail(arg, rd_kafka_err2str(rc));
}

static int serve(rd_kafka_mock_cluster_t *cluster, char **topics, const sigset_t *stop)
{
    int sig;
    rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0);
    /* The mock names broker 0 as its controller and numbers its own from 1. */
    rd_kafka_resp_err_t rc = rd_kafka_mock_broker_add(cluster, 0);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return fail("a controller", rd_kafka_err2str(rc));
    for (; *topics != NULL; topics++)
        if (make_topic(cluster, *topics) != 0)
            return 1;
    if (puts(rd_kafka_mock_cluster_bootstraps(cluster)) == EOF || fflush(stdout) != 0)
        return fail("standard output", strerror(errno));
    return sigwait(stop, &sig) == 0 ? 0 : fail("sigwait", strerror(errno));
}

int main(int argc, char **argv)
{
    char why[256];
    sigset_t stop;
    rd_kafka_mock_cluster_t *cluster = NULL;
    int rc = 1;

    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: reprise-mock-broker TOPIC[:PARTITIONS]...\n");
        return 2;
    }
    /* Nobody else could find it, and stop it, once whoever started it is gone. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
        return fail("prctl", strerror(errno));
    /* Blocked before librdkafka starts its threads, which inherit the mask. */
    if (sigemptyset(&stop) != 0 || sigaddset(&stop, SIGINT) != 0 ||
        sigaddset(&stop, SIGTERM) != 0 || sigprocmask(SIG_BLOCK, &stop, NULL) != 0)
        return fail("signals", strerror(errno));
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, why, sizeof why);
    if (rk == NULL)
        return fail("cannot make a Kafka client", why);
    cluster = rd_kafka_mock_cluster_new(rk, 1);
    if (cluster == NULL)
        (void)fail("cannot start", "the mock cluster refuses");
    else
        rc = serve(cluster, argv + 1, &stop);
    if (cluster != NULL)
        rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(rk);
    return rc;
}
