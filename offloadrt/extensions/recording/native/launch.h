/* What the recorder (in the program) and the device runtime (in the device image) tell each other about a launch.
 *
 * The image is a library of its own that the OpenMP runtime loads with dlopen. It finds `offload_recorder_register` with
 * dlsym when it is loaded, and registers its two functions. Without a recorder the image still plays the grid. The program
 * may have been compiled by another version than the recorder's, so both say what LAYOUT they were compiled with: a digest
 * of these headers.
 */
#pragma once
#include "counts.h"
#include <stdbool.h>
#include <stdint.h>

/* Who has used four bytes of an array last, and how. conflicts.c says what the numbers mean. */
typedef struct {
  uint32_t strand, when, site; /* strand 0: nobody */
  uint8_t bytes, synchronizes;
} mark_t;

typedef struct {
  mark_t write, read[2];
  uint32_t released; /* when an atomic operation let the others know of what was before it */
} cell_t;

/* A line of the program, and the variable of the team that is accessed there by its address, if it is known; the device image keeps their names. */
typedef struct {
  const char *file;
  uint32_t line;
  const char *variable;
} place_t;

typedef struct {
  place_t place;
  uint32_t site, way, team, thread;
} party_t;

/* Two accesses to bytes of an array that nothing orders, one of them a store. */
typedef struct {
  uint32_t array; /* UINT32_MAX: a variable of a team */
  uint64_t offset, bytes;
  party_t party[2];
} race_t;

/* An access to memory that is no array's. */
typedef struct {
  uint32_t kind, array; /* enum stray; the array that it runs over */
  uint64_t address, bytes; /* of STRAY_LOST and STRAY_UNSET, the address of the variable's name */
  party_t party;
} stray_t;

/* An array in device memory, as a traced launch sees it. */
typedef struct {
  uint64_t device, host, size;
  uint64_t load_bytes, store_bytes;
  uint64_t team_sectors[2]; /* [loads, stores]: the sum over teams of the distinct sectors that each touched */
  uint32_t *last_team[2];   /* for each sector of 32 bytes the team that touched it last, plus 1; 0: none did */
  uint32_t *first_team[2];  /* for each page of 4 KiB the team that touched it first, plus 1 */
  uint16_t *touched;        /* for each 4 bytes, a bit for each: 0 to 3 it was loaded before it was stored, 4 to 7 it was stored,
                               8 to 11 by an access that was not atomic, 12 to 15 it was loaded as a value, and not copied */
  cell_t *cells;            /* for each 4 bytes; NULL: races are not looked for */
  bool padded;              /* the bytes behind it are nobody's */
  bool is_gone;             /* it was freed, and nobody else has its memory yet */
  uint64_t below, above;    /* bytes of the host's array before and behind the section that is mapped */
  uint64_t first;           /* 1 + the bytes from the array's first element to the section; 0: it is not known */
} array_t;

typedef struct {
  /* set by the recorder */
  uint32_t traced;         /* every access is reported, and every thread of the grid is played */
  uint32_t teams, threads; /* the grid; 0 where the program leaves it open */
  uint64_t trip;           /* iterations of a combined loop; 0: not one */
  uint32_t least_teams;    /* that play a loop of more iterations, where the program leaves their number open */
  uint32_t may_shorten;    /* a combined loop may be played as one thread, for its threads are not told apart */
  uint32_t array_count;
  array_t *arrays;         /* by device address */
  uint32_t (*owner)(uint64_t address, uint32_t *array); /* of a traced launch: STRAY_HOST: it is memory of the host's own;
                              STRAY_BEFORE, STRAY_AFTER: an array of which a section is mapped would lie there; 0: nobody's */
  /* set by the device runtime */
  uint32_t entered;        /* the kernel is of an image of ours; it may have nothing to count */
  uint64_t counts[COUNTS];
  uint64_t warp_instructions, warp_sectors, warp_lanes;
  uint64_t other_load_bytes, other_store_bytes;
  uint64_t barriers, gpu_threads;
  uint32_t played_teams, played_threads;
  uint32_t asked_who;      /* the kernel asked for its team or thread number: its threads can be told apart */
  race_t *races;           /* of a traced launch: room for FINDINGS */
  stray_t *strays;
  uint32_t race_count, stray_count;
  party_t last;            /* the access that is being made */
  uint64_t last_address;
  place_t (*place_of)(uint32_t site); /* of the image that plays the kernel */
} launch_t;

typedef struct {
  void (*begin)(launch_t *);
  void (*end)(void);
} image_t;

enum { SECTOR = 32, PAGE = 4096, FINDINGS = 64 };

/* Bytes behind each block of device memory that are nobody's. A program that stores there does no harm to others, and they cost
 * no memory where nobody does. What the runtime needs for itself is small, and comes from the same heap. */
static inline uint64_t padding_of(uint64_t bytes) { return bytes < 512 ? 128 : 64 << 10; }
