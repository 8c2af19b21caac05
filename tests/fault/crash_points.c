/* SPDX-License-Identifier: Apache-2.0 */
#include "crash_point.h"

#include <stdio.h>

/* Prints the crash points: number, name, and the services that come there. */
#define PRINT(number, name, services) (void)printf("%d\t%s\t%s\n", number, #name, services);

int main(void)
{
    RP_CRASH_POINTS(PRINT)
    return 0;
}
