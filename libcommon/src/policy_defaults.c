/* SPDX-License-Identifier: Apache-2.0 */
#include "policies.h"

#define SECOND 1000

/* What the services of a Java, Python or Go shop report. A Go error's class is what %T prints, so
 * it may begin with a star, which as a glob matches itself. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The order is that of the rules: "lock wait timeout" is a deadlock before it is a timeout. */
const struct rp_builtin_category rp_builtin_categories[] = {
    {
        {{"DEADLOCK", false}, RP_PROFILE_FAST},
        WORDS("*Deadlock*", "*LockTimeout*", "*LockAcquisition*", "*CannotAcquireLock*",
              "*PessimisticLock*", "*OptimisticLock*", "*SerializationFailure*",
              "java.sql.SQLTransactionRollbackException"),
        WORDS("deadlock", "could not serialize access", "lock wait timeout"),
    },
    {
        {{"NETWORK", false}, RP_PROFILE_FAST},
        WORDS("java.net.SocketException", "java.net.NoRouteToHostException",
              "java.net.UnknownHostException", "java.net.PortUnreachableException",
              "java.io.EOFException", "java.nio.channels.ClosedChannelException",
              "java.sql.SQLTransientConnectionException", "BrokenPipeError", "socket.gaierror",
              "ConnectionError", "*.ConnectionError", "*.ConnectException", "*ConnectionReset*",
              "*ConnectionRefused*", "*ConnectionAborted*", "*ConnectionClosed*", "*net.OpError",
              "*net.DNSError"),
        WORDS("connection reset", "connection refused", "connection closed", "broken pipe",
              "no route to host", "network is unreachable", "name resolution", "no such host",
              "unexpected eof"),
    },
    {
        {{"TIMEOUT", false}, RP_PROFILE_FAST},
        WORDS("*Timeout*", "*TimedOut*", "*DeadlineExceeded*", "*.deadlineExceededError"),
        WORDS("timed out", "timeout", "deadline exceeded"),
    },
    {
        {{"RATE_LIMITED", false}, RP_PROFILE_MEDIUM},
        WORDS("*TooManyRequests*", "*RateLimit*", "*Throttl*"),
        WORDS("rate limit", "too many requests", "throttl"),
    },
    {
        {{"UNAVAILABLE", false}, RP_PROFILE_MEDIUM},
        WORDS("*ServiceUnavailable*", "*.Unavailable*", "*BadGateway*", "*CircuitBreakerOpen*",
              "*CallNotPermitted*"),
        WORDS("service unavailable", "temporarily unavailable", "bad gateway"),
    },
    {
        {{"BUSY", false}, RP_PROFILE_MEDIUM},
        WORDS("*RejectedExecution*", "*ResourceExhausted*", "*TooManyConnections*",
              "*PoolExhausted*", "*BulkheadFull*", "queue.Full"),
        WORDS("too many connections", "server is busy", "overloaded", "resource exhausted"),
    },
    {
        {{"BUG", true}, RP_PROFILE_NO_RETRY},
        WORDS("java.lang.NullPointerException", "java.lang.ClassCastException",
              "java.lang.IndexOutOfBoundsException", "java.lang.ArrayIndexOutOfBoundsException",
              "java.lang.StringIndexOutOfBoundsException", "java.lang.ArithmeticException",
              "java.lang.UnsupportedOperationException", "java.lang.NoSuchMethodError",
              "java.lang.NoClassDefFoundError", "java.lang.ClassNotFoundException",
              "java.lang.StackOverflowError", "java.lang.AssertionError", "TypeError",
              "AttributeError", "NameError", "UnboundLocalError", "IndexError", "KeyError",
              "ZeroDivisionError", "NotImplementedError", "AssertionError", "ImportError",
              "ModuleNotFoundError", "RecursionError", "runtime.boundsError",
              "*runtime.TypeAssertionError"),
        WORDS("nil pointer dereference", "index out of range"),
    },
    {
        {{"INVALID", true}, RP_PROFILE_NO_RETRY},
        WORDS("ValueError", "*IllegalArgument*", "*Validation*", "*InvalidArgument*",
              "*ConstraintViolation*", "*NumberFormat*", "*MalformedURL*", "*JsonParse*",
              "*JsonProcessing*", "*JSONDecodeError", "*UnicodeDecodeError", "*BadRequest*",
              "*json.SyntaxError", "*json.UnmarshalTypeError", "*strconv.NumError"),
        WORDS("validation failed", "invalid argument", "bad request"),
    },
    {
        {{"CONFLICT", true}, RP_PROFILE_NO_RETRY},
        WORDS("*Conflict*", "*AlreadyExists*", "*FileExistsError", "*DuplicateKey*",
              "*UniqueViolation*"),
        WORDS("already exists", "duplicate key", "conflict"),
    },
    {
        {{"UNAUTHORIZED", true}, RP_PROFILE_NO_RETRY},
        WORDS("*Unauthorized*", "*Unauthenticated*", "*Authentication*", "*AccessDenied*",
              "*Forbidden*", "*PermissionDenied*", "PermissionError",
              "java.lang.SecurityException"),
        WORDS("unauthorized", "authentication failed", "access denied", "permission denied",
              "forbidden"),
    },
    {
        {{"NOT_FOUND", true}, RP_PROFILE_NO_RETRY},
        WORDS("*NotFound*", "*NoSuchElement*", "*NoSuchFile*", "*DoesNotExist", "*fs.PathError"),
        WORDS("not found", "does not exist", "no such file"),
    },
    {
        {{"UNKNOWN", false}, RP_PROFILE_MEDIUM},
        (const char *const[]){NULL},
        (const char *const[]){NULL},
    },
};

