/* rocTX's ranges, for programs that are compiled where ROCm is not installed; ROCm's own header is taken where it is. */
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef uint64_t roctx_range_id_t;
void roctxMarkA(const char *message);
int roctxRangePushA(const char *message);
int roctxRangePop(void);
roctx_range_id_t roctxRangeStartA(const char *message);
void roctxRangeStop(roctx_range_id_t id);
#ifdef __cplusplus
}
#endif
#define roctxMark(message) roctxMarkA(message)
#define roctxRangePush(message) roctxRangePushA(message)
#define roctxRangeStart(message) roctxRangeStartA(message)
