#include <stddef.h>
/* Dies before its first directive. */
int main(int count, char **arguments) {
  volatile int *nothing = NULL, a[4] = {0};
  a[0] = *nothing;
#pragma omp target map(tofrom : a)
  a[1] = a[0];
  return a[1] + count + (arguments == NULL);
}
