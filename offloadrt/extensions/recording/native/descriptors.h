/* Descriptors of arrays, as flang has them (ISO_Fortran_binding.h), for the recorder and for device code. */
#pragma once
#include <stdint.h>

typedef struct {
  int64_t lower, extent, stride;
} axis_t;

typedef struct {
  uint64_t base, element;
  int version;
  unsigned char rank, type, attribute, extra;
  axis_t axis[];
} descriptor_t;

/* Calls `take` for each range of bytes that an array has without gaps, from the axis on: rank - 1 for the whole array. */
static inline void each_range(const descriptor_t *array, int axis, uint64_t address,
                              void (*take)(uint64_t address, uint64_t bytes, const void *context), const void *context) {
  int64_t extent = axis < 0 ? 1 : array->axis[axis].extent, stride = axis < 0 ? (int64_t)array->element : array->axis[axis].stride;
  if (axis <= 0 && stride == (int64_t)array->element)
    take(address, (uint64_t)extent * array->element, context);
  else
    for (int64_t i = 0; i < extent; i++)
      each_range(array, axis - 1, address + (uint64_t)(i * stride), take, context);
}
