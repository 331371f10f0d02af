// SPDX-License-Identifier: MIT
// The threads of the regions of studies: as many as the library gives the calling thread.
#include "core/team.h"

#include "studies/studies.h"

// What it gave is not kept here, where nothing would notice a fork: so team_asked stays as it is, and it is asked
// again.
void make_team(int32_t threads) { team_size = poisson_threads(threads); }

extern "C" int32_t poisson_studies_abi_version(void) { return POISSON_ABI_VERSION; }
