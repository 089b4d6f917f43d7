/* What SLOT_PHASE says of a range that the program names: `a`. */
#pragma once
enum phase_event {
  PHASE_PUSH = 1, /* on the thread's stack of the domain */
  PHASE_POP,
  PHASE_START, /* with an id: it may end on another thread */
  PHASE_STOP
};
