/* SPDX-License-Identifier: Apache-2.0 */
#include "process_metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static int append(struct rp_buf *out, const char *type, const char *name, const char *help,
                  double value, struct rp_error *err)
{
    char text[512];
    int n = snprintf(text, sizeof text, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name,
                     type, name, value);
    return rp_buf_append(out, text, (size_t)n, err);
}

/* -1: unknown. */
static double resident_bytes(void)
{
    unsigned long size, resident;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL)
        return -1;
    int n = fscanf(f, "%lu %lu", &size, &resident);
    (void)fclose(f);
    return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : -1;
}

static double open_files(void)
{
    double n = -3; /* ".", "..", and the folder that is being read */
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return -1;
    while (readdir(folder) != NULL)
        n++;
    (void)closedir(folder);
    return n;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int rp_process_metrics_write(struct rp_buf *out, struct rp_error *err)
{
    double resident = resident_bytes(), files = open_files();
    struct rusage usage;
    if (resident >= 0 && append(out, "gauge", "process_resident_memory_bytes", "Resident memory.",
                                resident, err) != 0)
        return -1;
    if (files >= 0 &&
        append(out, "gauge", "process_open_fds", "Open files and sockets.", files, err) != 0)
        return -1;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return append(out, "counter", "process_cpu_seconds_total", "CPU time, user and system.",
                  seconds(usage.ru_utime) + seconds(usage.ru_stime), err);
}
