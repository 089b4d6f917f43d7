/* What the recorder (in the program) and the device runtime (in the device image) tell each other about a launch.
 *
 * The image is a library of its own that the OpenMP runtime loads with dlopen. It finds `offload_recorder_image` with dlsym
 * when it is loaded, and registers its two functions. Without a recorder the image still plays the grid.
 */
#pragma once
#include "counts.h"
#include <stdint.h>

/* An array in device memory, as a traced launch sees it. */
typedef struct {
  uint64_t device, host, size;
  uint64_t load_bytes, store_bytes;
  uint64_t team_sectors[2]; /* [loads, stores]: the sum over teams of the distinct sectors that each touched */
  uint32_t *last_team[2];   /* for each sector of 32 bytes the team that touched it last, plus 1; 0: none did */
  uint32_t *first_team[2];  /* for each page of 4 KiB the team that touched it first, plus 1 */
} array_t;

typedef struct {
  /* set by the recorder */
  uint32_t traced;         /* every access is reported, and every thread of the grid is played */
  uint32_t teams, threads; /* the grid; 0 where the program leaves it open */
  uint64_t trip;           /* iterations of a combined loop; 0: not one */
  uint32_t may_shorten;    /* a combined loop may be played as one thread, for its threads are not told apart */
  uint32_t array_count;
  array_t *arrays;         /* by device address */
  /* set by the device runtime */
  uint64_t counts[COUNTS];
  uint64_t warp_instructions, warp_sectors, warp_lanes;
  uint64_t other_load_bytes, other_store_bytes;
  uint64_t barriers, gpu_threads;
  uint32_t played_teams, played_threads;
  uint32_t asked_who;      /* the kernel asked for its team or thread number: its threads can be told apart */
} launch_t;

typedef struct {
  void (*begin)(launch_t *);
  void (*end)(void);
} image_t;

enum { SECTOR = 32, PAGE = 4096 };
