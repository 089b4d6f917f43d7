#define SUFFIX
#include "collectives.h"

#define COUNT int
#define PLACE int
#include "messages.h"
