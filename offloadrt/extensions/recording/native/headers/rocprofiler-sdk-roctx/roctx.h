#include "../roctx.h"
