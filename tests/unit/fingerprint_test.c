/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <time.h>

#include "fingerprint.h"
#include "utf8.h"

static void masks(const char *message, const char *expected)
{
    char out[RP_MASK_MAX + 1];
    size_t n = rp_fingerprint_mask(rp_str(message), out);
    out[n] = '\0';
    assert_string_equal(out, expected);
}

static void numbers_and_durations_are_masked(void **state)
{
    (void)state;
    masks("attempt 3 of 5 took 1.5e-3 s", "attempt # of # took # s");
    masks("balance -12.50 < 1,000,000.00", "balance # < #");
    masks("context deadline exceeded after 1m30.5s", "context deadline exceeded after #");
    masks("context deadline exceeded after 500ms", "context deadline exceeded after #");
    masks("timeout: 30000ms, 5s left", "timeout: # left");
    masks("worker3 of v1.2.3 is at 87%", "worker# of v# is at #%");
    masks("HTTP/1.1 503 Service Unavailable", "HTTP/# # Service Unavailable");
    masks("12", "#");
    masks("1e+5 > 2e9x", "# > #e#x");
    masks("(+5) or x=-1, a-5", "(#) or x=#, a-#");
    masks("5msx", "#msx");
}

static void ids_are_masked(void **state)
{
    (void)state;
    masks("order 550e8400-e29b-41d4-a716-446655440000 is gone", "order <uuid> is gone");
    masks("order-550E8400-E29B-41D4-A716-446655440000.", "order-<uuid>.");
    masks("no object 507f1f77bcf86cd799439011", "no object #");
    masks("commit 1a2b3c4d5e", "commit #");
    masks("at 0x7f3a2c001b40 in module", "at # in module");
    masks("com.acme.Order@1b6d3586 is locked", "com.acme.Order@# is locked");
    masks("ULID 01ARZ3NDEKTSV4RRFFQ69G5FAV unknown", "ULID # unknown");
    masks("session aGVsbG8gd29ybGQ1NiBhbmQgc29tZSBtb3JlIDEyMw== expired", "session # expired");
    masks("pod payment-service-7d9f8b6c5d-x2x4z was evicted", "pod payment-service-# was evicted");
    masks("charge ch_1J2k3L4mN5oP6q declined", "charge ch_# declined");
    masks("a decade of facade defaced", "a decade of facade defaced"); /* hex in words only */
    masks("order 550e8400-e29b-41d4-a716-446655440000x", "order #");
    masks("1a2b3c4d5e- or 1a2b3c4d5e_", "#- or #_");
    masks("com.acme.Order@1b6d, cafe1", "com.acme.Order@#, cafe#");
    masks("0xyz, 0x1fg", "#xyz, #x#fg");
}

static void names_are_no_ids(void **state)
{
    (void)state;
    masks("NullPointerExceptionInTheOrderServiceImpl", "NullPointerExceptionInTheOrderServiceImpl");
    masks("ORDER_SERVICE_OF_THE_EUROPEAN_REGION", "ORDER_SERVICE_OF_THE_EUROPEAN_REGION");
    masks("customer1order", "customer#order");
}

static void addresses_are_masked(void **state)
{
    (void)state;
    masks("GET https://api.acme.com/v1/orders/17?x=1, failed", "GET <url>, failed");
    masks("(see http://x.y/z).", "(see <url>).");
    masks("bad url jdbc:postgresql://db-1:5432/shop?user=x", "bad url jdbc:<url>");
    masks("cannot mail bob.o+tag@mail.example.com.", "cannot mail <email>.");
    masks("connect to 10.0.0.17:5432 refused", "connect to <ip> refused");
    masks("dial tcp [::1]:9092: connection refused", "dial tcp [<ip>]:#: connection refused");
    masks("from fe80::a00:27ff:fe4e:66a1 or 00:1a:2b:3c:4d:5e", "from <ip> or <ip>");
    masks("localhost/127.0.0.1:8080", "localhost/<ip>");
    masks("std::vector<int>::at", "std::vector<int>::at");
    masks("/orders/123/items/9 in /var/log/app-2.log", "/orders/#/items/# in /var/log/app-#.log");
    masks("<http://x.y> or ab:/c or 1ab://x", "<<url>> or ab:/c or #ab://x");
    masks("bob@my-mail.acme.com- is gone", "<email>- is gone");
    masks("10.0.0.1. or 10.0.0.1x or 10.0.0.1.5", "<ip>. or #x or #");
    masks("10.0.0.1:123456", "<ip>:#");
    masks("2001:db8:0:0:0:0:2:1 or ad::x", "<ip> or ad::x");
    masks("1:2:3:4:5:6 or fe80::1x", "#:#:#:#:#:# or fe#::#x");
    masks("1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1g",
          "#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#:#g");
}

