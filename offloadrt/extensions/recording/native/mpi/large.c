#define SUFFIX _c
#include "collectives.h"

#if MPI_VERSION >= 4
#define LARGE
#define COUNT MPI_Count
#define PLACE MPI_Aint
#include "messages.h"
#endif
