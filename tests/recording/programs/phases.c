/* Ranges of the program's own: NVTX with and without a domain, rocTX, omp_control_tool, and one that ends on another thread. */
#include <nvToolsExt.h>
#include <omp.h>
#include <roctracer/roctx.h>
#include <stdio.h>

static double x[1 << 12];

static void work(void) {
#pragma omp target teams distribute parallel for map(tofrom : x)
  for (int i = 0; i < 1 << 12; i++)
    x[i] += 1;
}

int main(void) {
  nvtxDomainHandle_t solver = nvtxDomainCreateA("solver");
  nvtxEventAttributes_t step = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                                .message.registered = nvtxDomainRegisterStringA(solver, "step")};
  nvtxRangeId_t whole = nvtxRangeStartA("whole");
  roctxRangePush("solve");
  for (int i = 0; i < 2; i++) {
    char name[32];
    snprintf(name, sizeof name, "iteration %d", i); /* the same address each time */
    omp_control_tool(64, 0, name);
    nvtxDomainRangePushEx(solver, &step);
    work();
    omp_control_tool(65, 0, NULL); /* before the range in it */
    nvtxDomainRangePop(solver);
  }
  roctxRangePop();
  nvtxRangePop(); /* of nothing */
#pragma omp parallel num_threads(2)
  {
    nvtxRangePushW(L"team \u00e9");
    work();
    if (omp_get_thread_num() == 1)
      nvtxRangeEnd(whole);
    nvtxRangePop();
  }
  nvtxRangePushA("left open");
  printf("%g\n", x[0]);
}