static void times_are_masked(void **state)
{
    (void)state;
    masks("expired at 2026-11-21T03:34:33.123Z", "expired at <time>");
    masks("expired at 2026-11-21 03:34:33+01:00 (UTC)", "expired at <time> (UTC)");
    masks("expired at 2026/11/21", "expired at <time>");
    masks("at 03:34:33,123 it broke", "at <time> it broke");
    masks("since Sat, 21 Nov 2026 03:34:33 GMT.", "since <time>.");
    masks("since Sat Nov 21 03:34:33 UTC 2026", "since <time>");
    masks("Nov 21 03:34:33 it broke", "<time> it broke");
    masks("Mar broke in May", "Mar broke in May");
    masks("at 03:34:33, at 03:34", "at <time>, at #:#");
    masks("2026-11-21_03:34:33-05:00", "<time>");
    masks("2026-11-21T03:34-0500", "<time>");
    masks("2026-11-21T03:34:5", "<time>:#");
    masks("03:34:33+01 or 03:34:33+01:3 or 03:34:33+5", "<time> or <time>:# or <time>+#");
    masks("2026-11-21 broke", "<time> broke");
    masks("2026-1-21 2026/11-21 2026-11-2 2026.11.21", "#-#-# #/#-# #-#-# #");
    masks("2026-11-21T03:34:33Zx", "#-#-#T#:#:#Zx");
    masks("Sat/21/Nov/2026 or Sat-21-Nov-2026", "<time> or <time>");
    masks("Nov 12345, Nov,  21 2026, Nov 21 03:34:33x", "Nov #, Nov, # #, Nov # #:#:#x");
    masks("Nov Dec 1 2, Novel 1 2", "Nov <time>, Novel # #");
    masks("Nov 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "<time> # #");
}

static void what_is_quoted_is_masked(void **state)
{
    (void)state;
    masks("KeyError: 'amount'", "KeyError: '*'");
    masks("no \"a \\\" b\" there", "no \"*\" there");
    masks("can't find `orders`, it's gone", "can't find `*`, it's gone");
    masks("no \xe2\x80\x9cK\xc3\xb6ln\xe2\x80\x9d", "no \"*\"");
    masks("an 'open end", "an 'open end");
    masks("O'Brien's account", "O'Brien's account");
    masks("one of ['a', 'b', 'c'] or [1, 2, 3]", "one of ['*'] or [#]");
    masks("one of ['d'] or [4,5]", "one of ['*'] or [#]");
    masks("a,1 or ,2", "a,# or ,#");
    masks(",1", ",#");
}

/* So that a message of any length takes little time. */
static void what_goes_on_too_far_is_not_masked(void **state)
{
    (void)state;
    char message[2000], out[RP_MASK_MAX];
    memset(message, 'x', sizeof message);
    message[0] = '\'';
    message[1500] = '\'';
    assert_int_equal(rp_fingerprint_mask((struct rp_bytes){message, 1501}, out), RP_MASK_MAX);
    assert_memory_equal(out, message, RP_MASK_MAX);
    memcpy(message, "a@", 2);
    memcpy(message + 253, ".com", 4); /* an address has at most 254 bytes */
    assert_int_equal(rp_fingerprint_mask((struct rp_bytes){message, 257}, out), RP_MASK_MAX);
    assert_memory_equal(out, message, RP_MASK_MAX);
}

/* Each line of a block is another occurrence of the same error. */
static void assert_alike(const char *const *messages)
{
    char first[RP_MASK_MAX], other[RP_MASK_MAX];
    size_t n = rp_fingerprint_mask(rp_str(messages[0]), first);
    for (size_t i = 1; messages[i] != NULL; i++) {
        size_t m = rp_fingerprint_mask(rp_str(messages[i]), other);
        if (n != m || memcmp(first, other, n) != 0)
            fail_msg("'%.*s' and '%.*s'", (int)n, first, (int)m, other);
    }
}

#define ALIKE(...) assert_alike((const char *const[]){__VA_ARGS__, NULL})

static void errors_of_postgresql_are_alike(void **state)
{
    (void)state;
    ALIKE("ERROR: duplicate key value violates unique constraint \"orders_pkey\"\n"
          "  Detail: Key (id)=(42) already exists.",
          "ERROR: duplicate key value violates unique constraint \"orders_pkey\"\n"
          "  Detail: Key (id)=(a b c) already exists.");
    ALIKE("deadlock detected\nDETAIL: Process 4711 waits for ShareLock on transaction 99887766; "
          "blocked by process 12.",
          "deadlock detected\nDETAIL: Process 5 waits for ShareLock on transaction 1; "
          "blocked by process 4713.");
    ALIKE("could not connect to server: Connection refused Is the server running on host "
          "\"10.1.2.3\" and accepting TCP/IP connections on port 5432?",
          "could not connect to server: Connection refused Is the server running on host "
          "\"db\" and accepting TCP/IP connections on port 6432?");
    ALIKE(
        "canceling statement due to lock timeout: while updating tuple (0,17) in relation \"a\"",
        "canceling statement due to lock timeout: while updating tuple (123,4) in relation \"b\"");
}

static void errors_of_java_are_alike(void **state)
{
    (void)state;
    ALIKE("Connect to api.acme.com:443 [api.acme.com/93.184.216.34] failed: Connect timed out",
          "Connect to api.acme.com:8443 [api.acme.com/10.0.0.1] failed: Connect timed out");
    ALIKE("I/O error on POST request for \"https://a.b/c/1\": Read timed out",
          "I/O error on POST request for \"https://a.b/c/27?x\": Read timed out");
    ALIKE("Cannot deserialize value of type `java.time.Instant` from String \"x\": at [Source: "
          "(String)\"{\"a\":1}\"; line: 1, column: 17]",
          "Cannot deserialize value of type `java.time.Instant` from String \"2026\": at [Source: "
          "(String)\"{\"a\":222}\"; line: 12, column: 3]");
    ALIKE("HikariPool-1 - Connection is not available, request timed out after 30001ms.",
          "HikariPool-2 - Connection is not available, request timed out after 29876ms.");
    ALIKE("Index 5 out of bounds for length 5", "Index 17 out of bounds for length 3");
    ALIKE("Optimistic lock failed: Order{id=7f3c2a1b-1234-4abc-8def-0123456789ab, version=3}",
          "Optimistic lock failed: Order{id=aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee, version=12}");
    ALIKE("Batch containing 12 record(s) expired due to timeout while requesting metadata for "
          "orders-3",
          "Batch containing 1 record(s) expired due to timeout while requesting metadata for "
          "orders-11");
}

static void errors_of_python_are_alike(void **state)
{
    (void)state;
    ALIKE("HTTPSConnectionPool(host='api.acme.com', port=443): Max retries exceeded with url: "
          "/v1/orders/99 (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object "
          "at 0x7f0a1b2c3d4e>: Failed to establish a new connection'))",
          "HTTPSConnectionPool(host='b', port=8443): Max retries exceeded with url: "
          "/v1/orders/123456 (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection "
          "object at 0x7f999999999>: Failed to establish a new connection'))");
    ALIKE("Expecting value: line 1 column 1 (char 0)",
          "Expecting value: line 20 column 7 (char 812)");
    ALIKE("invalid literal for int() with base 10: 'abc'",
          "invalid literal for int() with base 10: ''");
    ALIKE("[Errno 111] Connection refused", "[Errno 104] Connection refused");
    ALIKE("(psycopg.errors.UniqueViolation) Key (email)=(a@b.com) already exists.",
          "(psycopg.errors.UniqueViolation) Key (email)=(someone else) already exists.");
}

static void errors_of_go_are_alike(void **state)
{
    (void)state;
    ALIKE("Get \"http://10.0.0.7:8080/health\": dial tcp 10.0.0.7:8080: i/o timeout",
          "Get \"http://10.0.0.19:8080/health\": dial tcp 10.0.0.19:8080: i/o timeout");
    ALIKE("read tcp 10.1.2.3:49152->10.1.2.4:5432: read: connection reset by peer",
          "read tcp 10.9.9.9:1->10.1.2.5:5432: read: connection reset by peer");
    ALIKE("panic: runtime error: index out of range [5] with length 3 [recovered] goroutine 18",
          "panic: runtime error: index out of range [11] with length 0 [recovered] goroutine 4711");
    ALIKE("rpc error: code = DeadlineExceeded desc = context deadline exceeded after 2.5s",
          "rpc error: code = DeadlineExceeded desc = context deadline exceeded after 1m0s");
    ALIKE("open /tmp/upload-1234567890/part-3: no such file or directory",
          "open /tmp/upload-99/part-12: no such file or directory");
    ALIKE(
        "x509: certificate has expired or is not yet valid: current time 2026-11-21T06:00:00Z is "
        "after 2026-11-20T23:59:59Z",
        "x509: certificate has expired or is not yet valid: current time 2027-01-01T06:00:00+01:00 "
        "is after 2026-12-31T23:59:59Z");
}

static void errors_of_aws_are_alike(void **state)
{
    (void)state;
    ALIKE("AccessDenied (Service: Amazon S3; Status Code: 403; Request ID: 4442587FB7D0A2F9; "
          "S3 Extended Request ID: vPuR8kLq0n2ZJH0B5gQ9y3p1Xx7c6a4sW5t2e8r1u0i9o3p7a=)",
          "AccessDenied (Service: Amazon S3; Status Code: 403; Request ID: 79104EXAMPLEB723; "
          "S3 Extended Request ID: "
          "IOWQ4fDEXAMPLEQM+ey7N9WgVhSnQ6JEXAMPLEZb7hSQDASK+Jd1vEXAMPLEa3Km)");
}

static void other_errors_differ(void **state)
{
    (void)state;
    char a[RP_MASK_MAX], b[RP_MASK_MAX];
    size_t n = rp_fingerprint_mask(rp_str("Read timed out"), a);
    size_t m = rp_fingerprint_mask(rp_str("Connect timed out"), b);
    assert_false(n == m && memcmp(a, b, n) == 0);
}

static void whatever_comes_is_clean_text_of_bounded_length(void **state)
{
    (void)state;
    char out[RP_MASK_MAX];
    masks("", "");
    masks(" \t a\r\n\n b\x01\x7f ", "a b");
    masks("a\xc2\x85z\xc3\xb6", "a z\xc3\xb6");
    masks("bad \xff\xc3 bytes", "bad \xef\xbf\xbd\xef\xbf\xbd bytes");
    assert_int_equal(rp_fingerprint_mask((struct rp_bytes){"a\0b", 3}, out), 3);
    assert_memory_equal(out, "a b", 3);
    char *text = malloc(100000);
    assert_non_null(text);
    for (size_t i = 0; i + 1 < 100000; i += 2)
        memcpy(text + i, "\xc3\xb6", 2);
    text[0] = ' ';
    size_t n = rp_fingerprint_mask((struct rp_bytes){text, 100000}, out);
    assert_true(n > RP_MASK_MAX - 4);
    assert_true(rp_utf8_valid((struct rp_bytes){out, n}));
    memset(text, '7', 100000);
    assert_int_equal(rp_fingerprint_mask((struct rp_bytes){text, 100000}, out), 1);
    memset(text, '\'', 100000);
    (void)rp_fingerprint_mask((struct rp_bytes){text, 100000}, out);
    free(text);
    assert_int_equal(rp_fingerprint_mask(RP_NULL_BYTES, out), 0);
}

static double seconds(const char *part, size_t n)
{
    char out[RP_MASK_MAX], *text = malloc(n);
    size_t len = strlen(part);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = part[i % len];
    clock_t begun = clock();
    (void)rp_fingerprint_mask((struct rp_bytes){text, n}, out);
    clock_t ended = clock();
    free(text);
    return (double)(ended - begun) / CLOCKS_PER_SEC;
}

static void each_byte_is_looked_at_a_few_times_at_most(void **state)
{
    (void)state;
    const size_t n = (size_t)8 << 20;
    double one_word = seconds("a", n);
    assert_true(seconds("a+", n) < 5 * one_word);
    assert_true(seconds("a1/", n) < 5 * one_word);
    assert_true(seconds("1_", n) < 5 * one_word);
}

/* It is in people's databases: a change needs another RP_FINGERPRINT_VERSION. */
static void the_fingerprint_is_stable(void **state)
{
    (void)state;
    struct rp_bytes type = rp_str("payment"), none = RP_NULL_BYTES;
    assert_int_equal(RP_FINGERPRINT_VERSION, 1);
    assert_int_equal(rp_fingerprint(type, rp_str("E"), rp_str("m")), INT64_C(0x7f341adf49e02063));
    assert_true(rp_fingerprint(type, rp_str("Em"), rp_str("")) !=
                rp_fingerprint(type, rp_str("E"), rp_str("m")));
    assert_true(rp_fingerprint(none, none, rp_str("m")) !=
                rp_fingerprint(rp_str(""), rp_str(""), rp_str("m")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_durations_are_masked),
        cmocka_unit_test(ids_are_masked),
        cmocka_unit_test(names_are_no_ids),
        cmocka_unit_test(addresses_are_masked),
        cmocka_unit_test(times_are_masked),
        cmocka_unit_test(what_is_quoted_is_masked),
        cmocka_unit_test(what_goes_on_too_far_is_not_masked),
        cmocka_unit_test(errors_of_postgresql_are_alike),
        cmocka_unit_test(errors_of_java_are_alike),
        cmocka_unit_test(errors_of_python_are_alike),
        cmocka_unit_test(errors_of_go_are_alike),
        cmocka_unit_test(errors_of_aws_are_alike),
        cmocka_unit_test(other_errors_differ),
        cmocka_unit_test(whatever_comes_is_clean_text_of_bounded_length),
        cmocka_unit_test(each_byte_is_looked_at_a_few_times_at_most),
        cmocka_unit_test(the_fingerprint_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