const size_t rp_n_builtin_categories = sizeof rp_builtin_categories / sizeof *rp_builtin_categories;

/* A category that is not retried is, where a policy insists, retried as the default policy would.
 */
#define DEFAULT_BACKOFF                                                                            \
    {                                                                                              \
        RP_BACKOFF_EXPONENTIAL, 1 * SECOND, 60 * SECOND, 2000                                      \
    }

const struct rp_backoff rp_profile_backoff[RP_N_PROFILES] = {
    [RP_PROFILE_FAST] = {RP_BACKOFF_EXPONENTIAL, 100, 400, 2000},
    [RP_PROFILE_MEDIUM] = {RP_BACKOFF_EXPONENTIAL, 1 * SECOND, 16 * SECOND, 2000},
    [RP_PROFILE_NO_RETRY] = DEFAULT_BACKOFF,
};

const struct rp_schedule rp_default_schedule = {
    .stated.kind = -1,
    .max_attempts = 3,
    .backoff = DEFAULT_BACKOFF,
    .jitter_percent = 10,
};

const char *const rp_preset_names[] = {"short", "medium", "long", NULL};

const struct rp_schedule rp_presets[] = {
    {
        .stated.kind = -1,
        .max_attempts = 5, /* 4 retries: after 2, 4, 8 and 16 s */
        .backoff = {RP_BACKOFF_EXPONENTIAL, 2 * SECOND, 60 * SECOND, 2000},
        .jitter_percent = 10,
    },
    {
        .stated.kind = -1,
        .max_attempts = 7, /* 6 retries: after 30 s to 16 min */
        .backoff = {RP_BACKOFF_EXPONENTIAL, 30 * SECOND, 1800 * SECOND, 2000},
        .jitter_percent = 10,
    },
    {
        .stated.kind = -1,
        .max_attempts = 11, /* 10 retries: after 5 min to 12 h 50 min */
        .backoff = {RP_BACKOFF_EXPONENTIAL, 300 * SECOND, 86400 * SECOND, 1750},
        .jitter_percent = 10,
    },
};
